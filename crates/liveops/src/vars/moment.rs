//! Moments as people write them: RFC 3339, to the millisecond.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Milliseconds since 1970; in JSON an RFC 3339 text. Between the years 1970 and 9999.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(i64);

impl Moment {
    /// The moment of this many milliseconds since 1970; what is outside of the range is moved to its edge.
    pub fn from_ms(ms: i64) -> Moment {
        Moment(ms.clamp(0, Timestamp::MAX.as_millisecond()))
    }

    /// Milliseconds since 1970.
    pub fn ms(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timestamp = Timestamp::from_millisecond(self.0).expect("moments are inside the range");
        write!(formatter, "{timestamp:.3}")
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl FromStr for Moment {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Moment, &'static str> {
        let timestamp: Timestamp = text.parse().map_err(|_| "it is an RFC 3339 time with its offset")?;
        let ms = timestamp.as_millisecond();
        if ms < 0 { Err("it is not before 1970") } else { Ok(Moment(ms)) }
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Moment, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// From when to when something holds; without an edge, for ever. The end is not part of it.
pub(crate) fn is_within(now_ms: i64, starts: Option<Moment>, ends: Option<Moment>) -> bool {
    starts.is_none_or(|starts| starts.ms() <= now_ms) && ends.is_none_or(|ends| now_ms < ends.ms())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_in_utc_with_milliseconds() {
        let moment: Moment = "2026-11-20T15:00:00.5+01:00".parse().unwrap();
        assert_eq!(moment.to_string(), "2026-11-20T14:00:00.500Z");
        assert_eq!(serde_json::to_string(&Moment::from_ms(0)).unwrap(), r#""1970-01-01T00:00:00.000Z""#);
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in ["", "tomorrow", "2026-11-20", "2026-11-20T14:00:00", "1969-12-31T23:59:59Z"] {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
    }
}
