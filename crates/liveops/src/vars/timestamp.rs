//! Timestamps as RFC 3339 text, to the millisecond.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A time in milliseconds since 1970, serialized as RFC 3339. From 1970 to 9999.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimestampMs(i64);

impl TimestampMs {
    /// Creates a timestamp, clamped to the supported range.
    pub fn from_ms(ms: i64) -> TimestampMs {
        TimestampMs(ms.clamp(0, Timestamp::MAX.as_millisecond()))
    }

    /// Returns the time in milliseconds since 1970.
    pub fn ms(self) -> i64 {
        self.0
    }
}

impl fmt::Display for TimestampMs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timestamp = Timestamp::from_millisecond(self.0).expect("timestamps are in range");
        write!(formatter, "{timestamp:.3}")
    }
}

impl fmt::Debug for TimestampMs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl FromStr for TimestampMs {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<TimestampMs, &'static str> {
        let timestamp: Timestamp = text.parse().map_err(|_| "must be an RFC 3339 time with an offset")?;
        let ms = timestamp.as_millisecond();
        if ms < 0 { Err("must not be before 1970") } else { Ok(TimestampMs(ms)) }
    }
}

impl Serialize for TimestampMs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimestampMs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TimestampMs, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Returns true if `now_ms` is between `starts`, inclusive, and `ends`, exclusive. A missing bound does not limit.
pub(crate) fn is_within(now_ms: i64, starts: Option<TimestampMs>, ends: Option<TimestampMs>) -> bool {
    starts.is_none_or(|starts| starts.ms() <= now_ms) && ends.is_none_or(|ends| now_ms < ends.ms())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_is_written_in_utc_with_milliseconds() {
        let moment: TimestampMs = "2026-11-20T15:00:00.5+01:00".parse().unwrap();
        assert_eq!(moment.to_string(), "2026-11-20T14:00:00.500Z");
        assert_eq!(serde_json::to_string(&TimestampMs::from_ms(0)).unwrap(), r#""1970-01-01T00:00:00.000Z""#);
    }

    #[test]
    fn invalid_timestamp_is_refused() {
        for text in ["", "tomorrow", "2026-11-20", "2026-11-20T14:00:00", "1969-12-31T23:59:59Z"] {
            assert!(text.parse::<TimestampMs>().is_err(), "{text}");
        }
    }
}
