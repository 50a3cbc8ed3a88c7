//! Formatting of counts for people.

use std::fmt::{self, Display, Formatter};

/// A count that is displayed with thousands separators: `12,345`.
pub(crate) struct Count(pub(crate) u64);

impl Display for Count {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let first = (digits.len() + 2) % 3 + 1;
        f.write_str(&digits[..first.min(digits.len())])?;
        (first..digits.len()).step_by(3).try_for_each(|at| write!(f, ",{}", &digits[at..at + 3]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(count: u64, expected: &str) {
        assert_eq!(Count(count).to_string(), expected);
    }

    #[test]
    fn thousands_are_separated_by_commas() {
        check(0, "0");
        check(999, "999");
        check(1_000, "1,000");
        check(12_345_678, "12,345,678");
    }
}
