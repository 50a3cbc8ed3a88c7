//! Values as text: numbers, times, bytes.

use std::fmt::{self, Write};

use super::types::Type;
use super::vector::Values;

const SECONDS_PER_DAY: i64 = 86_400;
/// The greatest absolute value up to which a double has every integer.
const EXACT_MAX: u128 = 1 << 53;
/// Decimal digits that a double keeps.
const EXACT_DIGITS: usize = 15;

/// A value as text.
pub(crate) enum Scalar {
    /// A number that a double holds exactly, or the double itself.
    Number,
    /// Anything else.
    Text,
}

/// Appends a value that is neither nested nor a text nor JSON. Returns whether JSON may have it as a number.
pub(crate) fn push_scalar(out: &mut String, values: &Values<'_>, row: usize) -> Scalar {
    let is_number = |exact: bool| if exact { Scalar::Number } else { Scalar::Text };
    match values.of {
        Type::Boolean => {
            out.push_str(if values.raw::<1>(row) == [0] { "false" } else { "true" });
            Scalar::Number
        }
        Type::Integer { bytes, signed } => {
            let number = values.integer(row, *bytes, *signed);
            out.push_str(itoa::Buffer::new().format(number));
            is_number(number.unsigned_abs() <= EXACT_MAX)
        }
        Type::HugeInt => {
            let number = values.i128(row);
            out.push_str(itoa::Buffer::new().format(number));
            is_number(number.unsigned_abs() <= EXACT_MAX)
        }
        Type::UHugeInt => {
            let number = u128::from_ne_bytes(values.raw(row));
            out.push_str(itoa::Buffer::new().format(number));
            is_number(number <= EXACT_MAX)
        }
        Type::BigNum => {
            push_bignum(out, values.bytes(row));
            Scalar::Text
        }
        Type::Float => push_float(out, f32::from_ne_bytes(values.raw(row)).into(), |out, _| {
            out.push_str(zmij::Buffer::new().format_finite(f32::from_ne_bytes(values.raw(row))));
        }),
        Type::Double => push_float(out, f64::from_ne_bytes(values.raw(row)), |out, number| {
            out.push_str(zmij::Buffer::new().format_finite(number));
        }),
        Type::Decimal { scale, bytes, .. } => {
            let number = values.integer(row, *bytes, true);
            push_decimal(out, number, *scale);
            is_number(digits(number.unsigned_abs()) <= EXACT_DIGITS)
        }
        _ => {
            push_other(out, values, row).expect("writing to memory cannot fail");
            Scalar::Text
        }
    }
}

fn digits(number: u128) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

/// Appends a floating-point number. JSON has no infinity and no NaN, so these are texts.
fn push_float(out: &mut String, number: f64, push_finite: impl Fn(&mut String, f64)) -> Scalar {
    if number.is_finite() {
        push_finite(out, number);
        return Scalar::Number;
    }
    out.push_str(match number {
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => "NaN",
    });
    Scalar::Text
}

fn push_decimal(out: &mut String, number: i128, scale: u8) {
    let scale = usize::from(scale);
    let digits = format!("{:0>width$}", number.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    if number < 0 {
        out.push('-');
    }
    out.push_str(whole);
    if scale > 0 {
        out.push('.');
        out.push_str(fraction);
    }
}

fn push_other(out: &mut String, values: &Values<'_>, row: usize) -> fmt::Result {
    match values.of {
        Type::Blob | Type::Geometry => push_base64(out, values.bytes(row)),
        Type::Bit => push_bits(out, values.bytes(row)),
        Type::Uuid => {
            // The highest bit is inverted, so that the order is that of the text.
            let uuid = u128::from_ne_bytes(values.raw(row)) ^ 1 << 127;
            let hex = format!("{uuid:032x}");
            let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
            out.push_str(&parts.join("-"));
        }
        Type::Date => match i32::from_ne_bytes(values.raw(row)) {
            i32::MAX => out.push_str("infinity"),
            number if number == -i32::MAX => out.push_str("-infinity"),
            days => push_date(out, days.into())?,
        },
        Type::Time { per_second } => push_time(out, values.i64(row), *per_second)?,
        Type::TimeTz => {
            let bits = u64::from_ne_bytes(values.raw(row));
            push_time(out, (bits >> 24) as i64, 1_000_000)?;
            // The offset is stored so that a greater one sorts first.
            push_offset(out, 57_599 - (bits & 0xFF_FFFF) as i64)?;
        }
        Type::Timestamp { per_second, utc } => match values.i64(row) {
            i64::MAX => out.push_str("infinity"),
            number if number == -i64::MAX => out.push_str("-infinity"),
            since => {
                let day = per_second * SECONDS_PER_DAY;
                push_date(out, since.div_euclid(day))?;
                out.push('T');
                push_time(out, since.rem_euclid(day), *per_second)?;
                out.push_str(if *utc { "Z" } else { "" });
            }
        },
        Type::Interval => {
            let interval: [u8; 16] = values.raw(row);
            let part = |at: usize| i32::from_ne_bytes(interval[at..at + 4].try_into().expect("four bytes"));
            let micros = i64::from_ne_bytes(interval[8..].try_into().expect("eight bytes"));
            push_interval(out, part(0), part(4), micros)?;
        }
        Type::Enum { labels, bytes } => {
            let index = values.integer(row, *bytes, false) as usize;
            out.push_str(&labels[index]);
        }
        _ => out.push_str(&values.text(row)),
    }
    Ok(())
}

/// Appends a date of the proleptic Gregorian calendar, from days since 1970. Years outside of 0 to 9999 have a sign.
fn push_date(out: &mut String, days: i64) -> fmt::Result {
    // Counted from 1 March of the year 0, leap days are at the end of a year.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    match year {
        0..=9_999 => write!(out, "{year:04}-{month:02}-{day:02}"),
        year => write!(out, "{year:+05}-{month:02}-{day:02}"),
    }
}

/// Appends a time of day, with a fraction only if there is one.
fn push_time(out: &mut String, units: i64, per_second: i64) -> fmt::Result {
    let (seconds, fraction) = (units / per_second, units % per_second);
    write!(out, "{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)?;
    if fraction != 0 {
        let digits = format!("{:09}", fraction * (1_000_000_000 / per_second));
        write!(out, ".{}", digits.trim_end_matches('0'))?;
    }
    Ok(())
}

fn push_offset(out: &mut String, seconds: i64) -> fmt::Result {
    let (sign, size) = if seconds < 0 { ('-', -seconds) } else { ('+', seconds) };
    write!(out, "{sign}{:02}:{:02}", size / 3_600, size / 60 % 60)?;
    if size % 60 != 0 {
        write!(out, ":{:02}", size % 60)?;
    }
    Ok(())
}

/// Appends an ISO 8601 duration, such as `P1Y2M3DT4H5M6.5S`.
fn push_interval(out: &mut String, months: i32, days: i32, micros: i64) -> fmt::Result {
    let start = out.len();
    out.push('P');
    let part = |out: &mut String, number: i64, unit: char| match number {
        0 => Ok(()),
        number => write!(out, "{number}{unit}"),
    };
    part(out, (months / 12).into(), 'Y')?;
    part(out, (months % 12).into(), 'M')?;
    part(out, days.into(), 'D')?;
    if micros != 0 {
        out.push('T');
        part(out, micros / 3_600_000_000, 'H')?;
        part(out, micros / 60_000_000 % 60, 'M')?;
        let seconds = micros % 60_000_000;
        if seconds != 0 {
            push_decimal(out, seconds.into(), 6);
            let length = out.trim_end_matches('0').trim_end_matches('.').len();
            out.truncate(length);
            out.push('S');
        }
    }
    if out.len() == start + 1 {
        out.push_str("T0S");
    }
    Ok(())
}

fn push_base64(out: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for group in bytes.chunks(3) {
        let at = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let is_padding = digit > group.len();
            let six = (bits >> (18 - 6 * digit)) & 63;
            out.push(if is_padding { '=' } else { DIGITS[six as usize].into() });
        }
    }
}

/// Appends the digits of a bit string. Its first byte is the number of unused bits at the start of the second.
fn push_bits(out: &mut String, bytes: &[u8]) {
    let Some((unused, bytes)) = bytes.split_first() else { return };
    let bits = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
    out.extend(bits.skip((*unused).into()).map(|bit| if bit == 1 { '1' } else { '0' }));
}

/// Appends an integer of any size. It is stored as a header of three bytes, whose highest bit is set if the number is
/// not negative, and the bytes of the absolute value, the highest first. All bits of a negative number are inverted.
fn push_bignum(out: &mut String, bytes: &[u8]) {
    let negative = bytes.first().is_some_and(|byte| byte & 0x80 == 0);
    let magnitude = bytes.get(3..).unwrap_or_default().iter();
    // Digits in base 10^9, the lowest first.
    let mut digits: Vec<u64> = vec![0];
    for byte in magnitude {
        let mut carry = u64::from(if negative { !byte } else { *byte });
        for digit in &mut digits {
            let value = *digit * 256 + carry;
            (*digit, carry) = (value % 1_000_000_000, value / 1_000_000_000);
        }
        if carry > 0 {
            digits.push(carry);
        }
    }
    if negative {
        out.push('-');
    }
    let mut highest_first = digits.iter().rev();
    let first = highest_first.next().copied().unwrap_or(0);
    out.push_str(&first.to_string());
    for digit in highest_first {
        out.push_str(&format!("{digit:09}"));
    }
}
