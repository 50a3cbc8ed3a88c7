//! OpenTelemetry traces and logs over HTTP: an `ExportTraceServiceRequest` or an `ExportLogsServiceRequest`, as protobuf
//! or as JSON.
//!
//! | sent | event |
//! |---|---|
//! | span | its name, at its start, with the duration in milliseconds as the value; `kind` and `status` are properties |
//! | log record | its event name, or `log`; `severity` and `message` are properties |
//!
//! Attributes of the record and of the resource are further properties: the first 64, and the first 1,024 bytes of each.
//! `user.id` or `enduser.id` is the player, `session.id` the session, and `service.version` the version. Ids derive from
//! what was sent, so that a request that is sent again counts once.
//!
//! <https://opentelemetry.io/docs/specs/otlp/>, <https://opentelemetry.io/docs/specs/otel/trace/api/>,
//! <https://opentelemetry.io/docs/specs/otel/logs/data-model/>

use std::borrow::Cow;
use std::fmt::Write;

use md5::{Digest, Md5};
use model::limits::{
    EVENTS_PER_REQUEST_MAX, INFLATED_BYTES_MAX, PROP_KEY_BYTES_MAX, PROP_STRING_BYTES_MAX, PROPS_KEYS_MAX,
};

use super::schema::{self, MessageSchema};
use super::wire::{self, last, messages, number, text};
use super::{Encoding, MalformedRequest, Signal, attribute, json};
use crate::json::push_string;

/// The event of a log record without an event name.
const LOG: &str = "log";
const WRITE_TO_STRING: &str = "writing to a string cannot fail";

/// Spans or log records whose syntax has been checked completely.
#[derive(Clone, Copy, Debug)]
pub struct RecordsRequest<'a> {
    request: &'a [u8],
    signal: Signal,
}

/// The records do not fit into one request of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a request can have at most {EVENTS_PER_REQUEST_MAX} records, and 64 MiB as events")]
pub struct TooManyRecords;

impl<'a> RecordsRequest<'a> {
    /// Checks a body of a signal other than metrics. `memory` receives the converted JSON.
    pub fn read(
        body: &'a [u8],
        signal: Signal,
        encoding: Encoding,
        memory: &'a mut Vec<u8>,
    ) -> Result<RecordsRequest<'a>, MalformedRequest> {
        let (message, name): (&MessageSchema, _) = match signal {
            Signal::Metrics => (&schema::REQUEST, "resourceMetrics"),
            Signal::Logs => (&schema::LOGS_REQUEST, "resourceLogs"),
            Signal::Traces => (&schema::TRACE_REQUEST, "resourceSpans"),
        };
        match encoding {
            Encoding::Protobuf => {
                schema::check(body, message, name)?;
                Ok(RecordsRequest { request: body, signal })
            }
            Encoding::Json => {
                json::encode(body, message, memory)?;
                Ok(RecordsRequest { request: memory, signal })
            }
        }
    }

    /// Returns the records as events: a JSON array, as [`crate::json::decode`] reads it.
    pub fn events(&self) -> Result<Vec<u8>, TooManyRecords> {
        let (mut out, mut count) = (String::from("["), 0);
        for resource_records in messages(self.request, 1) {
            let resource = last(resource_records, 1).map_or(&[][..], wire::WireValue::bytes);
            let attributes: Vec<_> =
                messages(resource, 1).filter_map(attribute).take(PROPS_KEYS_MAX).collect();
            for record in messages(resource_records, 2).flat_map(|scope| messages(scope, 2)) {
                if count == EVENTS_PER_REQUEST_MAX || out.len() > INFLATED_BYTES_MAX {
                    return Err(TooManyRecords);
                }
                if count > 0 {
                    out.push(',');
                }
                match self.signal {
                    Signal::Traces => Record::of_span(record).push(&attributes, &mut out),
                    Signal::Logs | Signal::Metrics => {
                        Record::of_log(record, count).push(&attributes, &mut out);
                    }
                }
                count += 1;
            }
        }
        out.push(']');
        Ok(out.into_bytes())
    }
}

/// A span or a log record, as the fields of an event.
struct Record<'a> {
    name: &'a str,
    id: Option<[u8; 16]>,
    time_ns: u64,
    value_ms: Option<f64>,
    properties: Vec<(&'a str, Cow<'a, str>)>,
    /// The attributes, as they were sent.
    attributes: Vec<(&'a str, Cow<'a, str>)>,
}

impl<'a> Record<'a> {
    fn of_span(span: &'a [u8]) -> Record<'a> {
        let (start_ns, end_ns) = (number(span, 7), number(span, 8));
        let (trace, id) = (bytes(span, 1), bytes(span, 2));
        let mut properties = Vec::new();
        let kinds = ["internal", "server", "client", "producer", "consumer"];
        let kind = number(span, 6).checked_sub(1).and_then(|kind| kinds.get(kind as usize));
        properties.extend(kind.map(|kind| ("kind", Cow::Borrowed(*kind))));
        let status = last(span, 15).map_or(&[][..], wire::WireValue::bytes);
        let label = ["ok", "error"].get((number(status, 3) as usize).wrapping_sub(1));
        properties.extend(label.map(|label| ("status", Cow::Borrowed(*label))));
        let message = Some(text(status, 2)).filter(|message| !message.is_empty());
        properties.extend(message.map(|message| ("message", Cow::Borrowed(message))));
        Record {
            name: text(span, 5),
            id: (!id.is_empty()).then(|| digest(&[trace, id])),
            time_ns: start_ns,
            value_ms: (end_ns >= start_ns).then(|| (end_ns - start_ns) as f64 / 1e6),
            properties,
            attributes: own_attributes(span, 9),
        }
    }

    /// `index` is the record's place in its request: two equal records of a request are two records.
    fn of_log(log: &'a [u8], index: usize) -> Record<'a> {
        let time_ns = Some(number(log, 1)).filter(|time| *time != 0).unwrap_or_else(|| number(log, 11));
        let mut properties = Vec::new();
        let severity = Some(text(log, 3)).filter(|label| !label.is_empty());
        let severity = severity.or_else(|| severity_label(number(log, 2)));
        properties.extend(severity.map(|severity| ("severity", Cow::Borrowed(severity))));
        let body = last(log, 5).and_then(|body| wire::fields(body.bytes()).last()).and_then(super::plain);
        properties.extend(body.map(|body| ("message", body)));
        let name = Some(text(log, 12)).filter(|name| !name.is_empty());
        Record {
            name: name.unwrap_or(LOG),
            id: (time_ns != 0).then(|| digest(&[&index.to_le_bytes(), log])),
            time_ns,
            value_ms: None,
            properties,
            attributes: own_attributes(log, 6),
        }
    }

    /// Appends the event. `resource` are the attributes of the resource.
    fn push(mut self, resource: &[(&'a str, Cow<'a, str>)], out: &mut String) {
        out.push_str("{\"event\":");
        push_string(out, self.name);
        if let Some(id) = self.id {
            let id = u128::from_be_bytes(id);
            let (a, b, c) = (id >> 96, (id >> 80) as u16, (id >> 64) as u16);
            let (d, e) = ((id >> 48) as u16, id & 0xffff_ffff_ffff);
            write!(out, ",\"id\":\"{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}\"").expect(WRITE_TO_STRING);
        }
        if self.time_ns != 0 {
            write!(out, ",\"ts\":{}", self.time_ns / 1_000_000).expect(WRITE_TO_STRING);
        }
        if let Some(value) = self.value_ms {
            write!(out, ",\"value\":{value}").expect(WRITE_TO_STRING);
        }
        let attributes = std::mem::take(&mut self.attributes);
        let mut fields: Vec<(&str, &str)> = Vec::new();
        for (key, value) in attributes.iter().chain(resource) {
            match field_of(key).filter(|field| fields.iter().all(|(set, _)| set != field)) {
                Some(field) => fields.push((field, value)),
                None => self.add_property(key, value),
            }
        }
        for (field, value) in fields {
            write!(out, ",\"{field}\":").expect(WRITE_TO_STRING);
            push_string(out, value);
        }
        out.push_str(",\"props\":{");
        for (index, (key, value)) in self.properties.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            push_string(out, key);
            out.push(':');
            push_string(out, shortened(value));
        }
        out.push_str("}}");
    }

    /// Adds a property unless its key is set, is not allowed, or there are as many as an event can have.
    fn add_property(&mut self, key: &'a str, value: &str) {
        let is_allowed = (1..=PROP_KEY_BYTES_MAX).contains(&key.len());
        let is_set = self.properties.iter().any(|(set, _)| *set == key);
        if is_allowed && !is_set && self.properties.len() < PROPS_KEYS_MAX {
            self.properties.push((key, Cow::Owned(shortened(value).to_owned())));
        }
    }
}

fn own_attributes(record: &[u8], field: u32) -> Vec<(&str, Cow<'_, str>)> {
    messages(record, field).filter_map(attribute).take(PROPS_KEYS_MAX).collect()
}

/// Returns the field of an event that an attribute sets.
fn field_of(key: &str) -> Option<&'static str> {
    match key {
        "user.id" | "enduser.id" => Some("player"),
        "session.id" => Some("session"),
        "service.version" => Some("version"),
        _ => None,
    }
}

/// Returns the start of a text that fits into a property.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(PROP_STRING_BYTES_MAX)]
}

fn bytes(message: &[u8], field: u32) -> &[u8] {
    last(message, field).map_or(&[][..], wire::WireValue::bytes)
}

fn digest(parts: &[&[u8]]) -> [u8; 16] {
    let mut hash = Md5::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

fn severity_label(number: u64) -> Option<&'static str> {
    let labels = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"];
    labels.get(number.checked_sub(1)? as usize / 4).copied()
}
