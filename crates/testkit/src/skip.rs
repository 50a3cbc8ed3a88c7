//! Tests that cannot run on a machine.

/// The list of skips that are allowed in CI, each with its reason.
const ALLOWED: &str = include_str!("../../../scripts/allowed-skips.txt");

/// Reports that a test is skipped because `name` is not available.
///
/// # Panics
///
/// If `CI` is `true` and the skip is not on the list in `scripts/allowed-skips.txt`: there everything must be installed.
pub fn skip(name: &str, reason: &str) {
    let in_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(!in_ci || is_allowed(name), "{name} is not available in CI: {reason}");
    eprintln!("SKIPPED: {name}: {reason}");
}

fn is_allowed(name: &str) -> bool {
    let lines = ALLOWED.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_whitespace().next()).any(|allowed| allowed == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_skips_are_allowed() {
        assert_eq!([is_allowed("tmpfs"), is_allowed("strace"), is_allowed("#")], [true, false, false]);
    }
}
