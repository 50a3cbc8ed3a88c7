//! English names of countries: the only place that needs them, because everything else speaks in codes.

/// ISO 3166 codes and names, one to a line, ascending by code.
const COUNTRIES: &str = include_str!("countries.txt");

/// The name of a country, or the code itself if it is a new one.
pub(super) fn name(code: &str) -> &str {
    let mut lines = COUNTRIES.lines();
    lines.find_map(|line| line.strip_prefix(code)?.strip_prefix(' ')).unwrap_or(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_code_and_a_name() {
        assert_eq!((name("FR"), name("CI"), name("ZZ")), ("France", "Côte d’Ivoire", "ZZ"));
        let codes: Vec<&str> =
            COUNTRIES.lines().map(|line| line.split_once(' ').expect("two parts").0).collect();
        assert!(codes.iter().all(|code| code.len() == 2) && codes.is_sorted());
    }
}
