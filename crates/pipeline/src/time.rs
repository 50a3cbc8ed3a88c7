//! The server's wall clock, and times as text.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// Returns milliseconds since 1970-01-01 UTC.
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Returns microseconds since 1970-01-01 UTC.
pub fn now_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}

/// Returns seconds since 1970-01-01 UTC.
pub fn now_s() -> u64 {
    now_ms().max(0) as u64 / 1000
}

/// Formats milliseconds since 1970 as RFC 3339 in UTC. A fraction appears only if it is not zero.
pub fn rfc3339(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| time.to_string())
}

/// Parses RFC 3339 or milliseconds since 1970 to milliseconds since 1970.
pub fn parse_time(text: &str) -> Option<i64> {
    if let Ok(ms) = text.parse::<i64>() {
        return Some(ms);
    }
    text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}
