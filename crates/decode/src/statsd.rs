//! StatsD, as Etsy's daemon took it and as Datadog's extended it: one metric a line, any number of lines a packet.
//!
//! | sent | sample |
//! |---|---|
//! | `name:3\|c` | [`Measured::Count`] |
//! | `name:3\|g` | [`Measured::Gauge`]; with a sign in front [`Measured::Change`] |
//! | `name:3\|ms` | [`Measured::Timer`] |
//! | `name:3\|h`, `name:3\|d` | [`Measured::Value`] |
//! | `name:text\|s` | [`Measured::Member`] |
//! | `name:1:2:3\|ms` | a sample for each value, but for `s` |
//! | `name:1\|c:2\|ms\|@0.1` | a sample for each, of its own kind; no further sections |
//!
//! Sections after the kind, in any order and each at most once: `@0.1` the sampling rate (without effect on `g` and
//! `s`), `#key:value,word` the tags, `T1656581400` the time in seconds, `c:`, `e:` and `card:` where the sender runs,
//! which are not kept. `_e{...}` and `_sc|...` are [`Reject::KindUnsupported`].
//!
//! <https://github.com/statsd/statsd/blob/master/docs/metric_types.md>,
//! <https://docs.datadoghq.com/developers/dogstatsd/datagram_shell/>

use memchr::memchr;
use model::Reject;
use model::limits::PROP_STRING_BYTES_MAX;

use crate::decimal::finite;
use crate::sample::{Measured, Refused, Sample, Tag, Taken, metric_name, push_tag};

/// The smallest sampling rate that is believed: one sample stands for a billion at most.
const RATE_MIN: f64 = 1e-9;

/// 9999-12-31T23:59:59Z.
const SECONDS_MAX: u64 = 253_402_300_799;

/// Reads one packet and hands on each sample, and each line that was refused, in their order.
///
/// A line is taken whole or not at all. Blank lines are nothing.
#[inline]
pub fn decode(packet: &[u8], mut take: impl FnMut(Taken<'_>)) {
    let mut tags = Vec::new();
    match str::from_utf8(packet) {
        Ok(text) => lines(text, &mut tags, &mut take),
        Err(_) => packet.split(|byte| *byte == b'\n').for_each(|line| match str::from_utf8(line) {
            Ok(text) => lines(text, &mut tags, &mut take),
            Err(_) => take(Err(Refused { reject: Reject::NotUtf8, text: line })),
        }),
    }
}

#[inline(always)]
fn lines<'a>(mut text: &'a str, tags: &mut Vec<Tag<'a>>, take: &mut impl FnMut(Taken<'_>)) {
    while !text.is_empty() {
        // Lines are long enough for `memchr`; what stands in them is found sooner byte by byte.
        let end = memchr(b'\n', text.as_bytes()).unwrap_or(text.len());
        let line = &text[..end];
        text = text.get(end + 1..).unwrap_or("");
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        if let Err(reject) = one_line(line, tags, take) {
            take(Err(Refused { reject, text: line.as_bytes() }));
        }
    }
}

/// What stands before the first `separator`, and what behind it.
#[inline(always)]
fn cut(text: &str, separator: u8) -> Option<(&str, &str)> {
    let at = text.bytes().position(|byte| byte == separator)?;
    Some((&text[..at], &text[at + 1..]))
}

#[inline(always)]
fn one_line<'a>(
    line: &'a str,
    tags: &mut Vec<Tag<'a>>,
    take: &mut impl FnMut(Taken<'_>),
) -> Result<(), Reject> {
    if line.starts_with("_e{") || line.starts_with("_sc|") {
        return Err(Reject::KindUnsupported);
    }
    let (name, rest) = cut(line, b':').ok_or(Reject::MalformedLine)?;
    let name = metric_name(name)?;
    let (values, sections) = cut(rest, b'|').ok_or(Reject::MalformedLine)?;
    let mut sections = Sections { rest: Some(sections) };
    let kind = sections.next().expect("there was a separator");
    let Some(kind) = Kind::of(kind) else {
        return if kind.contains(':') { several(name, rest, take) } else { Err(Reject::KindUnsupported) };
    };
    tags.clear();
    let mut about = About::default();
    for section in sections {
        if section.starts_with('@') && section.contains(':') {
            return several(name, rest, take);
        }
        about.put(section, tags)?;
    }
    let sample = |measured| about.sample(name, measured, tags);
    if kind == Kind::Set || !values.bytes().any(|byte| byte == b':') {
        take(Ok(sample(kind.measured(values)?)?));
        return Ok(());
    }
    values.split(':').try_for_each(|value| sample(kind.measured(value)?).map(|_| ()))?;
    values
        .split(':')
        .flat_map(|value| kind.measured(value).and_then(sample))
        .for_each(|sample| take(Ok(sample)));
    Ok(())
}

/// The old way to say more than one thing of a metric: `1|c:2|ms|@0.1`.
#[cold]
fn several(name: &str, pieces: &str, take: &mut impl FnMut(Taken<'_>)) -> Result<(), Reject> {
    pieces.split(':').try_for_each(|text| piece(name, text).map(|_| ()))?;
    pieces.split(':').flat_map(|text| piece(name, text)).for_each(|sample| take(Ok(sample)));
    Ok(())
}

fn piece<'a>(name: &'a str, text: &'a str) -> Result<Sample<'a>, Reject> {
    let (value, sections) = cut(text, b'|').ok_or(Reject::MalformedLine)?;
    let (kind, rate) = cut(sections, b'|').unwrap_or((sections, "@1"));
    let kind = Kind::of(kind).ok_or(Reject::KindUnsupported)?;
    let rate = rate.strip_prefix('@').ok_or(Reject::MalformedLine)?;
    let about = About { weight: weight(rate)?, ..About::default() };
    about.sample(name, kind.measured(value)?, &[])
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Counter,
    Gauge,
    Timer,
    Distribution,
    Set,
}

impl Kind {
    #[inline(always)]
    fn of(text: &str) -> Option<Kind> {
        Some(match text.as_bytes() {
            b"c" => Kind::Counter,
            b"g" => Kind::Gauge,
            b"ms" => Kind::Timer,
            b"h" | b"d" => Kind::Distribution,
            b"s" => Kind::Set,
            _ => return None,
        })
    }

    #[inline(always)]
    fn measured(self, text: &str) -> Result<Measured<'_>, Reject> {
        Ok(match self {
            Kind::Counter => Measured::Count(finite(text)?),
            Kind::Gauge if text.starts_with(['+', '-']) => Measured::Change(finite(text)?),
            Kind::Gauge => Measured::Gauge(finite(text)?),
            Kind::Timer => Measured::Timer(finite(text)?),
            Kind::Distribution => Measured::Value(finite(text)?),
            Kind::Set => Measured::Member(member(text)?),
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

/// What stands between the bars, one after the other.
struct Sections<'a> {
    rest: Option<&'a str>,
}

impl<'a> Iterator for Sections<'a> {
    type Item = &'a str;

    #[inline(always)]
    fn next(&mut self) -> Option<&'a str> {
        let rest = self.rest?;
        let (section, rest) = cut(rest, b'|').map_or((rest, None), |(section, rest)| (section, Some(rest)));
        self.rest = rest;
        Some(section)
    }
}

/// What the sections of a line say of all its values.
struct About {
    weight: f64,
    ts_ms: Option<i64>,
    /// Which sections there were.
    seen: u8,
}

impl Default for About {
    fn default() -> About {
        About { weight: 1.0, ts_ms: None, seen: 0 }
    }
}

impl About {
    #[inline(always)]
    fn put<'a>(&mut self, section: &'a str, tags: &mut Vec<Tag<'a>>) -> Result<(), Reject> {
        let number = match section.as_bytes() {
            [b'@', ..] => {
                self.weight = weight(&section[1..])?;
                0
            }
            [b'#', ..] => {
                put_tags(&section[1..], tags)?;
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
    match finite(rate) {
        Ok(rate @ RATE_MIN..=1.0) => Ok(1.0 / rate),
        _ => Err(Reject::SampleRateInvalid),
    }
}

#[inline(always)]
fn put_tags<'a>(text: &'a str, tags: &mut Vec<Tag<'a>>) -> Result<(), Reject> {
    let mut rest = Some(text);
    while let Some(text) = rest {
        let (tag, behind) = cut(text, b',').map_or((text, None), |(tag, behind)| (tag, Some(behind)));
        rest = behind;
        if !tag.is_empty() {
            let (key, value) = cut(tag, b':').unwrap_or((tag, ""));
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
