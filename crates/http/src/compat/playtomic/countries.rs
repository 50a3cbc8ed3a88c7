//! English country names. Only this API returns names; everything else uses codes.

/// ISO 3166 codes and names, one per line, ascending by code.
const COUNTRIES: &str = include_str!("countries.txt");

/// Returns the name of a country, or the code itself if it is not listed.
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
            COUNTRIES.lines().map(|line| line.split_once(' ').expect("a code and a name").0).collect();
        assert!(codes.iter().all(|code| code.len() == 2) && codes.is_sorted());
    }
}
