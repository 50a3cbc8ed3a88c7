//! Decimal numbers as text: exact, and cheap where they are short.

use model::Reject;

/// An integer up to here is a finite binary fraction of 53 bits, so it is its own nearest `f64`.
pub(crate) const EXACT_MAX: u64 = 1 << 53;

/// The powers of ten that an `f64` holds exactly.
pub(crate) const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// Digits that fit an `u64` whatever they are.
const DIGITS_MAX: usize = 19;

/// The nearest `f64` to a number with or without a sign, a point and an exponent.
///
/// Two exact operands give a correctly rounded quotient (Clinger, "How to read floating point numbers accurately",
/// 1990); everything else takes the standard library's slower way.
#[inline]
pub(crate) fn finite(text: &str) -> Result<f64, Reject> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text).as_bytes();
    let (mut mantissa, mut decimals, mut has_point) = (0u64, 0, false);
    if unsigned.is_empty() || unsigned.len() > DIGITS_MAX {
        return any_finite(text);
    }
    for byte in unsigned {
        let digit = byte.wrapping_sub(b'0');
        if digit <= 9 {
            mantissa = mantissa * 10 + u64::from(digit);
            decimals += usize::from(has_point);
        } else if *byte == b'.' && !has_point {
            has_point = true;
        } else {
            return any_finite(text);
        }
    }
    if mantissa > EXACT_MAX || unsigned == b"." {
        return any_finite(text);
    }
    let value = if has_point { mantissa as f64 / POWERS[decimals] } else { mantissa as f64 };
    Ok(if text.starts_with('-') { -value } else { value })
}

#[cold]
fn any_finite(text: &str) -> Result<f64, Reject> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        Ok(_) => Err(Reject::ValueNotFinite),
        Err(_) => Err(Reject::ValueNotANumber),
    }
}

#[cfg(test)]
mod tests {
    use super::finite;
    use model::Reject;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_read_in_every_usual_spelling() {
        for (text, value) in
            [("0", 0.0), ("-3", -3.0), ("+3.25", 3.25), (".5", 0.5), ("5.", 5.0), ("1e3", 1e3)]
        {
            assert_eq!(finite(text), Ok(value), "{text}");
        }
        for text in ["NaN", "inf", "-infinity", "1e999"] {
            assert_eq!(finite(text), Err(Reject::ValueNotFinite), "{text}");
        }
        for text in ["", "-", ".", "+-1", "--1", "1.2.3", "0x1f", " 1", "1 ", "1_000", "é"] {
            assert_eq!(finite(text), Err(Reject::ValueNotANumber), "{text}");
        }
    }

    proptest! {
        #[test]
        fn numbers_are_the_nearest_ones(text in r"[+-]?([0-9]{1,19}\.?[0-9]{0,12}|[0-9]{0,8}\.[0-9]{1,18})([eE][+-]?[0-9]{1,2})?") {
            let value = finite(&text).expect("a number");
            prop_assert_eq!(value.to_bits(), text.parse::<f64>().expect("a number").to_bits(), "{}", text);
        }
    }
}
