//! Scores as exact decimals, without floating point.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// Beyond it, a client that reads numbers as 64-bit floats would get another score than it sent.
pub(super) const UNITS_MAX: i64 = (1 << 53) - 1;
/// Decimals that a board may keep.
pub(super) const DECIMALS_MAX: u8 = 6;
/// Longer numbers are refused.
const TEXT_BYTES_MAX: usize = 64;
/// Digits that every 64-bit floating-point number preserves.
const SIGNIFICANT_DIGITS: usize = 15;
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

/// A number that is no score of a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidScore {
    /// It is not a JSON number, or exceeds 2^53 - 1 units.
    #[error("must be a number between -{max} and {max}", max = largest(*.decimals))]
    OutOfRange {
        /// The decimals of the board.
        decimals: u8,
    },
    /// It has more decimals than the board.
    #[error("must have at most {decimals} decimals, the `decimals` of the board; round it before sending")]
    TooManyDecimals {
        /// The decimals of the board.
        decimals: u8,
    },
}

fn largest(decimals: u8) -> ScoreDecimal {
    ScoreDecimal { units: UNITS_MAX, decimals }
}

impl ScoreDecimal {
    /// Parses a JSON number without loss. Only digits after the 15th significant one may be lost: they are the noise of
    /// 64-bit floating point, so that `0.30000000000000004` with one decimal is 0.3.
    pub fn parse(text: &str, decimals: u8) -> Result<ScoreDecimal, InvalidScore> {
        let number = ParsedNumber::parse(text).ok_or(InvalidScore::OutOfRange { decimals })?;
        if number.decimals() > i32::from(decimals) {
            return Err(InvalidScore::TooManyDecimals { decimals });
        }
        let units = number.units(i32::from(decimals)).ok_or(InvalidScore::OutOfRange { decimals })?;
        Ok(ScoreDecimal { units, decimals })
    }

    /// Parses a JSON number and rounds it, halves away from zero. Returns `None` if the text is not a JSON number or
    /// exceeds 2^53 - 1 units.
    pub fn rounded(text: &str, decimals: u8) -> Option<ScoreDecimal> {
        let units = ParsedNumber::parse(text)?.units(i32::from(decimals))?;
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

    /// Returns the number of decimals, without trailing zeros, of the first [`SIGNIFICANT_DIGITS`] digits.
    fn decimals(&self) -> i32 {
        let all = || self.whole.iter().chain(self.fraction).map(|digit| digit - b'0');
        let zeros = all().take_while(|digit| *digit == 0).count();
        let mut digits: Vec<u8> = all().skip(zeros).take(SIGNIFICANT_DIGITS).collect();
        if all().nth(zeros + SIGNIFICANT_DIGITS).is_some_and(|next| next >= 5) {
            // A carry turns a trailing 9 into a trailing 0.
            while digits.last() == Some(&9) {
                digits.pop();
            }
            digits.last_mut().into_iter().for_each(|last| *last += 1);
        }
        while digits.last() == Some(&0) {
            digits.pop();
        }
        let point = self.whole.len() as i32 + self.exponent;
        ((zeros + digits.len()) as i32 - point).max(0) * i32::from(!digits.is_empty())
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
        let found = ScoreDecimal::rounded(text, decimals).map_or("none".to_owned(), |it| it.to_string());
        assert_eq!(found, expected, "{text} with {decimals}");
    }

    fn check_exact(text: &str, decimals: u8, expected: &str) {
        let found = match ScoreDecimal::parse(text, decimals) {
            Ok(decimal) => decimal.to_string(),
            Err(InvalidScore::OutOfRange { .. }) => "out of range".to_owned(),
            Err(InvalidScore::TooManyDecimals { .. }) => "too many decimals".to_owned(),
        };
        assert_eq!(found, expected, "{text} with {decimals}");
    }

    #[test]
    fn number_with_too_many_decimals_is_not_rounded() {
        check_exact("1.7", 0, "too many decimals");
        check_exact("1.005", 2, "too many decimals");
        check_exact("1.0049999999", 2, "too many decimals");
        check_exact("5e-1", 0, "too many decimals");
        check_exact("0.05", 1, "too many decimals");
        check_exact("1e-99", 6, "too many decimals");
        check_exact("123456789.5", 0, "too many decimals");
        check_exact("1.700", 1, "1.7");
        check_exact("-2.0", 0, "-2");
        check_exact("17e-1", 1, "1.7");
        check_exact("0.000", 0, "0");
        check_exact("0e-9", 0, "0");
        check_exact("many", 0, "out of range");
        check_exact("9007199254740992", 0, "out of range");
        check_exact("9007199254741", 3, "out of range");
    }

    #[test]
    fn floating_point_noise_is_rounded() {
        check_exact("0.30000000000000004", 1, "0.3");
        check_exact("0.29999999999999998", 1, "0.3");
        check_exact("99.999999999999999", 0, "100");
        check_exact("1234.5600000000001", 2, "1234.56");
        check_exact("0.300000000000004", 1, "too many decimals");
    }

    #[test]
    fn decimals_are_exact() {
        check("0.1", 1, "0.1");
        assert_eq!(ScoreDecimal::parse("0.1", 1).map(|it| it.units), Ok(1));
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
            prop_assert_eq!(ScoreDecimal::parse(&decimal.to_string(), decimals), Ok(decimal));
            let json = serde_json::to_string(&decimal).expect("a number");
            prop_assert_eq!(json, decimal.to_string());
        }

        #[test]
        fn sums_of_floats_keep_their_decimals(a in 0..10_000_000_u32, b in 0..10_000_000_u32) {
            let sum = f64::from(a) / 1000.0 + f64::from(b) / 1000.0;
            let expected = ScoreDecimal { units: i64::from(a) + i64::from(b), decimals: 3 };
            prop_assert_eq!(ScoreDecimal::parse(&sum.to_string(), 3), Ok(expected));
        }
    }
}
