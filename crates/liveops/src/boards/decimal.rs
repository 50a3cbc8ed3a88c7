//! Scores as exact decimals, without floating point.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// Beyond it, a client that reads numbers as 64-bit floats would get another score than it sent.
pub(super) const UNITS_MAX: i64 = (1 << 53) - 1;
/// Decimals that a board may keep.
pub(super) const DECIMALS_MAX: u8 = 6;
/// Longer numbers are refused.
const TEXT_BYTES_MAX: usize = 64;
/// With greater exponents a number is out of range, whatever its digits.
const EXPONENT_MAX: i32 = 100;

/// A number of units of 1 / 10^`decimals`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScoreDecimal {
    /// The number of units.
    pub units: i64,
    /// The number of decimals.
    pub decimals: u8,
}

impl ScoreDecimal {
    /// Parses a JSON number. Digits beyond the decimals are rounded, halves away from zero, so that
    /// `0.30000000000000004` with one decimal is 0.3. Returns `None` if the text is not a JSON number or exceeds
    /// 2^53 - 1 units.
    pub fn parse(text: &str, decimals: u8) -> Option<ScoreDecimal> {
        let number = ParsedNumber::parse(text)?;
        let units = number.units(i32::from(decimals))?;
        Some(ScoreDecimal { units, decimals })
    }

    /// Returns true if the text is a JSON number.
    pub fn is_number(text: &str) -> bool {
        ParsedNumber::parse(text).is_some()
    }
}

impl std::fmt::Display for ScoreDecimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scale = 10_u64.pow(u32::from(self.decimals));
        let (whole, fraction) = (self.units.unsigned_abs() / scale, self.units.unsigned_abs() % scale);
        let sign = if self.units < 0 { "-" } else { "" };
        write!(f, "{sign}{whole}")?;
        if fraction == 0 {
            return Ok(());
        }
        let digits = format!("{fraction:0width$}", width = usize::from(self.decimals));
        write!(f, ".{}", digits.trim_end_matches('0'))
    }
}

impl Serialize for ScoreDecimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.decimals == 0 {
            return serializer.serialize_i64(self.units);
        }
        RawValue::from_string(self.to_string()).expect("the text is a JSON number").serialize(serializer)
    }
}

/// The parts of a JSON number: `digits * 10^exponent`.
struct ParsedNumber<'a> {
    is_negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i32,
}

impl<'a> ParsedNumber<'a> {
    fn parse(text: &'a str) -> Option<ParsedNumber<'a>> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let rest = text.as_bytes();
        let (is_negative, rest) = match rest.strip_prefix(b"-") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let (whole, rest) = digits(rest);
        let (fraction, rest) = match rest.strip_prefix(b".") {
            Some(rest) => Some(digits(rest)).filter(|(fraction, _)| !fraction.is_empty())?,
            None => (&rest[..0], rest),
        };
        let exponent = match rest.split_first() {
            None => 0,
            Some((b'e' | b'E', rest)) => exponent(rest)?,
            Some(_) => return None,
        };
        let is_json = !whole.is_empty() && (whole.len() == 1 || whole[0] != b'0');
        is_json.then_some(ParsedNumber { is_negative, whole, fraction, exponent })
    }

    fn units(&self, decimals: i32) -> Option<i64> {
        // The digit at index `i` of all digits stands for 10^(point - 1 - i) units.
        let point = self.whole.len() as i32 + self.exponent + decimals;
        let all = || self.whole.iter().chain(self.fraction).map(|digit| i128::from(digit - b'0'));
        let mut units: i128 = 0;
        for digit in all().chain(std::iter::repeat(0)).take(point.clamp(0, 2 * EXPONENT_MAX) as usize) {
            units = units * 10 + digit;
            if units > i128::from(UNITS_MAX) {
                return None;
            }
        }
        let next = usize::try_from(point).ok().and_then(|at| all().nth(at));
        units += i128::from(next.is_some_and(|digit| digit >= 5));
        let units = i64::try_from(units).ok().filter(|units| *units <= UNITS_MAX)?;
        Some(if self.is_negative { -units } else { units })
    }
}

fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count())
}

fn exponent(text: &[u8]) -> Option<i32> {
    let (sign, rest) = match text.split_first()? {
        (b'-', rest) => (-1, rest),
        (b'+', rest) => (1, rest),
        _ => (1, text),
    };
    let (all, rest) = digits(rest);
    if all.is_empty() || !rest.is_empty() {
        return None;
    }
    let value =
        all.iter().fold(0, |value: i32, digit| (value * 10 + i32::from(digit - b'0')).min(EXPONENT_MAX));
    Some(sign * value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, decimals: u8, expected: &str) {
        let found = ScoreDecimal::parse(text, decimals).map_or("none".to_owned(), |it| it.to_string());
        assert_eq!(found, expected, "{text} with {decimals}");
    }

    #[test]
    fn decimals_are_exact() {
        check("0.1", 1, "0.1");
        assert_eq!(ScoreDecimal::parse("0.1", 1).map(|it| it.units), Some(1));
        check("0.30000000000000004", 1, "0.3");
        check("-12.50", 2, "-12.5");
        check("1.005", 2, "1.01");
        check("-0.5", 0, "-1");
        check("-0", 0, "0");
        check("0.000001", 6, "0.000001");
        check("0.05", 1, "0.1");
        check("0.04999999", 1, "0");
    }

    #[test]
    fn exponents_shift_the_point() {
        check("1e3", 0, "1000");
        check("1E-2", 2, "0.01");
        check("12.5e+1", 0, "125");
        check("5e-1", 0, "1");
        check("5e-2", 0, "0");
        check("1e-99999999999", 6, "0");
        check("1e99999999999", 0, "none");
        check("0e99", 0, "0");
    }

    #[test]
    fn invalid_and_too_large_numbers_are_none() {
        check("9007199254740991", 0, "9007199254740991");
        check("9007199254740992", 0, "none");
        check("9007199254740991.5", 0, "none");
        check("-9007199254740991", 0, "-9007199254740991");
        for text in ["", "-", "+1", "01", ".5", "1.", "1e", "1e+", "0x10", "1 ", "NaN", "1_000", "--1", "٣"]
        {
            check(text, 0, "none");
        }
        check(&"1".repeat(65), 0, "none");
    }

    proptest! {
        #[test]
        fn text_and_units_convert_without_loss(units in -UNITS_MAX..=UNITS_MAX, decimals in 0..=DECIMALS_MAX) {
            let decimal = ScoreDecimal { units, decimals };
            prop_assert_eq!(ScoreDecimal::parse(&decimal.to_string(), decimals), Some(decimal));
            let json = serde_json::to_string(&decimal).expect("a number");
            prop_assert_eq!(json, decimal.to_string());
        }
    }
}
