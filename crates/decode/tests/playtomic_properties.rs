//! What holds for every request of Playtomic's SDKs, and for every other.

use std::collections::BTreeMap;

use decode::playtomic::{form, parameter, tracker};
use model::Reject;
use proptest::prelude::*;
use serde_json::Value;

/// Text as the SDKs make it safe for the tracker.
fn cleaned(text: &str) -> String {
    let text = text.replace('/', "\\").replace('~', "-");
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// As it is heard: `/` comes back, `~` does not.
fn heard(text: &str) -> String {
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
    fn any_text_is_read_without_a_panic(text: String, name: String) {
        let _ = parameter(&text, &name);
        let _ = tracker(&text).map(|tracked| tracked.decoded().events.len());
    }

    #[test]
    fn every_part_is_taken_or_refused(query in pieces()) {
        let query = format!("q={query}");
        let tracked = tracker(&query).expect("it has `q`");
        let sent = parameter(&query, "q").expect("it has `q`");
        let raw = query[2..].split('&').next().expect("a split has a first piece");
        let decoded = tracked.decoded();
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
    fn texts_arrive_as_they_were_cleaned(name in ".{1,50}", group in ".{0,80}") {
        prop_assume!(!name.starts_with('$'));
        let query = format!("q=c/{}/{}", cleaned(&name), cleaned(&group));
        let tracked = tracker(&query).expect("it has `q`");
        let decoded = tracked.decoded();
        let event = decoded.events[0].as_ref().expect("it is an event");
        prop_assert_eq!(event.name.as_deref(), Some(&*heard(&name)));
        let props = event.props.map(|props| serde_json::from_str::<Value>(props).expect("props are JSON"));
        let expected = (!group.is_empty()).then(|| serde_json::json!({"group": heard(&group)}));
        prop_assert_eq!(props, expected);
    }

    #[test]
    fn numbers_arrive_as_they_were_sent(value in -1e300..1e300f64) {
        let query = format!("q=la/a/1/{value}~h/a/b/{value}/{value}");
        let tracked = tracker(&query).expect("it has `q`");
        let events = tracked.decoded().events;
        prop_assert_eq!(events[0].as_ref().ok().and_then(|event| event.value), Some(value));
        let props = events[1].as_ref().ok().and_then(|event| event.props).expect("a point has properties");
        let expected = format!(r#"{{"metric":"a","map":"b","x":{value},"y":{value}}}"#);
        prop_assert_eq!(props, expected);
    }

    #[test]
    fn any_bytes_as_a_form_are_read_without_a_panic(body: Vec<u8>, data in "[A-Za-z0-9+/ =-]{0,60}", key in ".{0,9}") {
        let _ = form(&body);
        if let Ok(form) = form(format!("data={data}&hash={}", "0".repeat(32)).as_bytes()) {
            prop_assert!(!form.is_signed_with(&key));
        }
    }

    #[test]
    fn a_refusal_is_always_of_an_invalid_event(query in pieces()) {
        let query = format!("q={query}");
        let tracked = tracker(&query).expect("it has `q`");
        let refused = tracked.decoded().events.into_iter().filter_map(Result::err);
        for reject in refused {
            prop_assert_eq!(Reject::outcome(reject), model::Outcome::Invalid);
        }
    }
}
