//! `GET /tracker/q.aspx`: events joined by `~`, each a code and its fields joined by `/`.
//!
//! | sent | event |
//! |---|---|
//! | `v/views` | `$view {n}` |
//! | `p/plays` | `$play {n}` |
//! | `t/y/pings` | `$session_start`, with the 60 seconds already played as its value |
//! | `t/n/pings` | `$ping`, with the 30 seconds since the previous one as its value |
//! | `c/name/group` | `name {group}` |
//! | `f/name/step/n` | `name {step, n}` |
//! | `lc/name/level` | `$level_metric {name, kind: counter}` |
//! | `la/name/level/value`, `lr/...` | `$level_metric {name, kind: average or ranged}` with the value |
//! | `h/metric/map/x/y` | `$heat {metric, map, x, y}` |
//! | `l/name/group/url/unique/total/fail` | `$link {name, group, url, unique, total, fail}` |
//! | `pls/level`, `plw`, `plq`, `plr`, `plf` | `$level {state: start, win, quit, retry or flag}` |

use std::borrow::Cow;
use std::fmt::Write;

use model::limits::{DIMENSION_BYTES_MAX, EVENTS_PER_REQUEST_MAX, PROP_STRING_BYTES_MAX};
use model::{Dimension, RawBatch, RawEvent, Reject};

use super::escape::{query_parameter, raw_parameter, text, unescape};
use super::source::source;
use crate::json::push_string;

/// Maximum characters of a name defined by the game.
const NAME_CHARS_MAX: usize = 50;
/// Seconds of play before the first heartbeat.
const FIRST_PING_S: f64 = 60.0;
/// Seconds of play between later heartbeats.
const PING_S: f64 = 30.0;

/// The events of one tracker request, accepted or rejected.
#[derive(Debug, Default, PartialEq)]
pub struct TrackerEvents {
    source: Option<String>,
    events: Vec<Result<TrackerEvent, Reject>>,
}

/// One event.
#[derive(Debug, Default, PartialEq)]
struct TrackerEvent {
    name: Cow<'static, str>,
    level: Option<String>,
    value: Option<f64>,
    /// JSON text of an object.
    props: Option<String>,
}

/// The error of a request that is rejected as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrackerError {
    /// There is no parameter `q`.
    #[error("the query string has no `q`")]
    NoEvents,
    /// The request has more events than allowed.
    #[error("more than {EVENTS_PER_REQUEST_MAX} events in `q`")]
    TooManyEvents,
}

/// Reads a query string: `q`, the events, and `url`, their origin.
pub fn parse_tracker(query: &str) -> Result<TrackerEvents, TrackerError> {
    let events = raw_parameter(query, "q").ok_or(TrackerError::NoEvents)?;
    let events = separated(events);
    let source = query_parameter(query, "url").and_then(|url| source(&url));
    let mut tracker_events = TrackerEvents { source, events: Vec::new() };
    if events.is_empty() {
        return Ok(tracker_events);
    }
    let fits = tracker_events.source.as_ref().is_none_or(|source| source.len() <= DIMENSION_BYTES_MAX);
    for event in events.split('~') {
        if tracker_events.events.len() == EVENTS_PER_REQUEST_MAX {
            return Err(TrackerError::TooManyEvents);
        }
        tracker_events.events.push(if fits { read_event(event) } else { Err(Reject::DimensionTooLong) });
    }
    Ok(tracker_events)
}

impl TrackerEvents {
    /// Returns the raw events, in their order.
    pub fn decoded(&self) -> RawBatch<'_> {
        let source = self.source.as_deref();
        let events = self.events.iter().map(|event| match event {
            Ok(event) => Ok(event.raw(source)),
            Err(reject) => Err(*reject),
        });
        RawBatch { sent_at_ms: None, events: events.collect() }
    }
}

impl TrackerEvent {
    /// Creates an event with one of the product's reserved names.
    fn reserved(name: &'static str) -> TrackerEvent {
        TrackerEvent { name: Cow::Borrowed(name), ..TrackerEvent::default() }
    }

    /// Creates an event with a name defined by the game.
    fn named(raw: &str) -> Result<TrackerEvent, Reject> {
        let name = text(raw);
        if name.is_empty() {
            return Err(Reject::EventNameEmpty);
        }
        if name.starts_with('$') {
            return Err(Reject::EventNameReserved);
        }
        if name.chars().count() > NAME_CHARS_MAX {
            return Err(Reject::EventNameTooLong);
        }
        Ok(TrackerEvent { name: Cow::Owned(name.into_owned()), ..TrackerEvent::default() })
    }

    fn with(self, props: PropsWriter) -> TrackerEvent {
        TrackerEvent { props: props.finish(), ..self }
    }

    fn raw<'a>(&'a self, source: Option<&'a str>) -> RawEvent<'a> {
        let mut event = RawEvent {
            name: Some(Cow::Borrowed(&self.name)),
            value: self.value,
            props: self.props.as_deref(),
            ..RawEvent::default()
        };
        event.dimensions[Dimension::Source as usize] = source.map(Cow::Borrowed);
        event.dimensions[Dimension::Level as usize] = self.level.as_deref().map(Cow::Borrowed);
        event
    }
}

/// Returns the joined events. Some clients also escape the separators, which never occur unescaped in text.
fn separated(events: &str) -> Cow<'_, str> {
    if !events.contains('/') && events.contains('%') {
        return unescape(events);
    }
    if events.contains("%7E") || events.contains("%7e") {
        return Cow::Owned(events.replace("%7E", "~").replace("%7e", "~"));
    }
    Cow::Borrowed(events)
}

/// Reads one event. An extra field is an unknown field; a missing one is a missing property.
fn read_event(event: &str) -> Result<TrackerEvent, Reject> {
    let (code, fields) = event.split_once('/').unwrap_or((event, ""));
    let fields: Vec<&str> = fields.split('/').collect();
    match (code, &*fields) {
        ("", _) => Err(Reject::EventNameMissing),
        ("v", [n]) => Ok(TrackerEvent::reserved("$view").with(PropsWriter::default().whole("n", n))),
        ("p", [n]) => Ok(TrackerEvent::reserved("$play").with(PropsWriter::default().whole("n", n))),
        ("t", [first] | [first, _]) => ping(first),
        ("c", [name]) => TrackerEvent::named(name),
        ("c", [name, group]) => {
            Ok(TrackerEvent::named(name)?.with(PropsWriter::default().optional("group", group)?))
        }
        ("f", [name, step, n]) => {
            Ok(TrackerEvent::named(name)?.with(PropsWriter::default().optional("step", step)?.whole("n", n)))
        }
        ("lc", [name, level]) => level_metric(name, level, "counter", None),
        ("la", [name, level, value]) => level_metric(name, level, "average", Some(value)),
        ("lr", [name, level, value]) => level_metric(name, level, "ranged", Some(value)),
        ("h", [metric, map, x, y]) => heat(metric, map, x, y),
        ("l", [name, group, url, unique, total, fail]) => link(name, group, url, [unique, total, fail]),
        ("pls", [level]) => progress(level, "start"),
        ("plw", [level]) => progress(level, "win"),
        ("plq", [level]) => progress(level, "quit"),
        ("plr", [level]) => progress(level, "retry"),
        ("plf", [level]) => progress(level, "flag"),
        ("f" | "lc" | "la" | "lr" | "h" | "l", fields) if fields.len() < fields_of(code) => {
            Err(Reject::ReservedPropsInvalid)
        }
        _ => Err(Reject::UnknownField),
    }
}

fn fields_of(code: &str) -> usize {
    match code {
        "l" => 6,
        "h" => 4,
        "lc" => 2,
        _ => 3,
    }
}

fn ping(first: &str) -> Result<TrackerEvent, Reject> {
    let (name, played_s) = match first {
        "y" => ("$session_start", FIRST_PING_S),
        "n" => ("$ping", PING_S),
        _ => return Err(Reject::ReservedPropsInvalid),
    };
    Ok(TrackerEvent { value: Some(played_s), ..TrackerEvent::reserved(name) })
}

fn level_metric(name: &str, level: &str, kind: &str, value: Option<&str>) -> Result<TrackerEvent, Reject> {
    let props = PropsWriter::default().name("name", name)?.plain("kind", kind);
    let value = value.map(number).transpose()?;
    Ok(TrackerEvent {
        value,
        level: Some(level_of(level)?),
        ..TrackerEvent::reserved("$level_metric").with(props)
    })
}

fn progress(level: &str, state: &str) -> Result<TrackerEvent, Reject> {
    let props = PropsWriter::default().plain("state", state);
    Ok(TrackerEvent { level: Some(level_of(level)?), ..TrackerEvent::reserved("$level").with(props) })
}

fn heat(metric: &str, map: &str, x: &str, y: &str) -> Result<TrackerEvent, Reject> {
    let props = PropsWriter::default().name("metric", metric)?.name("map", map)?;
    let props = props.number("x", coordinate(x)?).number("y", coordinate(y)?);
    Ok(TrackerEvent::reserved("$heat").with(props))
}

fn link(name: &str, group: &str, url: &str, counts: [&str; 3]) -> Result<TrackerEvent, Reject> {
    let mut props =
        PropsWriter::default().name("name", name)?.optional("group", group)?.required("url", url)?;
    for (key, count) in ["unique", "total", "fail"].into_iter().zip(counts) {
        props = props.number(key, coordinate(count)?);
    }
    Ok(TrackerEvent::reserved("$link").with(props))
}

fn level_of(raw: &str) -> Result<String, Reject> {
    let level = text(raw);
    match level.len() {
        0 => Err(Reject::ReservedPropsInvalid),
        1..=DIMENSION_BYTES_MAX => Ok(level.into_owned()),
        _ => Err(Reject::DimensionTooLong),
    }
}

fn number(raw: &str) -> Result<f64, Reject> {
    let number: f64 = text(raw).trim().parse().map_err(|_| Reject::ValueNotANumber)?;
    if number.is_finite() { Ok(number) } else { Err(Reject::ValueNotFinite) }
}

fn coordinate(raw: &str) -> Result<f64, Reject> {
    number(raw).map_err(|_| Reject::ReservedPropsInvalid)
}

/// Writes properties as JSON.
#[derive(Default)]
struct PropsWriter(String);

impl PropsWriter {
    /// Adds a required name.
    fn name(self, key: &str, raw: &str) -> Result<PropsWriter, Reject> {
        let within = text(raw).chars().count() <= NAME_CHARS_MAX;
        if within { self.required(key, raw) } else { Err(Reject::PropStringTooLong) }
    }

    fn required(self, key: &str, raw: &str) -> Result<PropsWriter, Reject> {
        if raw.is_empty() { Err(Reject::ReservedPropsInvalid) } else { self.optional(key, raw) }
    }

    fn optional(self, key: &str, raw: &str) -> Result<PropsWriter, Reject> {
        let text = text(raw);
        match text.len() {
            0 => Ok(self),
            1..=PROP_STRING_BYTES_MAX => Ok(self.plain(key, &text)),
            _ => Err(Reject::PropStringTooLong),
        }
    }

    /// Adds a count, or leaves it out if an SDK sent an invalid one.
    fn whole(self, key: &str, raw: &str) -> PropsWriter {
        match raw.parse::<u64>() {
            Ok(number) => self.raw(key, &number.to_string()),
            Err(_) => self,
        }
    }

    fn number(self, key: &str, number: f64) -> PropsWriter {
        self.raw(key, &number.to_string())
    }

    fn plain(self, key: &str, text: &str) -> PropsWriter {
        let mut json = String::with_capacity(text.len() + 2);
        push_string(&mut json, text);
        self.raw(key, &json)
    }

    fn raw(mut self, key: &str, json: &str) -> PropsWriter {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        write!(self.0, "\"{key}\":{json}").expect("writing to a string does not fail");
        self
    }

    fn finish(mut self) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        self.0.push('}');
        Some(self.0)
    }
}
