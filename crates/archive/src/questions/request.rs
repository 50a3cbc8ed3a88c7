//! Requests as JSON objects. Every error names its field.

use std::ops::{Range, RangeInclusive};

use jiff::tz::TimeZone;
use model::query::{QueryError, WindowLength, minutes_before};
use serde_json::{Map, Value};

use super::limits::REQUEST_BYTES_MAX;
use crate::columns::Field;
use crate::questions::filter::field_from_label;

/// 2200-01-01T00:00Z: late enough for any window, early enough to stay within the range of the calendar.
const TIME_MS_MAX: i64 = 120_968_640 * 60_000;

/// Parses the body of a request, which must be a JSON object.
pub(super) fn object(body: &[u8]) -> Result<Map<String, Value>, QueryError> {
    if body.len() > REQUEST_BYTES_MAX {
        return Err(QueryError::new("body", format!("must not be larger than {REQUEST_BYTES_MAX} bytes")));
    }
    serde_json::from_slice(body)
        .map_err(|error| QueryError::new("body", format!("is not a JSON object: {error}")))
}

/// The fields of an object. What was not read is unknown.
pub(super) struct Fields<'v> {
    path: String,
    kind: &'static str,
    left: Vec<(&'v str, &'v Value)>,
}

impl<'v> Fields<'v> {
    /// Reads the fields of the body. `kind` names the object in errors: "a funnel".
    pub(super) fn of_body(map: &'v Map<String, Value>, kind: &'static str) -> Fields<'v> {
        Fields::new(String::new(), map, kind)
    }

    fn new(path: String, map: &'v Map<String, Value>, kind: &'static str) -> Fields<'v> {
        let left = map.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (&name[..], value));
        Fields { path, kind, left: left.collect() }
    }

    /// Returns a field, unless it is absent or null.
    pub(super) fn optional(&mut self, name: &str) -> Option<Item<'v>> {
        let at = self.left.iter().position(|(other, _)| *other == name)?;
        let (_, value) = self.left.swap_remove(at);
        Some(Item { path: self.path_of(name), value })
    }

    /// Returns a field.
    pub(super) fn required(&mut self, name: &str) -> Result<Item<'v>, QueryError> {
        let path = self.path_of(name);
        self.optional(name).ok_or_else(|| QueryError::new(path, "is required"))
    }

    /// Returns true if the field is present.
    pub(super) fn has(&self, name: &str) -> bool {
        self.left.iter().any(|(other, _)| *other == name)
    }

    /// Returns the path of a field.
    pub(super) fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Fails if there is a field that was not read.
    pub(super) fn end(self) -> Result<(), QueryError> {
        match self.left.iter().map(|(name, _)| *name).min() {
            None => Ok(()),
            Some(name) => {
                Err(QueryError::new(self.path_of(name), format!("is not a field of {}", self.kind)))
            }
        }
    }
}

/// A value and where it is in the request.
pub(super) struct Item<'v> {
    pub(super) path: String,
    pub(super) value: &'v Value,
}

impl<'v> Item<'v> {
    pub(super) fn must_be(&self, expected: &str) -> QueryError {
        QueryError::new(&*self.path, format!("must be {expected}"))
    }

    pub(super) fn text(&self) -> Result<&'v str, QueryError> {
        self.value.as_str().ok_or_else(|| self.must_be("a string"))
    }

    /// Returns a text that is not empty.
    pub(super) fn name(&self, bytes_max: usize) -> Result<&'v str, QueryError> {
        let text = self.text()?;
        if (1..=bytes_max).contains(&text.len()) {
            return Ok(text);
        }
        Err(self.must_be(&format!("between 1 and {bytes_max} bytes long")))
    }

    pub(super) fn integer(&self, range: RangeInclusive<u64>) -> Result<u64, QueryError> {
        let found = self.value.as_u64().filter(|number| range.contains(number));
        found.ok_or_else(|| self.must_be(&format!("an integer from {} to {}", range.start(), range.end())))
    }

    pub(super) fn number(&self) -> Result<f64, QueryError> {
        self.value.as_f64().ok_or_else(|| self.must_be("a number"))
    }

    pub(super) fn flag(&self) -> Result<bool, QueryError> {
        self.value.as_bool().ok_or_else(|| self.must_be("true or false"))
    }

    pub(super) fn choice<T>(
        &self,
        parse: impl FnOnce(&str) -> Option<T>,
        expected: &str,
    ) -> Result<T, QueryError> {
        self.value.as_str().and_then(parse).ok_or_else(|| self.must_be(expected))
    }

    pub(super) fn list(&self, expected: &str) -> Result<Vec<Item<'v>>, QueryError> {
        let values = self.value.as_array().ok_or_else(|| self.must_be(expected))?;
        let item = |(index, value)| Item { path: format!("{}[{index}]", self.path), value };
        Ok(values.iter().enumerate().map(item).collect())
    }

    pub(super) fn fields(&self, kind: &'static str) -> Result<Fields<'v>, QueryError> {
        let map = self.value.as_object().ok_or_else(|| self.must_be(&format!("an object: {kind}")))?;
        Ok(Fields::new(self.path.clone(), map, kind))
    }

    pub(super) fn time(&self) -> Result<i64, QueryError> {
        let text = |text: &str| text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond);
        let time = self.value.as_i64().or_else(|| self.value.as_str().and_then(text));
        time.filter(|time| (0..=TIME_MS_MAX).contains(time)).ok_or_else(|| {
            self.must_be(
                "a time such as 2026-11-19T00:00:00Z, or milliseconds since 1970, before the year 2200",
            )
        })
    }

    /// Reads the name of a property, such as `country` or `props.weapon`.
    pub(super) fn property(&self) -> Result<Field, QueryError> {
        field_from_label(self.text()?).ok_or_else(|| {
            self.must_be(
                "event, id, player, anonymous, session, value, country, platform, version, source, level, \
                 received or props.NAME",
            )
        })
    }

    /// Reads one property, or a list of properties that differ.
    pub(super) fn properties(&self, count_max: usize) -> Result<Vec<Field>, QueryError> {
        if self.value.is_string() {
            return Ok(vec![self.property()?]);
        }
        let items = self.list("a property or a list of properties")?;
        if items.len() > count_max {
            return Err(self.must_be(&format!("at most {count_max} properties")));
        }
        let mut fields = Vec::with_capacity(items.len());
        for item in items {
            let field = item.property()?;
            if fields.contains(&field) {
                return Err(QueryError::new(item.path, "is listed twice"));
            }
            fields.push(field);
        }
        Ok(fields)
    }
}

/// The range of time of a question, as requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WindowRequest {
    from_ms: Option<i64>,
    until_ms: Option<i64>,
    last: Option<WindowLength>,
    tz: Option<String>,
}

/// The range of time of a question.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) times: Range<i64>,
    pub(super) zone: TimeZone,
    pub(super) tz: String,
}

impl WindowRequest {
    /// Reads `from`, `to`, `last` and `tz`.
    pub(super) fn read(fields: &mut Fields) -> Result<WindowRequest, QueryError> {
        let last = fields.optional("last");
        let last = last
            .map(|last| last.choice(WindowLength::parse, "a duration such as 60m, 24h, 7d or 4w"))
            .transpose()?;
        let time = |item: Option<Item>| item.map(|item| item.time()).transpose();
        let (from_ms, until_ms) = (time(fields.optional("from"))?, time(fields.optional("to"))?);
        if last.is_some() && (from_ms.is_some() || until_ms.is_some()) {
            let message = "cannot be combined with `from` or `to`; remove `last` or both of them";
            return Err(QueryError::new("last", message));
        }
        let tz = fields.optional("tz").map(|tz| tz.text().map(str::to_owned)).transpose()?;
        Ok(WindowRequest { from_ms, until_ms, last, tz })
    }

    /// Fixes the range. Without `to` it ends with the current minute; without `from` it is `default` long.
    pub(super) fn resolve(
        &self,
        now_ms: i64,
        game_tz: &str,
        default: WindowLength,
    ) -> Result<Window, QueryError> {
        let tz = self.tz.as_deref().unwrap_or(game_tz);
        let zone = TimeZone::get(tz).map_err(|_| {
            QueryError::new(
                "tz",
                format!("unknown time zone \"{tz}\"; use an IANA name such as Europe/Paris"),
            )
        })?;
        let now = (now_ms.div_euclid(60_000) + 1) * 60_000;
        let until = self.until_ms.unwrap_or(now);
        let from = match self.from_ms {
            Some(from) => from,
            None => {
                let minute = u32::try_from(until.div_euclid(60_000)).unwrap_or(0);
                let length = self.last.unwrap_or(default);
                i64::from(minutes_before(&zone, minute, length).unwrap_or(0)) * 60_000
            }
        };
        if from >= until {
            return Err(QueryError::new("from", "must be before `to`"));
        }
        let tz = zone.iana_name().unwrap_or(tz).to_owned();
        Ok(Window { times: from..until, zone, tz })
    }
}

impl WindowRequest {
    /// Returns true if the request says when the window starts.
    pub(super) fn has_start(&self) -> bool {
        self.from_ms.is_some() || self.last.is_some()
    }

    /// Returns true if the window ends now and has a length, so that it may start with a whole bucket.
    pub(super) fn is_last(&self) -> bool {
        self.last.is_some()
    }
}

impl Window {
    /// Returns the window widened to whole minutes, in minutes since 1970.
    pub(super) fn minutes(&self) -> Range<u32> {
        let until = self.times.end.div_euclid(60_000) + i64::from(self.times.end % 60_000 != 0);
        (self.times.start.div_euclid(60_000)) as u32..until as u32
    }
}

/// A window of days that questions have if none is requested.
pub(super) const fn days(days: u32) -> WindowLength {
    WindowLength { days, minutes: 0 }
}
