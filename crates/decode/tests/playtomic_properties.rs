//! Properties of every request of Playtomic's SDKs, and of every other text.

use std::collections::BTreeMap;

use decode::playtomic::{parse_form, parse_tracker, query_parameter};
use model::Reject;
use proptest::prelude::*;
use serde_json::Value;

/// Escapes a text as the SDKs do for the tracker.
fn escaped_text(text: &str) -> String {
    let text = text.replace('/', "\\").replace('~', "-");
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// Returns the text after decoding: `/` is restored, `~` is not.
fn decoded_text(text: &str) -> String {
    text.replace('\\', "/").replace('~', "-")
}

const PIECES: &[&str] = &[
    "v",
    "p",
    "t",
    "c",
    "f",
    "lc",
    "la",
    "lr",
    "h",
    "l",
    "pls",
    "plf",
    "/",
    "/",
    "/",
    "/",
    "~",
    "~",
    "y",
    "n",
    "1",
    "-2.5",
    "a",
    "$",
    "%",
    "%2F",
    "%7E",
    "%5C",
    "%u",
    "%u20ac",
    "%e9",
    "+",
    "é",
    "😀",
    "&",
    "=",
    "url=http://a/",
    "q=",
];

fn pieces() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_text_panics(text: String, name: String) {
        let _ = query_parameter(&text, &name);
        let _ = parse_tracker(&text).map(|tracker_events| tracker_events.decoded().events.len());
    }

    #[test]
    fn every_event_is_accepted_or_rejected(query in pieces()) {
        let query = format!("q={query}");
        let tracker_events = parse_tracker(&query).expect("the query has `q`");
        let sent = query_parameter(&query, "q").expect("the query has `q`");
        let raw = query[2..].split('&').next().expect("a split has a first piece");
        let decoded = tracker_events.decoded();
        if raw.contains('/') {
            let raw = raw.replace("%7E", "~");
            let parts = if raw.is_empty() { 0 } else { raw.split('~').count() };
            prop_assert_eq!(decoded.events.len(), parts);
        } else {
            prop_assert_eq!(decoded.events.is_empty(), sent.is_empty());
        }
        for event in decoded.events.iter().flatten() {
            let props = event.props.map(serde_json::from_str::<BTreeMap<String, Value>>);
            prop_assert!(props.is_none_or(|props| props.is_ok()), "{:?}", event);
            prop_assert!(event.value.is_none_or(f64::is_finite));
            prop_assert!(event.name.as_deref().is_some_and(|name| !name.is_empty()));
        }
    }

    #[test]
    fn texts_round_trip_through_sdk_escaping(name in ".{1,50}", group in ".{0,80}") {
        prop_assume!(!name.starts_with('$'));
        let query = format!("q=c/{}/{}", escaped_text(&name), escaped_text(&group));
        let tracker_events = parse_tracker(&query).expect("the query has `q`");
        let decoded = tracker_events.decoded();
        let event = decoded.events[0].as_ref().expect("the event is valid");
        prop_assert_eq!(event.name.as_deref(), Some(&*decoded_text(&name)));
        let props = event.props.map(|props| serde_json::from_str::<Value>(props).expect("props are JSON"));
        let expected = (!group.is_empty()).then(|| serde_json::json!({"group": decoded_text(&group)}));
        prop_assert_eq!(props, expected);
    }

    #[test]
    fn numbers_round_trip(value in -1e300..1e300f64) {
        let query = format!("q=la/a/1/{value}~h/a/b/{value}/{value}");
        let tracker_events = parse_tracker(&query).expect("the query has `q`");
        let events = tracker_events.decoded().events;
        prop_assert_eq!(events[0].as_ref().ok().and_then(|event| event.value), Some(value));
        let props = events[1].as_ref().ok().and_then(|event| event.props).expect("a point has properties");
        let expected = format!(r#"{{"metric":"a","map":"b","x":{value},"y":{value}}}"#);
        prop_assert_eq!(props, expected);
    }

    #[test]
    fn no_form_bytes_panic(body: Vec<u8>, data in "[A-Za-z0-9+/ =-]{0,60}", key in ".{0,9}") {
        let _ = parse_form(&body);
        if let Ok(form) = parse_form(format!("data={data}&hash={}", "0".repeat(32)).as_bytes()) {
            prop_assert!(!form.is_signed_with(&key));
        }
    }

    #[test]
    fn rejections_have_the_outcome_invalid(query in pieces()) {
        let query = format!("q={query}");
        let tracker_events = parse_tracker(&query).expect("the query has `q`");
        let rejected = tracker_events.decoded().events.into_iter().filter_map(Result::err);
        for reject in rejected {
            prop_assert_eq!(Reject::outcome(reject), model::Outcome::Invalid);
        }
    }
}
