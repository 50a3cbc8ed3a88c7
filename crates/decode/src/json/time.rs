//! RFC 3339 to milliseconds since 1970-01-01 UTC.

use std::ops::RangeInclusive;

const DAY_MS: i64 = 86_400_000;

/// 0000-01-01T00:00:00Z to 9999-12-31T23:59:59.999Z: the range of RFC 3339, and so of numbers.
pub(crate) const EPOCH_MS: RangeInclusive<i64> = -62_167_219_200_000..=253_402_300_799_999;

/// Days from 0000-03-01 of the calendar shifted by 400 years to 1970-01-01; see [`days`].
const EPOCH_DAYS: i64 = 719_468 + 146_097;

/// Parses a date-time such as `2026-11-20T08:30:00.25+01:00`, rounded down to the millisecond.
///
/// Accepts any number of decimals, lower-case `t` and `z`, and second 60 (the last millisecond of its minute, because the
/// epoch has no leap seconds). Rejects dates that do not exist.
#[inline]
pub(crate) fn rfc3339_ms(text: &[u8]) -> Option<i64> {
    let (clock, rest) = text.split_first_chunk::<19>()?;
    let separators = [clock[4], clock[7], clock[10] | 0x20, clock[13], clock[16]];
    let mut digits = Digits { bytes: clock, worst: 0 };
    let year = 100 * digits.two(0) + digits.two(2);
    let (month, day) = (digits.two(5), digits.two(8));
    let (hour, minute, second) = (digits.two(11), digits.two(14), digits.two(17));
    if digits.worst > 9 || separators != *b"--t::" {
        return None;
    }
    if day == 0 || day > days_of_month(year, month)? || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (fraction_ms, zone) = fraction_ms(rest)?;
    let minutes = i64::from(60 * hour + minute) - offset_minutes(zone)?;
    let second_ms = if second == 60 { 59_999 } else { 1_000 * i64::from(second) + fraction_ms };
    Some(days(year, month, day) * DAY_MS + minutes * 60_000 + second_ms)
}

/// Reads digits without a branch each; `worst` shows at the end if all of them were digits.
struct Digits<'a> {
    bytes: &'a [u8; 19],
    worst: u8,
}

impl Digits<'_> {
    #[inline(always)]
    fn two(&mut self, at: usize) -> u32 {
        let (tens, ones) = (self.bytes[at].wrapping_sub(b'0'), self.bytes[at + 1].wrapping_sub(b'0'));
        self.worst = self.worst.max(tens).max(ones);
        10 * u32::from(tens) + u32::from(ones)
    }
}

#[inline(always)]
fn days_of_month(year: u32, month: u32) -> Option<u32> {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => Some(if is_leap { 29 } else { 28 }),
        4 | 6 | 9 | 11 => Some(30),
        1..=12 => Some(31),
        _ => None,
    }
}

/// Returns the days since 1970-01-01 in the Gregorian calendar. Years start in March, so that the leap day comes last;
/// 400 years (146,097 days) are added so that nothing is negative.
#[inline(always)]
fn days(year: u32, month: u32, day: u32) -> i64 {
    let is_early = month <= 2;
    let year = year + 400 - u32::from(is_early);
    let month = if is_early { month + 9 } else { month - 3 };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    i64::from(365 * year + year / 4 - year / 100 + year / 400 + day_of_year) - EPOCH_DAYS
}

/// Returns the milliseconds of `.123456`, and the text after it.
#[inline(always)]
fn fraction_ms(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some((b'.', decimals)) = text.split_first() else { return Some((0, text)) };
    let len = decimals.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let digit = |i: usize| if i < len { i64::from(decimals[i] - b'0') } else { 0 };
    (len > 0).then(|| (100 * digit(0) + 10 * digit(1) + digit(2), &decimals[len..]))
}

/// Returns the offset of the time zone from UTC in minutes.
#[inline(always)]
fn offset_minutes(zone: &[u8]) -> Option<i64> {
    match *zone {
        [b'Z' | b'z'] => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (two_digits(h1, h2)?, two_digits(m1, m2)?);
            let minutes = (hours < 24 && minutes < 60).then_some(60 * hours + minutes)?;
            Some(if sign == b'-' { -minutes } else { minutes })
        }
        _ => None,
    }
}

fn two_digits(tens: u8, ones: u8) -> Option<i64> {
    let are_digits = tens.is_ascii_digit() && ones.is_ascii_digit();
    are_digits.then(|| 10 * i64::from(tens - b'0') + i64::from(ones - b'0'))
}

#[cfg(test)]
mod tests {
    use super::{DAY_MS, EPOCH_MS, days, days_of_month, rfc3339_ms};

    fn check(text: &str, expected: impl Into<Option<i64>>) {
        assert_eq!(rfc3339_ms(text.as_bytes()), expected.into(), "{text}");
    }

    #[test]
    fn instants_are_rounded_down_to_the_millisecond() {
        check("1970-01-01T00:00:00Z", 0);
        check("1969-12-31T23:59:59.999Z", -1);
        check("2026-11-20T11:34:17.123Z", 1_795_174_457_123);
        check("2026-11-20t11:34:17.123z", 1_795_174_457_123);
        check("2026-11-20T11:34:17.1Z", 1_795_174_457_100);
        check("2026-11-20T11:34:17.12399999999999999999999999999999Z", 1_795_174_457_123);
        check("0000-01-01T00:00:00Z", *EPOCH_MS.start());
        check("9999-12-31T23:59:59.999Z", *EPOCH_MS.end());
    }

    #[test]
    fn offsets_are_subtracted() {
        check("1970-01-01T01:30:00+01:30", 0);
        check("1969-12-31T16:00:00-08:00", 0);
        check("1970-01-01T00:00:00-00:00", 0);
        check("1970-01-01T23:59:00+23:59", 0);
        check("1970-01-01T00:00:00+24:00", None);
        check("1970-01-01T00:00:00+01:60", None);
        check("1970-01-01T00:00:00+0100", None);
        check("1970-01-01T00:00:00+1:00", None);
        check("1970-01-01T00:00:00", None);
    }

    #[test]
    fn leap_second_is_the_last_millisecond_of_its_minute() {
        check("2016-12-31T23:59:60Z", 1_483_228_799_999);
        check("2016-12-31T23:59:60.5Z", 1_483_228_799_999);
        check("2016-12-31T23:59:61Z", None);
    }

    #[test]
    fn nonexistent_dates_are_rejected() {
        check("2024-02-29T00:00:00Z", 1_709_164_800_000);
        check("2023-02-29T00:00:00Z", None);
        check("1900-02-29T00:00:00Z", None);
        check("2000-02-29T00:00:00Z", 951_782_400_000);
        check("2026-04-31T00:00:00Z", None);
        check("2026-00-01T00:00:00Z", None);
        check("2026-13-01T00:00:00Z", None);
        check("2026-01-00T00:00:00Z", None);
        check("2026-01-01T24:00:00Z", None);
        check("2026-01-01T00:60:00Z", None);
    }

    #[test]
    fn other_notations_are_rejected() {
        for text in [
            "",
            "2026-11-20",
            "2026-11-20 11:34:17Z",
            "2026-11-20T11:34Z",
            "2026-11-20T11:34:17.Z",
            "2026-11-20T11:34:17,5Z",
            "2026-11-20T11:34:17.5",
            "2026-11-20T11:34:17ZZ",
            "2026/11/20T11:34:17Z",
            "2026-1a-20T11:34:17Z",
            "+026-11-20T11:34:17Z",
            "12026-11-20T11:34:17Z",
            " 2026-11-20T11:34:17Z",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn days_are_consecutive_for_ten_thousand_years() {
        let mut day_number = EPOCH_MS.start() / DAY_MS;
        for year in 0..10_000 {
            for month in 1..=12 {
                for day in 1..=days_of_month(year, month).expect("a month") {
                    assert_eq!(days(year, month, day), day_number, "{year}-{month}-{day}");
                    day_number += 1;
                }
            }
        }
        assert_eq!(day_number * DAY_MS - 1, *EPOCH_MS.end());
    }
}
