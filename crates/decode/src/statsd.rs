//! StatsD in the dialects of Etsy and Datadog: one metric per line, any number of lines per packet.
//!
//! | sent | sample |
//! |---|---|
//! | `name:3\|c` | [`Measured::Count`] |
//! | `name:3\|g` | [`Measured::Gauge`]; with a leading sign [`Measured::Change`] |
//! | `name:3\|ms` | [`Measured::Timer`] |
//! | `name:3\|h`, `name:3\|d` | [`Measured::Value`] |
//! | `name:text\|s` | [`Measured::Member`] |
//! | `name:1:2:3\|ms` | a sample for each value, except for `s` |
//! | `name:1\|c:2\|ms\|@0.1` | a sample for each, of its own kind; no further sections |
//!
//! Sections after the kind may occur in any order, each at most once: `@0.1` the sampling rate (ignored for `g` and
//! `s`), `#key:value,word` the tags, `T1656581400` the time in seconds, and `c:`, `e:` and `card:` sections_read the sender's
//! container, which are ignored. `_e{...}` and `_sc|...` are [`Reject::KindUnsupported`].
//!
//! <https://github.com/statsd/statsd/blob/master/docs/metric_types.md>,
//! <https://docs.datadoghq.com/developers/dogstatsd/datagram_shell/>

use memchr::memchr;
use model::Reject;
use model::limits::PROP_STRING_BYTES_MAX;

use crate::decimal::parse_finite;
use crate::sample::{Measured, RejectedInput, Sample, SampleResult, Tag, metric_name, push_tag};

/// The smallest valid sampling rate: one sample represents at most a billion.
const RATE_MIN: f64 = 1e-9;

/// 9999-12-31T23:59:59Z.
const SECONDS_MAX: u64 = 253_402_300_799;

/// Reads one packet and calls `emit` with each sample and each rejected line, in their order.
///
/// A line is accepted or rejected as a whole. Blank lines are skipped.
#[inline]
pub fn decode(packet: &[u8], mut emit: impl FnMut(SampleResult<'_>)) {
    let mut tags = Vec::new();
    match str::from_utf8(packet) {
        Ok(text) => lines(text, &mut tags, &mut emit),
        Err(_) => packet.split(|byte| *byte == b'\n').for_each(|line| match str::from_utf8(line) {
            Ok(text) => lines(text, &mut tags, &mut emit),
            Err(_) => emit(Err(RejectedInput { reject: Reject::NotUtf8, text: line })),
        }),
    }
}

#[inline(always)]
fn lines<'a>(mut text: &'a str, tags: &mut Vec<Tag<'a>>, emit: &mut impl FnMut(SampleResult<'_>)) {
    while !text.is_empty() {
        // Lines are long enough for `memchr`; shorter parts are found faster byte by byte.
        let end = memchr(b'\n', text.as_bytes()).unwrap_or(text.len());
        let line = &text[..end];
        text = text.get(end + 1..).unwrap_or("");
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        if let Err(reject) = one_line(line, tags, emit) {
            emit(Err(RejectedInput { reject, text: line.as_bytes() }));
        }
    }
}

/// Splits the text at the first `separator`.
#[inline(always)]
fn split_at_byte(text: &str, separator: u8) -> Option<(&str, &str)> {
    let at = text.bytes().position(|byte| byte == separator)?;
    Some((&text[..at], &text[at + 1..]))
}

#[inline(always)]
fn one_line<'a>(
    line: &'a str,
    tags: &mut Vec<Tag<'a>>,
    emit: &mut impl FnMut(SampleResult<'_>),
) -> Result<(), Reject> {
    if line.starts_with("_e{") || line.starts_with("_sc|") {
        return Err(Reject::KindUnsupported);
    }
    let (name, rest) = split_at_byte(line, b':').ok_or(Reject::MalformedLine)?;
    let name = metric_name(name)?;
    let (values, sections) = split_at_byte(rest, b'|').ok_or(Reject::MalformedLine)?;
    let mut sections = Sections { rest: Some(sections) };
    let kind = sections.next().expect("a split has a first part");
    let Some(kind) = MetricKind::of(kind) else {
        return if kind.contains(':') {
            legacy_values(name, rest, emit)
        } else {
            Err(Reject::KindUnsupported)
        };
    };
    tags.clear();
    let mut sections_read = LineSections::default();
    for section in sections {
        if section.starts_with('@') && section.contains(':') {
            return legacy_values(name, rest, emit);
        }
        sections_read.put(section, tags)?;
    }
    let sample = |measured| sections_read.sample(name, measured, tags);
    if kind == MetricKind::Set || !values.bytes().any(|byte| byte == b':') {
        emit(Ok(sample(kind.measured(values)?)?));
        return Ok(());
    }
    values.split(':').try_for_each(|value| sample(kind.measured(value)?).map(|_| ()))?;
    values
        .split(':')
        .flat_map(|value| kind.measured(value).and_then(sample))
        .for_each(|sample| emit(Ok(sample)));
    Ok(())
}

/// Reads several values in the old syntax: `1|c:2|ms|@0.1`.
#[cold]
fn legacy_values(name: &str, pieces: &str, emit: &mut impl FnMut(SampleResult<'_>)) -> Result<(), Reject> {
    pieces.split(':').try_for_each(|text| legacy_value(name, text).map(|_| ()))?;
    pieces.split(':').flat_map(|text| legacy_value(name, text)).for_each(|sample| emit(Ok(sample)));
    Ok(())
}

fn legacy_value<'a>(name: &'a str, text: &'a str) -> Result<Sample<'a>, Reject> {
    let (value, sections) = split_at_byte(text, b'|').ok_or(Reject::MalformedLine)?;
    let (kind, rate) = split_at_byte(sections, b'|').unwrap_or((sections, "@1"));
    let kind = MetricKind::of(kind).ok_or(Reject::KindUnsupported)?;
    let rate = rate.strip_prefix('@').ok_or(Reject::MalformedLine)?;
    let sections_read = LineSections { weight: weight(rate)?, ..LineSections::default() };
    sections_read.sample(name, kind.measured(value)?, &[])
}

#[derive(Clone, Copy, PartialEq)]
enum MetricKind {
    Counter,
    Gauge,
    Timer,
    Distribution,
    Set,
}

impl MetricKind {
    #[inline(always)]
    fn of(text: &str) -> Option<MetricKind> {
        Some(match text.as_bytes() {
            b"c" => MetricKind::Counter,
            b"g" => MetricKind::Gauge,
            b"ms" => MetricKind::Timer,
            b"h" | b"d" => MetricKind::Distribution,
            b"s" => MetricKind::Set,
            _ => return None,
        })
    }

    #[inline(always)]
    fn measured(self, text: &str) -> Result<Measured<'_>, Reject> {
        Ok(match self {
            MetricKind::Counter => Measured::Count(parse_finite(text)?),
            MetricKind::Gauge if text.starts_with(['+', '-']) => Measured::Change(parse_finite(text)?),
            MetricKind::Gauge => Measured::Gauge(parse_finite(text)?),
            MetricKind::Timer => Measured::Timer(parse_finite(text)?),
            MetricKind::Distribution => Measured::Value(parse_finite(text)?),
            MetricKind::Set => Measured::Member(member(text)?),
        })
    }
}

fn member(text: &str) -> Result<&str, Reject> {
    match text.len() {
        0 => Err(Reject::MalformedLine),
        1..=PROP_STRING_BYTES_MAX => Ok(text),
        _ => Err(Reject::PropStringTooLong),
    }
}

/// Iterates over the sections between the bars.
struct Sections<'a> {
    rest: Option<&'a str>,
}

impl<'a> Iterator for Sections<'a> {
    type Item = &'a str;

    #[inline(always)]
    fn next(&mut self) -> Option<&'a str> {
        let rest = self.rest?;
        let (section, rest) =
            split_at_byte(rest, b'|').map_or((rest, None), |(section, rest)| (section, Some(rest)));
        self.rest = rest;
        Some(section)
    }
}

/// The sections of a line, which apply to all its values.
struct LineSections {
    weight: f64,
    ts_ms: Option<i64>,
    /// Bit set of the sections seen.
    seen: u8,
}

impl Default for LineSections {
    fn default() -> LineSections {
        LineSections { weight: 1.0, ts_ms: None, seen: 0 }
    }
}

impl LineSections {
    #[inline(always)]
    fn put<'a>(&mut self, section: &'a str, tags: &mut Vec<Tag<'a>>) -> Result<(), Reject> {
        let number = match section.as_bytes() {
            [b'@', ..] => {
                self.weight = weight(&section[1..])?;
                0
            }
            [b'#', ..] => {
                read_tags(&section[1..], tags)?;
                1
            }
            [b'T', ..] => {
                self.ts_ms = Some(seconds_ms(&section[1..])?);
                2
            }
            [b'c', b':', ..] => 3,
            [b'e', b':', ..] => 4,
            [b'c', b'a', b'r', b'd', b':', ..] => 5,
            _ => return Err(Reject::MalformedLine),
        };
        let is_new = self.seen & (1 << number) == 0;
        self.seen |= 1 << number;
        if is_new { Ok(()) } else { Err(Reject::MalformedLine) }
    }

    #[inline(always)]
    fn sample<'a>(
        &self,
        name: &'a str,
        measured: Measured<'a>,
        tags: &'a [Tag<'a>],
    ) -> Result<Sample<'a>, Reject> {
        let (weight, value) = match measured {
            Measured::Count(value) | Measured::Timer(value) | Measured::Value(value) => (self.weight, value),
            _ => (1.0, 0.0),
        };
        if !(weight * value).is_finite() {
            return Err(Reject::ValueNotFinite);
        }
        Ok(Sample { name, measured, weight, tags, ts_ms: self.ts_ms })
    }
}

#[inline(always)]
fn weight(rate: &str) -> Result<f64, Reject> {
    match parse_finite(rate) {
        Ok(rate @ RATE_MIN..=1.0) => Ok(1.0 / rate),
        _ => Err(Reject::SampleRateInvalid),
    }
}

#[inline(always)]
fn read_tags<'a>(text: &'a str, tags: &mut Vec<Tag<'a>>) -> Result<(), Reject> {
    let mut rest = Some(text);
    while let Some(text) = rest {
        let (tag, after) = split_at_byte(text, b',').map_or((text, None), |(tag, after)| (tag, Some(after)));
        rest = after;
        if !tag.is_empty() {
            let (key, value) = split_at_byte(tag, b':').unwrap_or((tag, ""));
            push_tag(tags, key, value)?;
        }
    }
    Ok(())
}

#[inline(always)]
fn seconds_ms(text: &str) -> Result<i64, Reject> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<u64>() {
        Ok(seconds @ 0..=SECONDS_MAX) if is_number => Ok(seconds as i64 * 1_000),
        _ => Err(Reject::TimestampInvalid),
    }
}
