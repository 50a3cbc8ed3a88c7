//! Days in the game's time zone, and the text form of times.

use jiff::Timestamp;
use jiff::tz::TimeZone;

const DAY_S: i64 = 86_400;

/// Returns the local day in this zone, counted from 1970-01-01. An unknown zone counts as UTC.
pub(super) fn day(ms: i64, tz: &str) -> u32 {
    let at = Timestamp::from_millisecond(ms.max(0)).unwrap_or(Timestamp::UNIX_EPOCH);
    let zone = TimeZone::get(tz).unwrap_or(TimeZone::UTC);
    let local_s = at.as_second() + i64::from(zone.to_offset(at).seconds());
    local_s.div_euclid(DAY_S).max(0) as u32
}

/// Returns a day as `2026-11-20`.
pub(super) fn date(day: u32) -> String {
    let noon = Timestamp::from_second(i64::from(day) * DAY_S + DAY_S / 2).unwrap_or(Timestamp::MAX);
    TimeZone::UTC.to_datetime(noon).date().to_string()
}

/// Returns a time as RFC 3339 in UTC with milliseconds.
pub(super) fn rfc3339(ms: i64) -> String {
    let at = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{at:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(at: &str, tz: &str, expected: &str) {
        let at: Timestamp = at.parse().expect("a time");
        assert_eq!(date(day(at.as_millisecond(), tz)), expected, "{at} in {tz}");
    }

    #[test]
    fn day_begins_at_midnight_in_the_time_zone_of_the_game() {
        check("2026-11-20T23:59:59.999Z", "UTC", "2026-11-20");
        check("2026-11-21T00:00:00Z", "UTC", "2026-11-21");
        check("2026-11-20T22:59:59.999Z", "Europe/Paris", "2026-11-20");
        check("2026-11-20T23:00:00Z", "Europe/Paris", "2026-11-21");
        check("2026-07-20T22:00:00Z", "Europe/Paris", "2026-07-21");
        check("2026-11-21T07:59:59Z", "America/Los_Angeles", "2026-11-20");
        check("2026-11-20T18:15:00Z", "Asia/Kathmandu", "2026-11-21");
        check("2026-11-20T23:30:00Z", "Nowhere/AtAll", "2026-11-20");
    }

    #[test]
    fn times_have_milliseconds() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(1_795_132_800_120), "2026-11-20T00:00:00.120Z");
    }
}
