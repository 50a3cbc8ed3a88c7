//! What was read at one moment: values of metrics, of the host as a whole or of a part of it.
//!
//! They are written as points in InfluxDB's line protocol, one a line, with the time in milliseconds.

use std::collections::HashSet;
use std::fmt::Write;

use model::limits::DIMENSION_BYTES_MAX;
use serde_json::json;

/// Bytes of a host's name.
pub const HOST_BYTES_MAX: usize = 64;
/// Bytes of a part's name: with the host's and a slash it fits a dimension's value.
const PART_BYTES_MAX: usize = 63;
const _: () = assert!(HOST_BYTES_MAX + 1 + PART_BYTES_MAX <= DIMENSION_BYTES_MAX);
/// Different parts of one kind that are told of in one day of UTC. Of a dimension 1,000 values a day are kept.
const PARTS_A_DAY: usize = 64;
const DAY_MS: i64 = 24 * 3_600_000;

/// Everything that was read at one moment.
#[derive(Debug, PartialEq)]
pub struct Reading {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    values: Vec<Value>,
}

#[derive(Debug, PartialEq)]
struct Value {
    name: &'static str,
    part: Option<String>,
    value: f64,
}

impl Reading {
    /// Nothing yet.
    pub fn new(at_ms: i64) -> Reading {
        Reading { at_ms, values: Vec::new() }
    }

    /// Adds a value of the whole host. What is no number is nothing.
    pub fn add(&mut self, name: &'static str, value: impl Into<Option<f64>>) {
        self.push(name, None, value.into());
    }

    /// Adds a value of a part of the host.
    pub fn add_part(&mut self, name: &'static str, part: &str, value: impl Into<Option<f64>>) {
        self.push(name, Some(short(part)), value.into());
    }

    fn push(&mut self, name: &'static str, part: Option<String>, value: Option<f64>) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.values.push(Value { name, part, value });
        }
    }

    /// As points, one a line. A point of a part has the tag `host_part`, which has the host in front, and no tag `host`:
    /// so the metrics of whole hosts and those of parts never mix.
    pub fn lines(&self, host: &str) -> String {
        let host = tag(host);
        let mut lines = String::with_capacity(64 * self.values.len());
        for Value { name, part, value } in &self.values {
            let written = match part {
                Some(part) => {
                    writeln!(lines, "{name},host_part={host}/{} value={value} {}", tag(part), self.at_ms)
                }
                None => writeln!(lines, "{name},host={host} value={value} {}", self.at_ms),
            };
            written.expect("text can be written to a string");
        }
        lines
    }

    /// As an object: the values in a list.
    pub fn json(&self, host: &str) -> serde_json::Value {
        let one = |Value { name, part, value }: &Value| match part {
            Some(part) => json!({ "name": name, "part": part, "value": value }),
            None => json!({ "name": name, "value": value }),
        };
        json!({ "host": host, "at": self.at_ms, "values": self.values.iter().map(one).collect::<Vec<_>>() })
    }

    /// `host.cpu 12.5`, `device.busy sda 3`: the values in words.
    #[cfg(test)]
    pub fn words(&self) -> Vec<String> {
        let one = |Value { name, part, value }: &Value| match part {
            Some(part) => format!("{name} {part} {value}"),
            None => format!("{name} {value}"),
        };
        self.values.iter().map(one).collect()
    }
}

/// A backslash cannot be written at the end of a tag, and a line has one line.
fn tag(text: &str) -> String {
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

fn short(part: &str) -> String {
    if part.len() <= PART_BYTES_MAX {
        return part.to_owned();
    }
    let end = part.floor_char_boundary(PART_BYTES_MAX - '…'.len_utf8());
    format!("{}…", &part[..end])
}

/// Which parts of one kind are told of: those that came first this day.
#[derive(Default)]
pub struct Parts {
    day: i64,
    names: HashSet<String>,
}

impl Parts {
    /// Whether there is room for this part.
    pub fn admit(&mut self, part: &str, at_ms: i64) -> bool {
        let day = at_ms.div_euclid(DAY_MS);
        if self.day != day {
            (self.day, self.names) = (day, HashSet::new());
        }
        self.names.contains(part) || (self.names.len() < PARTS_A_DAY && self.names.insert(part.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_written_as_points() {
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
    fn a_part_with_its_host_fits_a_dimension() {
        let mut reading = Reading::new(1);
        reading.add_part("mount.used", &"ä".repeat(100), 1.0);
        let part = reading.json("h")["values"][0]["part"].as_str().expect("text").to_owned();
        assert!(part.len() <= PART_BYTES_MAX && part.ends_with("ä…"), "{part}");
    }

    #[test]
    fn so_many_parts_are_told_of_a_day() {
        let mut parts = Parts::default();
        assert!((0..PARTS_A_DAY).all(|part| parts.admit(&part.to_string(), DAY_MS)));
        assert!(parts.admit("0", DAY_MS) && !parts.admit("other", 2 * DAY_MS - 1));
        assert!(parts.admit("other", 2 * DAY_MS), "the next day has room again");
    }
}
