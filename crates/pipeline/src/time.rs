//! The server's clock, and times as text.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// Milliseconds since 1970-01-01 UTC.
pub fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// Microseconds since 1970-01-01 UTC.
pub fn now_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}

/// Seconds since 1970-01-01 UTC.
pub fn now_s() -> u64 {
    now_ms().max(0) as u64 / 1000
}

/// RFC 3339 in UTC; milliseconds only where there are some.
pub fn rfc3339(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| time.to_string())
}

/// Reads RFC 3339 or milliseconds since 1970.
pub fn parse_time(text: &str) -> Option<i64> {
    if let Ok(ms) = text.parse::<i64>() {
        return Some(ms);
    }
    text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}
