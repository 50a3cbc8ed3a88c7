//! `GET /tracker/q.aspx`: events joined by `~`, each a code and its fields joined by `/`.
//!
//! | sent | event |
//! |---|---|
//! | `v/views` | `$view {n}` |
//! | `p/plays` | `$play {n}` |
//! | `t/y/pings` | `$session_start`, with the 60 seconds of play that it proves as its value |
//! | `t/n/pings` | `$ping`, with the 30 seconds since the one before as its value |
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

use super::escape::{parameter, raw_parameter, text, unescape};
use super::source::source;
use crate::json::push_string;

/// A name of the game's own has at most so many characters.
const NAME_CHARS_MAX: usize = 50;
/// The first heartbeat comes after so many seconds of play,
const FIRST_PING_S: f64 = 60.0;
/// each further one after so many more.
const PING_S: f64 = 30.0;

/// What one request of the tracker holds. Every part of it is here: taken, or refused for a reason.
#[derive(Debug, Default, PartialEq)]
pub struct Tracked {
    source: Option<String>,
    parts: Vec<Result<Part, Reject>>,
}

/// One event.
#[derive(Debug, Default, PartialEq)]
struct Part {
    name: Cow<'static, str>,
    level: Option<String>,
    value: Option<f64>,
    /// JSON text of an object.
    props: Option<String>,
}

/// Why nothing of a request was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrackerError {
    /// There is no parameter `q`.
    #[error("the query string has no `q`")]
    NoEvents,
    /// Over the limit of one request.
    #[error("more than {EVENTS_PER_REQUEST_MAX} events in `q`")]
    TooManyEvents,
}

/// Reads a query string: `q`, the events, and `url`, where they come from.
pub fn tracker(query: &str) -> Result<Tracked, TrackerError> {
    let events = raw_parameter(query, "q").ok_or(TrackerError::NoEvents)?;
    let events = separated(events);
    let source = parameter(query, "url").and_then(|url| source(&url));
    let mut tracked = Tracked { source, parts: Vec::new() };
    if events.is_empty() {
        return Ok(tracked);
    }
    let fits = tracked.source.as_ref().is_none_or(|source| source.len() <= DIMENSION_BYTES_MAX);
    for event in events.split('~') {
        if tracked.parts.len() == EVENTS_PER_REQUEST_MAX {
            return Err(TrackerError::TooManyEvents);
        }
        tracked.parts.push(if fits { part(event) } else { Err(Reject::DimensionTooLong) });
    }
    Ok(tracked)
}

impl Tracked {
    /// The parts as raw events, in their order.
    pub fn decoded(&self) -> RawBatch<'_> {
        let source = self.source.as_deref();
        let events = self.parts.iter().map(|part| match part {
            Ok(part) => Ok(part.raw(source)),
            Err(reject) => Err(*reject),
        });
        RawBatch { sent_at_ms: None, events: events.collect() }
    }
}

impl Part {
    /// An event of the product's own.
    fn reserved(name: &'static str) -> Part {
        Part { name: Cow::Borrowed(name), ..Part::default() }
    }

    /// An event of the game's own.
    fn named(raw: &str) -> Result<Part, Reject> {
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
        Ok(Part { name: Cow::Owned(name.into_owned()), ..Part::default() })
    }

    fn with(self, props: Props) -> Part {
        Part { props: props.finish(), ..self }
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

/// The events as they were joined. Some clients escape the separators, too, which in text had been replaced before.
fn separated(events: &str) -> Cow<'_, str> {
    if !events.contains('/') && events.contains('%') {
        return unescape(events);
    }
    if events.contains("%7E") || events.contains("%7e") {
        return Cow::Owned(events.replace("%7E", "~").replace("%7e", "~"));
    }
    Cow::Borrowed(events)
}

/// One event. A field too many is an unknown one; one too few is a property that is missing.
fn part(event: &str) -> Result<Part, Reject> {
    let (code, fields) = event.split_once('/').unwrap_or((event, ""));
    let fields: Vec<&str> = fields.split('/').collect();
    match (code, &*fields) {
        ("", _) => Err(Reject::EventNameMissing),
        ("v", [n]) => Ok(Part::reserved("$view").with(Props::default().whole("n", n))),
        ("p", [n]) => Ok(Part::reserved("$play").with(Props::default().whole("n", n))),
        ("t", [first] | [first, _]) => ping(first),
        ("c", [name]) => Part::named(name),
        ("c", [name, group]) => Ok(Part::named(name)?.with(Props::default().optional("group", group)?)),
        ("f", [name, step, n]) => {
            Ok(Part::named(name)?.with(Props::default().optional("step", step)?.whole("n", n)))
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

fn ping(first: &str) -> Result<Part, Reject> {
    let (name, played_s) = match first {
        "y" => ("$session_start", FIRST_PING_S),
        "n" => ("$ping", PING_S),
        _ => return Err(Reject::ReservedPropsInvalid),
    };
    Ok(Part { value: Some(played_s), ..Part::reserved(name) })
}

fn level_metric(name: &str, level: &str, kind: &str, value: Option<&str>) -> Result<Part, Reject> {
    let props = Props::default().name("name", name)?.plain("kind", kind);
    let value = value.map(number).transpose()?;
    Ok(Part { value, level: Some(of_level(level)?), ..Part::reserved("$level_metric").with(props) })
}

fn progress(level: &str, state: &str) -> Result<Part, Reject> {
    let props = Props::default().plain("state", state);
    Ok(Part { level: Some(of_level(level)?), ..Part::reserved("$level").with(props) })
}

fn heat(metric: &str, map: &str, x: &str, y: &str) -> Result<Part, Reject> {
    let props = Props::default().name("metric", metric)?.name("map", map)?;
    let props = props.number("x", coordinate(x)?).number("y", coordinate(y)?);
    Ok(Part::reserved("$heat").with(props))
}

fn link(name: &str, group: &str, url: &str, counts: [&str; 3]) -> Result<Part, Reject> {
    let mut props = Props::default().name("name", name)?.optional("group", group)?.required("url", url)?;
    for (key, count) in ["unique", "total", "fail"].into_iter().zip(counts) {
        props = props.number(key, coordinate(count)?);
    }
    Ok(Part::reserved("$link").with(props))
}

fn of_level(raw: &str) -> Result<String, Reject> {
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
struct Props(String);

impl Props {
    /// A name that must be there.
    fn name(self, key: &str, raw: &str) -> Result<Props, Reject> {
        let within = text(raw).chars().count() <= NAME_CHARS_MAX;
        if within { self.required(key, raw) } else { Err(Reject::PropStringTooLong) }
    }

    fn required(self, key: &str, raw: &str) -> Result<Props, Reject> {
        if raw.is_empty() { Err(Reject::ReservedPropsInvalid) } else { self.optional(key, raw) }
    }

    fn optional(self, key: &str, raw: &str) -> Result<Props, Reject> {
        let text = text(raw);
        match text.len() {
            0 => Ok(self),
            1..=PROP_STRING_BYTES_MAX => Ok(self.plain(key, &text)),
            _ => Err(Reject::PropStringTooLong),
        }
    }

    /// A count that an SDK may have got wrong; then it is left out.
    fn whole(self, key: &str, raw: &str) -> Props {
        match raw.parse::<u64>() {
            Ok(number) => self.raw(key, &number.to_string()),
            Err(_) => self,
        }
    }

    fn number(self, key: &str, number: f64) -> Props {
        self.raw(key, &number.to_string())
    }

    fn plain(self, key: &str, text: &str) -> Props {
        let mut json = String::with_capacity(text.len() + 2);
        push_string(&mut json, text);
        self.raw(key, &json)
    }

    fn raw(mut self, key: &str, json: &str) -> Props {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        write!(self.0, "\"{key}\":{json}").expect("a string takes everything");
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
