//! What holds for every body, and where serde_json must come to the same conclusion.

use decode::json::{Form, Malformed, decode};
use model::{RawBatch, RawEvent, Reject};
use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

fn decoded(body: &[u8], form: Form) -> Result<Vec<Result<RawEvent<'_>, Reject>>, Malformed> {
    let mut decoded = RawBatch::default();
    decode(body, form, &mut decoded).map(|()| decoded.events)
}

/// The only event of a body that has one.
fn only_event(body: &str) -> Result<RawEvent<'_>, Reject> {
    let mut events = decoded(body.as_bytes(), Form::Json).expect("the body is well-formed");
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

/// Pieces that make documents which are often right and often nearly right.
fn pieces() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..14).prop_map(|pieces| pieces.concat())
}

/// A document of the right shape, to be spoilt.
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

/// The limits of properties once more, by recursion over a tree.
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

/// The text with every UTF-16 unit as an escape.
fn escaped(text: &str) -> String {
    text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
}

proptest! {
    #[test]
    fn random_bytes_never_panic(body: Vec<u8>) {
        let _ = decoded(&body, Form::Json);
        let _ = decoded(&body, Form::Lines);
    }

    #[test]
    fn json_is_what_serde_json_calls_json(body in pieces()) {
        prop_assert_eq!(decoded(body.as_bytes(), Form::Json).is_ok(), is_json(&body), "{}", body);
    }

    #[test]
    fn a_line_is_refused_as_malformed_exactly_if_it_is_no_json(line in pieces()) {
        match decoded(line.as_bytes(), Form::Lines) {
            Ok(events) => prop_assert_eq!(events == [Err(Reject::MalformedJson)], !is_json(&line), "{}", line),
            Err(malformed) => prop_assert!(malformed == Malformed::Empty && line.trim().is_empty()),
        }
    }

    #[test]
    fn a_spoilt_document_is_judged_as_serde_json_judges_it(
        body in document(),
        spoils in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3), 1..4),
    ) {
        let mut body = body.into_bytes();
        for (place, byte, kind) in spoils {
            let at = place.index(body.len());
            match kind {
                0 => body[at] = byte,
                1 => body.insert(at, byte),
                _ => body.truncate(at + 1),
            }
        }
        let _ = decoded(&body, Form::Lines);
        let is_taken = decoded(&body, Form::Json).is_ok();
        let is_json = str::from_utf8(&body).is_ok_and(is_json);
        prop_assert_eq!(is_taken, is_json, "{}", String::from_utf8_lossy(&body));
    }

    #[test]
    fn strings_are_read_back(text: String) {
        let plain = json!({"event": text}).to_string();
        let event = only_event(&plain).expect("taken");
        prop_assert_eq!(event.name.as_deref(), Some(&*text));
        let escaped = format!(r#"{{"event":"{}"}}"#, escaped(&text));
        let event = only_event(&escaped).expect("taken");
        prop_assert_eq!(event.name.as_deref(), Some(&*text));
    }

    #[test]
    fn numbers_are_the_nearest_ones(number in r"-?[1-9][0-9]{11,17}\.[0-9]{1,4}|-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,2})?") {
        let body = format!(r#"{{"value":{number}}}"#);
        let value = only_event(&body).expect("taken").value.expect("present");
        prop_assert_eq!(value.to_bits(), number.parse::<f64>().expect("a number").to_bits(), "{}", number);
    }

    #[test]
    fn whole_numbers_keep_every_digit(ts_ms in -62_167_219_200_000i64..=253_402_300_799_999, player in 1u64..) {
        let body = format!(r#"{{"ts":{ts_ms},"player":{player}}}"#);
        let event = only_event(&body).expect("taken");
        prop_assert_eq!(event.ts_ms, Some(ts_ms));
        prop_assert_eq!(event.player.as_deref(), Some(&*player.to_string()));
    }

    #[test]
    fn properties_are_taken_exactly_if_they_keep_the_limits(props in object(json_value(3))) {
        let text = props.to_string();
        let body = format!(r#"{{"props":{text}}}"#);
        match only_event(&body) {
            Ok(event) => prop_assert!(keeps_limits(&props) && event.props == Some(&*text)),
            Err(_) => prop_assert!(!keeps_limits(&props) || body.len() > 64 << 10),
        }
    }
}
