//! InfluxDB's line protocol: one point per line, any number of fields per point.
//!
//! | sent | sample |
//! |---|---|
//! | `cpu,host=a usage=1.5` | `cpu_usage` [`Measured::Gauge`] 1.5, tag `host=a` |
//! | `cpu,host=a value=1.5` | `cpu`, because the field name `value` is omitted |
//! | `=1i`, `=1u`, `=true`, `=f` | the whole number, 1 or 0 |
//! | `="text"` | [`Reject::ValueNotANumber`] for this field alone |
//!
//! A line with a syntax error is rejected as a whole, any other field by field. A string may span several lines if it
//! ends and the point is valid; otherwise only its first line is rejected, so that a missing quote does not swallow the
//! lines after it.
//!
//! `influxdb-line-protocol` 2.0 reads the same, but into owned points and with fourteen more crates to build, among them
//! a second `syn`.
//!
//! <https://docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol/>

use model::Reject;

use crate::decimal::parse_finite;
use crate::sample::{Measured, RejectedInput, Sample, SampleResult, Tag, metric_name, push_tag};

/// Maximum number of fields of one point.
const FIELDS_MAX: usize = 1_024;

/// The field whose name is omitted from the metric's name.
const VALUE: &str = "value";

/// The unit of a point's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// `ns` or `n`; the default.
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
    /// Returns the precision for a value of the request parameter `precision`.
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

    /// Converts a time to milliseconds, rounded down; `None` on overflow.
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

/// Reads one body or packet and calls `emit` with a sample or a rejection for each field, in their order.
///
/// Blank lines and lines that start with `#` are skipped.
pub fn decode(body: &[u8], precision: Precision, mut emit: impl FnMut(SampleResult<'_>)) {
    match str::from_utf8(body) {
        Ok(text) => points(text, precision, &mut emit),
        Err(_) => body.split(|byte| *byte == b'\n').for_each(|line| match str::from_utf8(line) {
            Ok(text) => points(text, precision, &mut emit),
            Err(_) => emit(Err(RejectedInput { reject: Reject::NotUtf8, text: line })),
        }),
    }
}

fn points(text: &str, precision: Precision, emit: &mut impl FnMut(SampleResult<'_>)) {
    let (mut point, mut name, mut from) = (Point::default(), String::new(), 0);
    while from < text.len() {
        let mut cursor = PointCursor { text, at: from };
        cursor.skip_while(|byte| byte == b' ');
        if cursor.is_at_line_end() || cursor.peek() == Some(b'#') {
            from = cursor.line_end() + 1;
            continue;
        }
        let read = cursor.read_point(&mut point);
        let end = if read.is_ok() { cursor.at } else { PointCursor { text, at: from }.line_end() };
        let line = text[from..end].trim_end_matches('\r');
        match read.and(point.rejected.map_or(Ok(()), Err)).and(point.ts_ms(precision)) {
            Ok(ts_ms) => point.emit_samples(ts_ms, line, &mut name, emit),
            Err(reject) => emit(Err(RejectedInput { reject, text: line.as_bytes() })),
        }
        from = PointCursor { text, at: end }.line_end() + 1;
    }
}

/// One point, as it was written.
#[derive(Default)]
struct Point<'a> {
    measurement: &'a str,
    tags: Vec<Tag<'a>>,
    fields: Vec<(&'a str, Result<f64, Reject>)>,
    time: Option<&'a str>,
    /// Its tags contain a backslash.
    has_escapes: bool,
    /// The first limit that it exceeds.
    rejected: Option<Reject>,
}

impl<'a> Point<'a> {
    fn ts_ms(&self, precision: Precision) -> Result<Option<i64>, Reject> {
        let Some(time) = self.time else { return Ok(None) };
        let ts_ms = time.parse().ok().and_then(|time| precision.ms(time));
        ts_ms.map(Some).ok_or(Reject::TimestampInvalid)
    }

    fn emit_samples(
        &self,
        ts_ms: Option<i64>,
        line: &str,
        name: &mut String,
        emit: &mut impl FnMut(SampleResult<'_>),
    ) {
        if !self.has_escapes {
            return self.emit_fields(&self.tags, ts_ms, line, name, emit);
        }
        let plain: Vec<_> = self.tags.iter().map(|tag| (unescaped(tag.key), unescaped(tag.value))).collect();
        let tags: Vec<_> = plain.iter().map(|(key, value)| Tag { key, value }).collect();
        self.emit_fields(&tags, ts_ms, line, name, emit);
    }

    fn emit_fields(
        &self,
        tags: &[Tag<'_>],
        ts_ms: Option<i64>,
        line: &str,
        name: &mut String,
        emit: &mut impl FnMut(SampleResult<'_>),
    ) {
        for (field, value) in &self.fields {
            name.clear();
            push_unescaped(name, self.measurement);
            if *field != VALUE {
                name.push('_');
                push_unescaped(name, field);
            }
            let checked = metric_name(name).and_then(|name| Ok((name, (*value)?)));
            emit(match checked {
                Ok((name, value)) => {
                    Ok(Sample { name, measured: Measured::Gauge(value), weight: 1.0, tags, ts_ms })
                }
                Err(reject) => Err(RejectedInput { reject, text: line.as_bytes() }),
            });
        }
    }

    fn reject(&mut self, reject: Reject) {
        self.rejected = self.rejected.or(Some(reject));
    }
}

/// Appends the text. A backslash is an escape before a separator and a plain character elsewhere.
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

/// A position in a body. All positions are next to ASCII characters, so slices never split a character.
struct PointCursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> PointCursor<'a> {
    /// Reads a point, up to the end of its last line.
    fn read_point(&mut self, point: &mut Point<'a>) -> Result<(), Reject> {
        point.tags.clear();
        point.fields.clear();
        (point.time, point.has_escapes, point.rejected) = (None, false, None);
        point.measurement = self.token(b", ")?;
        while self.consume(b',') {
            self.tag(point)?;
        }
        self.spaces()?;
        self.field(point)?;
        while self.consume(b',') {
            self.field(point)?;
        }
        if !self.is_at_line_end() {
            self.spaces()?;
        }
        if !self.is_at_line_end() {
            point.time = Some(self.whole_number()?);
            self.skip_while(|byte| byte == b' ');
        }
        if self.is_at_line_end() { Ok(()) } else { Err(Reject::MalformedLine) }
    }

    fn tag(&mut self, point: &mut Point<'a>) -> Result<(), Reject> {
        let key = self.key()?;
        let value = self.token(b",= ")?;
        point.has_escapes |= key.contains('\\') || value.contains('\\');
        push_tag(&mut point.tags, key, value).unwrap_or_else(|reject| point.reject(reject));
        Ok(())
    }

    fn field(&mut self, point: &mut Point<'a>) -> Result<(), Reject> {
        let key = self.key()?;
        let value = if self.consume(b'"') { self.string()? } else { number(self.token(b", ")?)? };
        if point.fields.len() == FIELDS_MAX {
            point.reject(Reject::PropsTooManyKeys);
        } else {
            point.fields.push((key, value));
        }
        Ok(())
    }

    /// Reads a key and the `=` after it.
    fn key(&mut self) -> Result<&'a str, Reject> {
        let key = self.token(b",= ")?;
        if self.consume(b'=') { Ok(key) } else { Err(Reject::MalformedLine) }
    }

    /// Reads at least one byte, up to an unescaped separator or the end of the line.
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

    /// Reads a time. An invalid one shows that a string ended at the wrong quote.
    fn whole_number(&mut self) -> Result<&'a str, Reject> {
        let token = self.token(b" ")?;
        let digits = token.strip_prefix(['-', '+']).unwrap_or(token);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if is_number { Ok(token) } else { Err(Reject::MalformedLine) }
    }

    /// Reads the rest of a string after its opening quote.
    fn string(&mut self) -> Result<Result<f64, Reject>, Reject> {
        loop {
            let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
            let step = memchr::memchr2(b'"', b'\\', rest).ok_or(Reject::MalformedLine)?;
            self.at += step + 1;
            if rest[step] == b'"' {
                return Ok(Err(Reject::ValueNotANumber));
            }
            // The byte after a backslash does not end the string. It may be the first of a multi-byte character.
            self.at += 1;
        }
    }

    fn spaces(&mut self) -> Result<(), Reject> {
        let from = self.at;
        self.skip_while(|byte| byte == b' ');
        if self.at > from { Ok(()) } else { Err(Reject::MalformedLine) }
    }

    fn skip_while(&mut self, skipped: fn(u8) -> bool) {
        while self.peek().is_some_and(skipped) {
            self.at += 1;
        }
    }

    fn consume(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Returns true at the end, at a newline, or at a carriage return before one of them.
    fn is_at_line_end(&self) -> bool {
        match self.peek() {
            None | Some(b'\n') => true,
            Some(b'\r') => matches!(self.text.as_bytes().get(self.at + 1), None | Some(b'\n')),
            Some(_) => false,
        }
    }

    /// Returns the end of the line that contains this position.
    fn line_end(&self) -> usize {
        let rest = &self.text.as_bytes()[self.at..];
        memchr::memchr(b'\n', rest).map_or(self.text.len(), |len| self.at + len)
    }
}

/// Parses the value of a field that is not a string. Returns an outer error if it is of no known type.
fn number(text: &str) -> Result<Result<f64, Reject>, Reject> {
    let whole = match text.as_bytes() {
        b"t" | b"T" | b"true" | b"True" | b"TRUE" => return Ok(Ok(1.0)),
        b"f" | b"F" | b"false" | b"False" | b"FALSE" => return Ok(Ok(0.0)),
        [digits @ .., b'i'] => text[..digits.len()].parse::<i64>().map(|whole| whole as f64),
        [digits @ .., b'u'] => text[..digits.len()].parse::<u64>().map(|whole| whole as f64),
        _ => {
            return match parse_finite(text) {
                Err(Reject::ValueNotANumber) => Err(Reject::MalformedLine),
                value => Ok(value),
            };
        }
    };
    whole.map(Ok).map_err(|_| Reject::MalformedLine)
}
