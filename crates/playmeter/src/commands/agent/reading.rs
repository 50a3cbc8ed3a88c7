//! A reading: the values of all metrics at one moment, of the whole host or of one of its parts.
//!
//! It is sent as points in InfluxDB's line protocol, one per line, with timestamps in milliseconds.

use std::collections::HashSet;
use std::fmt::Write;

use model::limits::DIMENSION_BYTES_MAX;
use serde_json::json;

pub(crate) const HOST_BYTES_MAX: usize = 64;
/// With the name of the host and a slash, a part fits the value of a dimension.
const PART_BYTES_MAX: usize = 63;
const _: () = assert!(HOST_BYTES_MAX + 1 + PART_BYTES_MAX <= DIMENSION_BYTES_MAX);
/// Limit of parts of one kind per UTC day, because a dimension keeps 1,000 values per day.
const PARTS_PER_DAY: usize = 64;
const DAY_MS: i64 = 24 * 3_600_000;

/// The values of all metrics at one moment.
#[derive(Debug, PartialEq)]
pub(crate) struct Reading {
    /// Milliseconds since 1970.
    pub(crate) at_ms: i64,
    values: Vec<MetricValue>,
}

#[derive(Debug, PartialEq)]
struct MetricValue {
    name: &'static str,
    part: Option<String>,
    value: f64,
}

impl Reading {
    /// Creates an empty reading.
    pub(crate) fn new(at_ms: i64) -> Reading {
        Reading { at_ms, values: Vec::new() }
    }

    /// Adds a value of the whole host. `None`, NaN and infinities are ignored.
    pub(crate) fn add(&mut self, name: &'static str, value: impl Into<Option<f64>>) {
        self.push(name, None, value.into());
    }

    /// Adds a value of a part of the host.
    pub(crate) fn add_part(&mut self, name: &'static str, part: &str, value: impl Into<Option<f64>>) {
        self.push(name, Some(truncated(part)), value.into());
    }

    fn push(&mut self, name: &'static str, part: Option<String>, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.values.push(MetricValue { name, part, value });
        }
    }

    /// Formats the reading as points, one per line. A point of a part has the tag `host_part`, which starts with the host,
    /// instead of the tag `host`, so that metrics of hosts and metrics of parts never mix.
    pub(crate) fn lines(&self, host: &str) -> String {
        let host = escaped_tag(host);
        let mut lines = String::with_capacity(64 * self.values.len());
        for MetricValue { name, part, value } in &self.values {
            let result = match part {
                Some(part) => {
                    writeln!(
                        lines,
                        "{name},host_part={host}/{} value={value} {}",
                        escaped_tag(part),
                        self.at_ms
                    )
                }
                None => writeln!(lines, "{name},host={host} value={value} {}", self.at_ms),
            };
            result.expect("writing to a string does not fail");
        }
        lines
    }

    /// Formats the reading as a JSON object.
    pub(crate) fn json(&self, host: &str) -> serde_json::Value {
        let format = |MetricValue { name, part, value }: &MetricValue| match part {
            Some(part) => json!({ "name": name, "part": part, "value": value }),
            None => json!({ "name": name, "value": value }),
        };
        json!({ "host": host, "at": self.at_ms, "values": self.values.iter().map(format).collect::<Vec<_>>() })
    }

    /// Returns the values as text: `host.cpu 12.5`, `device.busy sda 3`.
    #[cfg(test)]
    pub(crate) fn summary(&self) -> Vec<String> {
        let format = |MetricValue { name, part, value }: &MetricValue| match part {
            Some(part) => format!("{name} {part} {value}"),
            None => format!("{name} {value}"),
        };
        self.values.iter().map(format).collect()
    }
}

/// Escapes the value of a tag. Backslashes, which the protocol does not allow at the end of a tag, and control
/// characters are replaced.
fn escaped_tag(text: &str) -> String {
    let mut tag = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            ',' | '=' | ' ' => tag.extend(['\\', character]),
            '\\' => tag.push('/'),
            control if control.is_control() => tag.push('?'),
            other => tag.push(other),
        }
    }
    tag
}

fn truncated(part: &str) -> String {
    if part.len() <= PART_BYTES_MAX {
        return part.to_owned();
    }
    let end = part.floor_char_boundary(PART_BYTES_MAX - '…'.len_utf8());
    format!("{}…", &part[..end])
}

/// The limit of different parts of one kind per UTC day. The first ones of a day are reported.
#[derive(Default)]
pub(crate) struct PartLimit {
    day: i64,
    names: HashSet<String>,
}

impl PartLimit {
    /// Returns true if the part is reported today.
    pub(crate) fn admit(&mut self, part: &str, at_ms: i64) -> bool {
        let day = at_ms.div_euclid(DAY_MS);
        if self.day != day {
            (self.day, self.names) = (day, HashSet::new());
        }
        self.names.contains(part) || (self.names.len() < PARTS_PER_DAY && self.names.insert(part.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_is_formatted_as_points() {
        let mut reading = Reading::new(1_000);
        reading.add("host.cpu", 12.5);
        reading.add("host.load", f64::NAN);
        reading.add("host.swap", None);
        reading.add_part("mount.used", "/a b,c=d\\", 1e9);
        let expected = "host.cpu,host=web\\ 1 value=12.5 1000\n\
                        mount.used,host_part=web\\ 1//a\\ b\\,c\\=d/ value=1000000000 1000\n";
        assert_eq!(reading.lines("web 1"), expected);
    }

    #[test]
    fn long_part_is_truncated_to_fit_a_dimension() {
        let mut reading = Reading::new(1);
        reading.add_part("mount.used", &"ä".repeat(100), 1.0);
        let part = reading.json("h")["values"][0]["part"].as_str().expect("text").to_owned();
        assert!(part.len() <= PART_BYTES_MAX && part.ends_with("ä…"), "{part}");
    }

    #[test]
    fn parts_are_limited_per_day() {
        let mut parts = PartLimit::default();
        assert!((0..PARTS_PER_DAY).all(|part| parts.admit(&part.to_string(), DAY_MS)));
        assert!(parts.admit("0", DAY_MS) && !parts.admit("other", 2 * DAY_MS - 1));
        assert!(parts.admit("other", 2 * DAY_MS), "the next day has room again");
    }
}
