//! Exact decimal numbers of any precision, which schemas compare.

use std::cmp::Ordering;

/// Characters of a number.
const TEXT_BYTES_MAX: usize = 100;
/// The greatest absolute exponent.
const EXPONENT_MAX: i32 = 999;

/// `digits` times ten to the `exponent`. The form is unique: no zeros at either end of the digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonDecimal {
    negative: bool,
    digits: Vec<u8>,
    exponent: i32,
}

impl JsonDecimal {
    /// Parses a JSON number.
    pub(crate) fn parse(text: &str) -> Result<JsonDecimal, String> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("a number can have at most {TEXT_BYTES_MAX} characters"));
        }
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let exponent: i32 =
            exponent.parse().ok().filter(|it: &i32| it.abs() <= EXPONENT_MAX).ok_or_else(|| {
                format!("the exponent of a number must be between -{EXPONENT_MAX} and {EXPONENT_MAX}")
            })?;
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = [whole.as_bytes(), fraction.as_bytes()].concat();
        Ok(JsonDecimal { negative, digits, exponent: exponent - fraction.len() as i32 }.normal())
    }

    fn normal(mut self) -> JsonDecimal {
        while self.digits.last() == Some(&b'0') {
            self.digits.pop();
            self.exponent += 1;
        }
        let zeros = self.digits.iter().take_while(|digit| **digit == b'0').count();
        self.digits.drain(..zeros);
        if self.is_zero() { JsonDecimal { negative: false, digits: Vec::new(), exponent: 0 } } else { self }
    }

    fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// Returns true if the number has no fraction. `1.0` has none.
    pub(crate) fn is_integer(&self) -> bool {
        self.exponent >= 0
    }

    /// Returns true if the number is above zero.
    pub(crate) fn is_positive(&self) -> bool {
        !self.negative && !self.is_zero()
    }

    /// Returns the number if it fits a `u32`.
    pub(crate) fn as_u32(&self) -> Option<u32> {
        self.as_i64().and_then(|number| u32::try_from(number).ok())
    }

    /// Returns the number if it is whole and has at most 18 digits.
    pub(crate) fn as_i64(&self) -> Option<i64> {
        if !self.is_integer() || self.places() > 18 {
            return None;
        }
        let number = self.mantissa()? as i64 * 10_i64.pow(self.exponent as u32);
        Some(if self.negative { -number } else { number })
    }

    /// Returns the digits as a number if there are at most 18.
    pub(crate) fn mantissa(&self) -> Option<u64> {
        let number = |sum: u64, digit: &u8| sum * 10 + u64::from(digit - b'0');
        (self.digits.len() <= 18).then(|| self.digits.iter().fold(0, number))
    }

    /// Returns true if the number is an exact multiple of `unit`: `0.3` is three times `0.1`. `unit` must be above zero
    /// and have at most 18 digits.
    pub(crate) fn is_multiple_of(&self, unit: &JsonDecimal) -> bool {
        if self.is_zero() {
            return true;
        }
        let Some(divisor) = unit.mantissa() else { return false };
        // The last digit is not zero, so a number with digits below those of the unit is not a multiple.
        let Ok(zeros) = usize::try_from(self.exponent - unit.exponent) else { return false };
        let digits = self.digits.iter().copied().chain(std::iter::repeat_n(b'0', zeros));
        let rest =
            digits.fold(0_u128, |rest, digit| (rest * 10 + u128::from(digit - b'0')) % u128::from(divisor));
        rest == 0
    }

    /// Returns the number of digits before the point; negative for zeros after it.
    fn places(&self) -> i32 {
        self.digits.len() as i32 + self.exponent
    }

    fn cmp_size(&self, other: &JsonDecimal) -> Ordering {
        match (self.is_zero(), other.is_zero()) {
            (true, _) | (_, true) => other.is_zero().cmp(&self.is_zero()),
            _ => self.places().cmp(&other.places()).then_with(|| self.digits.cmp(&other.digits)),
        }
    }
}

impl Ord for JsonDecimal {
    fn cmp(&self, other: &JsonDecimal) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => self.cmp_size(other),
            (true, true) => other.cmp_size(self),
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
        }
    }
}

impl PartialOrd for JsonDecimal {
    fn partial_cmp(&self, other: &JsonDecimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decimal(text: &str) -> JsonDecimal {
        JsonDecimal::parse(text).expect("the test gives a number")
    }

    #[test]
    fn equal_numbers_have_one_form() {
        for same in [["1", "1.0"], ["100", "1e2"], ["-0.0", "0"], ["0.5", "5E-1"], ["12.50e1", "125"]] {
            assert_eq!(decimal(same[0]), decimal(same[1]), "{same:?}");
        }
        assert!(JsonDecimal::parse("1e1000").is_err());
        assert!(JsonDecimal::parse(&"1".repeat(101)).is_err());
    }

    #[test]
    fn numbers_are_ordered_by_value() {
        let ordered =
            ["-1e300", "-12.5", "-12", "-0.1", "0", "1e-300", "0.1", "0.12", "1", "9", "10", "1e300"];
        for pair in ordered.windows(2) {
            assert!(decimal(pair[0]) < decimal(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn multiples_are_exact() {
        for (number, unit) in [("0.3", "0.1"), ("19.99", "0.01"), ("1e300", "7e-3"), ("0", "5"), ("-6", "3")]
        {
            let exact = number != "1e300";
            assert_eq!(decimal(number).is_multiple_of(&decimal(unit)), exact, "{number} {unit}");
        }
        assert!(!decimal("5").is_multiple_of(&decimal("10")));
        assert!(!decimal("0.15").is_multiple_of(&decimal("0.1")));
    }

    proptest! {
        #[test]
        fn whole_numbers_agree_with_i64(one in -10_000_i64..10_000, other in -10_000_i64..10_000, unit in 1_i64..50) {
            let (a, b) = (decimal(&one.to_string()), decimal(&other.to_string()));
            prop_assert_eq!(a.cmp(&b), one.cmp(&other));
            prop_assert_eq!(a.as_i64(), Some(one));
            prop_assert_eq!(a.is_multiple_of(&decimal(&unit.to_string())), one % unit == 0);
        }
    }
}
