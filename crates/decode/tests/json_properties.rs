//! Properties of every body, some of them compared with serde_json.

use decode::json::{BodyFormat, MalformedBody, decode};
use model::{RawBatch, RawEvent, Reject};
use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

fn decoded(body: &[u8], form: BodyFormat) -> Result<Vec<Result<RawEvent<'_>, Reject>>, MalformedBody> {
    let mut decoded = RawBatch::default();
    decode(body, form, &mut decoded).map(|()| decoded.events)
}

/// Returns the only event of a body with one event.
fn only_event(body: &str) -> Result<RawEvent<'_>, Reject> {
    let mut events = decoded(body.as_bytes(), BodyFormat::Json).expect("the body is well-formed");
    assert_eq!(events.len(), 1);
    events.remove(0)
}

fn is_json(body: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(body).is_ok()
}

const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    " ",
    "\t",
    "\"\"",
    "\"a\"",
    "\"a\":",
    "\"event\":",
    "\"props\":",
    "\"value\":",
    "\"x\\n\"",
    "\"\\u00e9\"",
    "\"\\ud800\"",
    "\"\\q\"",
    "\"",
    "0",
    "-1",
    "01",
    "1.5",
    "1.",
    "1e5",
    "1e",
    "-",
    "1E+07",
    "true",
    "nul",
    "null",
    "é",
    "{\"a\":1}",
    "[1,2]",
    "[]",
    "{}",
    "{\"event\":\"a\",\"props\":{\"b\":[null]}}",
];

/// Pieces that often combine to valid or almost valid documents.
fn pieces() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..14).prop_map(|pieces| pieces.concat())
}

/// A valid document, to be corrupted.
fn document() -> impl Strategy<Value = String> {
    json_value(4).prop_map(|props| {
        json!([{"event": "a\n", "player": "bo", "value": 1.5, "props": props}, 7]).to_string()
    })
}

fn json_value(depth: u32) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        (1_020usize..1_030).prop_map(|len| Value::from("\n".repeat(len))),
    ];
    leaf.prop_recursive(depth, 80, 8, |inner| {
        prop_oneof![prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from), object(inner)]
    })
}

fn object(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    let key = prop_oneof![".{0,8}", (120usize..133).prop_map(|len| "\"".repeat(len))];
    prop::collection::vec((key, inner), 0..24).prop_map(|fields| Value::Object(fields.into_iter().collect()))
}

/// A second, recursive implementation of the limits of properties.
fn keeps_limits(props: &Value) -> bool {
    depth(props) <= 3 && keys(props) <= 64 && strings_keep_limits(props)
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(elements) => elements.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => vec![],
    }
}

fn depth(value: &Value) -> usize {
    let inner = children(value).into_iter().map(depth).max().unwrap_or(0);
    inner + usize::from(value.is_array() || value.is_object())
}

fn keys(value: &Value) -> usize {
    value.as_object().map_or(0, |fields| fields.len()) + children(value).into_iter().map(keys).sum::<usize>()
}

fn strings_keep_limits(value: &Value) -> bool {
    value.as_str().is_none_or(|text| text.len() <= 1_024)
        && value.as_object().is_none_or(|fields| fields.keys().all(|key| key.len() <= 128))
        && children(value).into_iter().all(strings_keep_limits)
}

/// Escapes every UTF-16 unit of the text.
fn escaped(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
}

proptest! {
    #[test]
    fn random_bytes_never_panic(body: Vec<u8>) {
        let _ = decoded(&body, BodyFormat::Json);
        let _ = decoded(&body, BodyFormat::Lines);
    }

    #[test]
    fn accepts_exactly_what_serde_json_accepts(body in pieces()) {
        prop_assert_eq!(decoded(body.as_bytes(), BodyFormat::Json).is_ok(), is_json(&body), "{}", body);
    }

    #[test]
    fn line_is_malformed_exactly_if_it_is_not_json(line in pieces()) {
        match decoded(line.as_bytes(), BodyFormat::Lines) {
            Ok(events) => prop_assert_eq!(events == [Err(Reject::MalformedJson)], !is_json(&line), "{}", line),
            Err(malformed) => prop_assert!(malformed == MalformedBody::Empty && line.trim().is_empty()),
        }
    }

    #[test]
    fn corrupted_document_is_accepted_exactly_if_serde_json_accepts_it(
        body in document(),
        corruptions in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3), 1..4),
    ) {
        let mut body = body.into_bytes();
        for (place, byte, kind) in corruptions {
            let at = place.index(body.len());
            match kind {
                0 => body[at] = byte,
                1 => body.insert(at, byte),
                _ => body.truncate(at + 1),
            }
        }
        let _ = decoded(&body, BodyFormat::Lines);
        let is_taken = decoded(&body, BodyFormat::Json).is_ok();
        let is_json = str::from_utf8(&body).is_ok_and(is_json);
        prop_assert_eq!(is_taken, is_json, "{}", String::from_utf8_lossy(&body));
    }

    #[test]
    fn strings_round_trip(text: String) {
        let plain = json!({"event": text}).to_string();
        let event = only_event(&plain).expect("accepted");
        prop_assert_eq!(event.name.as_deref(), Some(&*text));
        let escaped = format!(r#"{{"event":"{}"}}"#, escaped(&text));
        let event = only_event(&escaped).expect("accepted");
        prop_assert_eq!(event.name.as_deref(), Some(&*text));
    }

    #[test]
    fn numbers_are_rounded_to_the_nearest(number in r"-?[1-9][0-9]{11,17}\.[0-9]{1,4}|-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,2})?") {
        let body = format!(r#"{{"value":{number}}}"#);
        let value = only_event(&body).expect("accepted").value.expect("present");
        prop_assert_eq!(value.to_bits(), number.parse::<f64>().expect("a number").to_bits(), "{}", number);
    }

    #[test]
    fn whole_numbers_keep_every_digit(ts_ms in -62_167_219_200_000i64..=253_402_300_799_999, player in 1u64..) {
        let body = format!(r#"{{"ts":{ts_ms},"player":{player}}}"#);
        let event = only_event(&body).expect("accepted");
        prop_assert_eq!(event.ts_ms, Some(ts_ms));
        prop_assert_eq!(event.player.as_deref(), Some(&*player.to_string()));
    }

    #[test]
    fn properties_are_accepted_exactly_within_the_limits(props in object(json_value(3))) {
        let text = props.to_string();
        let body = format!(r#"{{"props":{text}}}"#);
        match only_event(&body) {
            Ok(event) => prop_assert!(keeps_limits(&props) && event.props == Some(&*text)),
            Err(_) => prop_assert!(!keeps_limits(&props) || body.len() > 64 << 10),
        }
    }
}
