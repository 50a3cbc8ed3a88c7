//! A JSON number: exact at any length, and fast if it is short.

use super::cursor::JsonCursor;
use crate::decimal::{EXACT_MAX, POWERS};
use std::borrow::Cow;

/// A number whose syntax has been checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonNumber<'a> {
    /// The original text.
    pub text: &'a str,
    /// All digits before an exponent as one integer; exact if there are at most 19.
    pub mantissa: u64,
    /// JsonNumber of digits before an exponent.
    pub digits: usize,
    /// JsonNumber of digits after the point.
    pub decimals: usize,
    /// It has an exponent, such as `1e5`.
    pub has_exponent: bool,
}

impl<'a> JsonNumber<'a> {
    /// Returns the nearest `f64`; infinite if the number is too large.
    ///
    /// Two exact operands give a correctly rounded quotient (Clinger, "How to read floating point numbers accurately",
    /// 1990); everything else uses the slower parser of the standard library.
    #[inline(always)]
    pub(crate) fn value(&self) -> f64 {
        if !self.fits_mantissa() || self.mantissa > EXACT_MAX || self.decimals >= POWERS.len() {
            return self.value_of_text();
        }
        let value = self.mantissa as f64 / POWERS[self.decimals];
        if self.is_negative() { -value } else { value }
    }

    /// Returns the number as text if it is whole: `12`, also for `12.0` and `1.2e1`.
    pub(crate) fn whole(&self) -> Option<Cow<'a, str>> {
        if self.decimals == 0 && !self.has_exponent {
            return Some(Cow::Borrowed(if self.text == "-0" { "0" } else { self.text }));
        }
        let value = self.value();
        let is_exact_whole = value.fract() == 0.0 && value.abs() < EXACT_MAX as f64;
        is_exact_whole.then(|| Cow::Owned((value as i64).to_string()))
    }

    /// Returns the number without its fraction, if it fits.
    pub(crate) fn truncated(&self) -> Option<i64> {
        if self.decimals == 0 && self.fits_mantissa() {
            let magnitude = i64::try_from(self.mantissa).ok()?;
            return Some(if self.is_negative() { -magnitude } else { magnitude });
        }
        let value = self.value();
        (value.abs() < i64::MAX as f64).then_some(value as i64)
    }

    fn fits_mantissa(&self) -> bool {
        self.digits <= 19 && !self.has_exponent
    }

    fn is_negative(&self) -> bool {
        self.text.starts_with('-')
    }

    #[cold]
    fn value_of_text(&self) -> f64 {
        self.text.parse().expect("a JSON number is a Rust number")
    }
}

/// JsonNumber of digits that every JSON reader keeps.
const DIGITS_KEPT: usize = 15;

/// Returns true if a text is a JSON number that an `f64` represents without loss.
pub(crate) fn is_plain_number(text: &str) -> bool {
    let mut cursor = JsonCursor::new(text, 0);
    let number = cursor.number();
    number.is_ok_and(|number| number.digits <= DIGITS_KEPT && number.value().is_finite())
        && cursor.is_at_end()
}
