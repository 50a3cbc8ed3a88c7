//! Decimal numbers as text: exact, and fast if they are short.

use model::Reject;

/// Integers up to this value fit the 53 bits of an `f64` exactly.
pub(crate) const EXACT_MAX: u64 = 1 << 53;

/// The powers of ten that an `f64` represents exactly.
pub(crate) const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// Number of digits that always fit a `u64`.
const DIGITS_MAX: usize = 19;

/// Returns the nearest `f64` to a number with optional sign, point and exponent.
///
/// Two exact operands give a correctly rounded quotient (Clinger, "How to read floating point numbers accurately",
/// 1990); everything else uses the slower parser of the standard library.
#[inline]
pub(crate) fn parse_finite(text: &str) -> Result<f64, Reject> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text).as_bytes();
    let (mut mantissa, mut decimals, mut has_point) = (0u64, 0, false);
    if unsigned.is_empty() || unsigned.len() > DIGITS_MAX {
        return parse_finite_slow(text);
    }
    for byte in unsigned {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            mantissa = mantissa * 10 + u64::from(digit);
            decimals += usize::from(has_point);
        } else if *byte == b'.' && !has_point {
            has_point = true;
        } else {
            return parse_finite_slow(text);
        }
    }
    if mantissa > EXACT_MAX || unsigned == b"." {
        return parse_finite_slow(text);
    }
    let value = if has_point { mantissa as f64 / POWERS[decimals] } else { mantissa as f64 };
    Ok(if text.starts_with('-') { -value } else { value })
}

#[cold]
fn parse_finite_slow(text: &str) -> Result<f64, Reject> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        Ok(_) => Err(Reject::ValueNotFinite),
        Err(_) => Err(Reject::ValueNotANumber),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_finite;
    use model::Reject;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_read_in_every_usual_notation() {
        for (text, value) in
            [("0", 0.0), ("-3", -3.0), ("+3.25", 3.25), (".5", 0.5), ("5.", 5.0), ("1e3", 1e3)]
        {
            assert_eq!(parse_finite(text), Ok(value), "{text}");
        }
        for text in ["NaN", "inf", "-infinity", "1e999"] {
            assert_eq!(parse_finite(text), Err(Reject::ValueNotFinite), "{text}");
        }
        for text in ["", "-", ".", "+-1", "--1", "1.2.3", "0x1f", " 1", "1 ", "1_000", "é"] {
            assert_eq!(parse_finite(text), Err(Reject::ValueNotANumber), "{text}");
        }
    }

    proptest! {
        #[test]
        fn numbers_are_rounded_to_the_nearest(text in r"[+-]?([0-9]{1,19}\.?[0-9]{0,12}|[0-9]{0,8}\.[0-9]{1,18})([eE][+-]?[0-9]{1,2})?") {
            let value = parse_finite(&text).expect("a number");
            prop_assert_eq!(value.to_bits(), text.parse::<f64>().expect("a number").to_bits(), "{}", text);
        }
    }
}
