//! InfluxDB's line protocol: one point a line, any number of fields a point.
//!
//! | sent | sample |
//! |---|---|
//! | `cpu,host=a usage=1.5` | `cpu_usage` [`Measured::Gauge`] 1.5, tag `host=a` |
//! | `cpu,host=a value=1.5` | `cpu`, since the field says nothing |
//! | `=1i`, `=1u`, `=true`, `=f` | the whole number, 1 or 0 |
//! | `="text"` | [`Reject::ValueNotANumber`] of this field alone |
//!
//! A line that cannot be read is refused whole; one that can, field by field. A string may go over several lines, as
//! long as it ends and the point is right; otherwise the first line alone is refused, so that a lost quote does not
//! swallow what follows.
//!
//! `influxdb-line-protocol` 2.0 reads the same, into owned points and with fourteen more crates to build, a second `syn`
//! among them.
//!
//! <https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/>

use model::Reject;

use crate::decimal::finite;
use crate::sample::{Measured, Refused, Sample, Tag, Taken, metric_name, push_tag};

/// Fields of one point.
const FIELDS_MAX: usize = 1_024;

/// The field whose name is not part of the metric's.
const VALUE: &str = "value";

/// In which unit a point's time is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// `ns` or `n`; also if the sender says nothing.
    #[default]
    Nanoseconds,
    /// `us`, `u` or `µ`.
    Microseconds,
    /// `ms`.
    Milliseconds,
    /// `s`.
    Seconds,
    /// `m`.
    Minutes,
    /// `h`.
    Hours,
}

impl Precision {
    /// The precision of this name, as the parameter `precision` of a request has it.
    pub fn from_label(label: &str) -> Option<Precision> {
        Some(match label {
            "ns" | "n" => Precision::Nanoseconds,
            "us" | "u" | "µ" => Precision::Microseconds,
            "ms" => Precision::Milliseconds,
            "s" => Precision::Seconds,
            "m" => Precision::Minutes,
            "h" => Precision::Hours,
            _ => return None,
        })
    }

    /// Milliseconds, to the one below.
    fn ms(self, time: i64) -> Option<i64> {
        match self {
            Precision::Nanoseconds => Some(time.div_euclid(1_000_000)),
            Precision::Microseconds => Some(time.div_euclid(1_000)),
            Precision::Milliseconds => Some(time),
            Precision::Seconds => time.checked_mul(1_000),
            Precision::Minutes => time.checked_mul(60_000),
            Precision::Hours => time.checked_mul(3_600_000),
        }
    }
}

/// Reads one body or packet and hands on a sample for each field, and what was refused, in their order.
///
/// Blank lines and those that begin with `#` are nothing.
pub fn decode(body: &[u8], precision: Precision, mut take: impl FnMut(Taken<'_>)) {
    match str::from_utf8(body) {
        Ok(text) => points(text, precision, &mut take),
        Err(_) => body.split(|byte| *byte == b'\n').for_each(|line| match str::from_utf8(line) {
            Ok(text) => points(text, precision, &mut take),
            Err(_) => take(Err(Refused { reject: Reject::NotUtf8, text: line })),
        }),
    }
}

fn points(text: &str, precision: Precision, take: &mut impl FnMut(Taken<'_>)) {
    let (mut point, mut name, mut from) = (Point::default(), String::new(), 0);
    while from < text.len() {
        let mut cursor = Cursor { text, at: from };
        cursor.skip(|byte| byte == b' ');
        if cursor.is_at_line_end() || cursor.peek() == Some(b'#') {
            from = cursor.line_end() + 1;
            continue;
        }
        let read = cursor.point(&mut point);
        let end = if read.is_ok() { cursor.at } else { Cursor { text, at: from }.line_end() };
        let line = text[from..end].trim_end_matches('\r');
        match read.and(point.refused.map_or(Ok(()), Err)).and(point.ts_ms(precision)) {
            Ok(ts_ms) => point.give(ts_ms, line, &mut name, take),
            Err(reject) => take(Err(Refused { reject, text: line.as_bytes() })),
        }
        from = Cursor { text, at: end }.line_end() + 1;
    }
}

/// One point, as it was written.
#[derive(Default)]
struct Point<'a> {
    measurement: &'a str,
    tags: Vec<Tag<'a>>,
    fields: Vec<(&'a str, Result<f64, Reject>)>,
    time: Option<&'a str>,
    /// Its tags have a backslash.
    has_escapes: bool,
    /// The first limit that it breaks.
    refused: Option<Reject>,
}

impl<'a> Point<'a> {
    fn ts_ms(&self, precision: Precision) -> Result<Option<i64>, Reject> {
        let Some(time) = self.time else { return Ok(None) };
        let ts_ms = time.parse().ok().and_then(|time| precision.ms(time));
        ts_ms.map(Some).ok_or(Reject::TimestampInvalid)
    }

    fn give(&self, ts_ms: Option<i64>, line: &str, name: &mut String, take: &mut impl FnMut(Taken<'_>)) {
        if !self.has_escapes {
            return self.give_fields(&self.tags, ts_ms, line, name, take);
        }
        let plain: Vec<_> = self.tags.iter().map(|tag| (unescaped(tag.key), unescaped(tag.value))).collect();
        let tags: Vec<_> = plain.iter().map(|(key, value)| Tag { key, value }).collect();
        self.give_fields(&tags, ts_ms, line, name, take);
    }

    fn give_fields(
        &self,
        tags: &[Tag<'_>],
        ts_ms: Option<i64>,
        line: &str,
        name: &mut String,
        take: &mut impl FnMut(Taken<'_>),
    ) {
        for (field, value) in &self.fields {
            name.clear();
            push_unescaped(name, self.measurement);
            if *field != VALUE {
                name.push('_');
                push_unescaped(name, field);
            }
            let checked = metric_name(name).and_then(|name| Ok((name, (*value)?)));
            take(match checked {
                Ok((name, value)) => {
                    Ok(Sample { name, measured: Measured::Gauge(value), weight: 1.0, tags, ts_ms })
                }
                Err(reject) => Err(Refused { reject, text: line.as_bytes() }),
            });
        }
    }

    fn refuse(&mut self, reject: Reject) {
        self.refused = self.refused.or(Some(reject));
    }
}

/// A backslash stands for itself, but before a separator.
fn push_unescaped(out: &mut String, mut text: &str) {
    while let Some(at) = text.find('\\') {
        let is_escape = text[at + 1..].starts_with([',', '=', ' ']);
        out.push_str(&text[..at]);
        if !is_escape {
            out.push('\\');
        }
        let next = text[at + 1..].chars().next();
        out.extend(next.filter(|_| is_escape));
        text = &text[at + 1 + usize::from(is_escape)..];
    }
    out.push_str(text);
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    push_unescaped(&mut plain, text);
    plain
}

/// A place in a body. All places lie beside ASCII, so no character is cut.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Reads a point, up to the end of its last line.
    fn point(&mut self, point: &mut Point<'a>) -> Result<(), Reject> {
        point.tags.clear();
        point.fields.clear();
        (point.time, point.has_escapes, point.refused) = (None, false, None);
        point.measurement = self.token(b", ")?;
        while self.takes(b',') {
            self.tag(point)?;
        }
        self.spaces()?;
        self.field(point)?;
        while self.takes(b',') {
            self.field(point)?;
        }
        if !self.is_at_line_end() {
            self.spaces()?;
        }
        if !self.is_at_line_end() {
            point.time = Some(self.whole_number()?);
            self.skip(|byte| byte == b' ');
        }
        if self.is_at_line_end() { Ok(()) } else { Err(Reject::MalformedLine) }
    }

    fn tag(&mut self, point: &mut Point<'a>) -> Result<(), Reject> {
        let key = self.key()?;
        let value = self.token(b",= ")?;
        point.has_escapes |= key.contains('\\') || value.contains('\\');
        push_tag(&mut point.tags, key, value).unwrap_or_else(|reject| point.refuse(reject));
        Ok(())
    }

    fn field(&mut self, point: &mut Point<'a>) -> Result<(), Reject> {
        let key = self.key()?;
        let value = if self.takes(b'"') { self.string()? } else { number(self.token(b", ")?)? };
        if point.fields.len() == FIELDS_MAX {
            point.refuse(Reject::PropsTooManyKeys);
        } else {
            point.fields.push((key, value));
        }
        Ok(())
    }

    /// A key and the `=` behind it.
    fn key(&mut self) -> Result<&'a str, Reject> {
        let key = self.token(b",= ")?;
        if self.takes(b'=') { Ok(key) } else { Err(Reject::MalformedLine) }
    }

    /// At least one byte, up to a separator without a backslash before it or the end of the line.
    fn token(&mut self, separators: &[u8]) -> Result<&'a str, Reject> {
        let from = self.at;
        while let Some(byte) = self.peek() {
            let is_escaped = self.at > from && self.text.as_bytes()[self.at - 1] == b'\\';
            if self.is_at_line_end() || separators.contains(&byte) && !is_escaped {
                break;
            }
            self.at += 1;
        }
        if self.at > from { Ok(&self.text[from..self.at]) } else { Err(Reject::MalformedLine) }
    }

    /// A time. What is none shows that a string ended at the wrong quote.
    fn whole_number(&mut self) -> Result<&'a str, Reject> {
        let token = self.token(b" ")?;
        let digits = token.strip_prefix(['-', '+']).unwrap_or(token);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { Ok(token) } else { Err(Reject::MalformedLine) }
    }

    /// The rest of a string, behind its opening quote.
    fn string(&mut self) -> Result<Result<f64, Reject>, Reject> {
        loop {
            let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
            let step = memchr::memchr2(b'"', b'\\', rest).ok_or(Reject::MalformedLine)?;
            self.at += step + 1;
            if rest[step] == b'"' {
                return Ok(Err(Reject::ValueNotANumber));
            }
            // What follows a backslash does not end the string. It may be the first byte of several.
            self.at += 1;
        }
    }

    fn spaces(&mut self) -> Result<(), Reject> {
        let from = self.at;
        self.skip(|byte| byte == b' ');
        if self.at > from { Ok(()) } else { Err(Reject::MalformedLine) }
    }

    fn skip(&mut self, skipped: fn(u8) -> bool) {
        while self.peek().is_some_and(skipped) {
            self.at += 1;
        }
    }

    fn takes(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// At the end, a newline, or a carriage return before one of them.
    fn is_at_line_end(&self) -> bool {
        match self.peek() {
            None | Some(b'\n') => true,
            Some(b'\r') => matches!(self.text.as_bytes().get(self.at + 1), None | Some(b'\n')),
            Some(_) => false,
        }
    }

    /// Where the line ends that this place is in.
    fn line_end(&self) -> usize {
        let rest = &self.text.as_bytes()[self.at..];
        memchr::memchr(b'\n', rest).map_or(self.text.len(), |len| self.at + len)
    }
}

/// The value of a field that is no string. An error: it is none of those that there are.
fn number(text: &str) -> Result<Result<f64, Reject>, Reject> {
    let whole = match text.as_bytes() {
        b"t" | b"T" | b"true" | b"True" | b"TRUE" => return Ok(Ok(1.0)),
        b"f" | b"F" | b"false" | b"False" | b"FALSE" => return Ok(Ok(0.0)),
        [digits @ .., b'i'] => text[..digits.len()].parse::<i64>().map(|whole| whole as f64),
        [digits @ .., b'u'] => text[..digits.len()].parse::<u64>().map(|whole| whole as f64),
        _ => {
            return match finite(text) {
                Err(Reject::ValueNotANumber) => Err(Reject::MalformedLine),
                value => Ok(value),
            };
        }
    };
    whole.map(Ok).map_err(|_| Reject::MalformedLine)
}
