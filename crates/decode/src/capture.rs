//! Translates events of other services' clients to the product's JSON.
//!
//! A translator rewrites a body as the JSON that [`crate::json`] decodes, so limits, types and reasons of rejection are
//! the same for every endpoint, and an event that cannot be translated is rejected alone, in its position. Bodies in
//! these formats contain their key.

pub mod gameanalytics;
pub mod plausible;
pub mod posthog;
pub mod segment;
pub mod umami;

use md5::{Digest, Md5};
use model::limits::{EVENTS_PER_REQUEST_MAX, PROP_STRING_BYTES_MAX};
use serde_json::{Map, Value, json};

use crate::json::{EPOCH_MS, rfc3339_ms};
use crate::playtomic::{query_parameter, source};

/// A translated body.
#[derive(Debug, Default, PartialEq)]
pub struct TranslatedBody {
    /// `{"sent_at": ..., "events": [...]}`, with as many events as the original, in their order.
    pub body: Vec<u8>,
    /// The key in the body, if it has one.
    pub key: Option<String>,
    /// Number of events.
    pub events: usize,
}

/// The error of a body that cannot be translated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TranslateError {
    /// It is not JSON.
    #[error("body is not JSON: {0}")]
    NotJson(String),
    /// It is JSON of another shape.
    #[error("{0}")]
    Shape(&'static str),
    /// It has more events than one request may have.
    #[error("more than {EVENTS_PER_REQUEST_MAX} events in one body")]
    TooMany,
}

/// An event under construction.
#[derive(Default)]
struct EventBuilder {
    fields: Map<String, Value>,
    props: Map<String, Value>,
}

impl EventBuilder {
    fn named(name: &str) -> EventBuilder {
        let mut event = EventBuilder::default();
        event.put("event", Some(name.into()));
        event
    }

    /// Sets a field unless the value is absent.
    fn put(&mut self, field: &str, value: Option<Value>) {
        if let Some(value) = value.filter(|value| !value.is_null()) {
            self.fields.insert(field.to_owned(), value);
        }
    }

    /// Sets a field to a text. A text too long for a dimension is left out, because the field is optional.
    fn put_dimension(&mut self, field: &str, value: Option<&Value>) {
        let short = |text: &&str| !text.is_empty() && text.len() <= model::limits::DIMENSION_BYTES_MAX;
        let text = value.and_then(Value::as_str).filter(short);
        self.put(field, text.map(Value::from));
    }

    /// Adds properties from an object, or from an object as JSON in a text.
    fn add_props(&mut self, props: Option<&Value>) {
        match props {
            Some(Value::Object(props)) => self.props.extend(props.clone()),
            Some(Value::String(text)) => {
                self.props.extend(serde_json::from_str::<Map<_, _>>(text).unwrap_or_default())
            }
            _ => {}
        }
    }

    /// Sets a property to a text, cut to the allowed length.
    fn put_text_prop(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            let text = &text[..text.floor_char_boundary(PROP_STRING_BYTES_MAX)];
            self.props.insert(name.to_owned(), text.into());
        }
    }

    /// Sets the property `url` and the dimension `source`: `utm_source`, `source` or `ref` of the page's address, or the
    /// host of the referrer if it is another one. The rest of the query string may contain secrets and is left out.
    fn put_page(&mut self, url: &str, referrer: &str) {
        let address = url.split('#').next().unwrap_or_default();
        let (page, query) = address.split_once('?').unwrap_or((address, ""));
        self.put_text_prop("url", page);
        let parameter = |name: &&str| query_parameter(query, name).filter(|value| !value.is_empty());
        let named = ["utm_source", "source", "ref"].iter().find_map(parameter);
        let host =
            source(referrer).filter(|host| referrer.contains("://") && Some(host) != source(page).as_ref());
        let found = named.map(|named| named.into_owned()).or(host).map(Value::from);
        self.put_dimension("source", found.as_ref());
    }

    fn into_json(mut self) -> Value {
        if !self.props.is_empty() {
            self.fields.insert("props".to_owned(), Value::Object(self.props));
        }
        Value::Object(self.fields)
    }
}

fn parse_json(body: &[u8]) -> Result<Value, TranslateError> {
    serde_json::from_slice(body).map_err(|error| TranslateError::NotJson(error.to_string()))
}

fn translate_events(
    events: &[Value],
    sent_at: Option<&Value>,
    key: Option<String>,
    translate: impl Fn(&Map<String, Value>) -> EventBuilder,
) -> Result<TranslatedBody, TranslateError> {
    if events.len() > EVENTS_PER_REQUEST_MAX {
        return Err(TranslateError::TooMany);
    }
    // A value that is not an object becomes `null` and is rejected in its position.
    let each = |event: &Value| event.as_object().map_or(Value::Null, |event| translate(event).into_json());
    let mut body = json!({ "events": events.iter().map(each).collect::<Vec<_>>() });
    if let Some(sent_at) = sent_at.and_then(time) {
        body["sent_at"] = sent_at;
    }
    Ok(TranslatedBody { body: body.to_string().into_bytes(), key, events: events.len() })
}

/// Converts a time in RFC 3339, or in whole milliseconds. Other values are left out.
fn time(value: &Value) -> Option<Value> {
    match value {
        Value::String(text) => rfc3339_ms(text.as_bytes()).map(Value::from),
        Value::Number(number) => {
            number.as_f64().map(|ms| ms as i64).filter(|ms| EPOCH_MS.contains(ms)).map(Value::from)
        }
        _ => None,
    }
}

/// Returns an id as a UUID: itself if it is one, else a name-based one (RFC 9562, version 3), so that a retry has the
/// same id.
fn uuid(id: &Value) -> Option<Value> {
    let text = id.as_str().filter(|text| !text.is_empty())?;
    if is_uuid(text) {
        return Some(text.into());
    }
    let mut bytes: [u8; 16] = Md5::digest(text).into();
    bytes[6] = bytes[6] & 0x0f | 0x30;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]).into())
}

fn is_uuid(text: &str) -> bool {
    let is_uuid_byte = |(place, byte): (usize, u8)| match place {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(is_uuid_byte)
}

/// Removes the `$` of another service's reserved names; here `$` is reserved for the product's own names.
fn strip_dollar(name: &str) -> &str {
    let name = name.trim_start_matches('$');
    if name.is_empty() { "event" } else { name }
}

/// Converts an id of a player or a session: a text, or a number as text.
fn id(value: Option<&Value>) -> Option<Value> {
    match value? {
        Value::String(text) if !text.is_empty() => Some(text.as_str().into()),
        Value::Number(number) => Some(number.to_string().into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{BodyFormat, decode};
    use model::RawBatch;

    #[test]
    fn other_ids_become_stable_uuids() {
        let of = |text: &str| uuid(&text.into());
        assert_eq!(
            of("01a1fa33-8f0c-7551-bc9a-5db3114138b4"),
            Some("01a1fa33-8f0c-7551-bc9a-5db3114138b4".into())
        );
        assert_eq!(of("node-next-1"), of("node-next-1"));
        assert_ne!(of("node-next-1"), of("node-next-2"));
        assert!(is_uuid(of("x").expect("an id").as_str().expect("text")));
        assert_eq!((of(""), uuid(&Value::Null)), (None, None));
    }

    #[test]
    fn values_other_than_objects_are_rejected_in_their_position() {
        let body =
            br#"{"api_key": "k", "batch": [7, {"event": "win", "properties": {"distinct_id": "bo"}}, null]}"#;
        let translated = posthog::translate(body).expect("a batch");
        let mut decoded = RawBatch::default();
        decode(&translated.body, BodyFormat::Json, &mut decoded).expect("a translation can be decoded");
        let accepted: Vec<bool> = decoded.events.iter().map(Result::is_ok).collect();
        assert_eq!((accepted, translated.events), (vec![false, true, false], 3));
    }

    proptest::proptest! {
        #[test]
        fn translation_of_any_json_can_be_decoded(body in any_json()) {
            let plausible = |body: &[u8]| plausible::translate(body, str::to_owned);
            let umami = |body: &[u8]| umami::translate(body, str::to_owned);
            let known = [posthog::translate, segment::translate, gameanalytics::translate, plausible, umami];
            for translate in known {
                let Ok(translated) = translate(body.to_string().as_bytes()) else { continue };
                let mut decoded = RawBatch::default();
                if decode(&translated.body, BodyFormat::Json, &mut decoded).is_ok() {
                    proptest::prop_assert_eq!(decoded.events.len(), translated.events);
                }
            }
        }
    }

    fn any_json() -> impl proptest::strategy::Strategy<Value = Value> {
        use proptest::prelude::*;
        const KEYS: [&str; 33] = [
            "n",
            "u",
            "d",
            "p",
            "$",
            "payload",
            "website",
            "data",
            "url",
            "batch",
            "api_key",
            "event",
            "properties",
            "distinct_id",
            "uuid",
            "timestamp",
            "type",
            "userId",
            "messageId",
            "traits",
            "anonymousId",
            "sentAt",
            "context",
            "category",
            "event_id",
            "event_uuid",
            "client_ts",
            "user_id",
            "amount",
            "value",
            "$anon_distinct_id",
            "previousId",
            "writeKey",
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e12..1e12f64).prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
            prop::sample::select(vec![
                "track",
                "identify",
                "design",
                "progression",
                "$identify",
                "Start:a:b",
                "page",
                "user"
            ])
            .prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec((prop::sample::select(KEYS.to_vec()), inner), 0..6).prop_map(|pairs| {
                    Value::Object(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
                }),
            ]
        })
    }
}
