//! PostHog's capture API: `{"api_key", "batch": [...]}`, an array of events, or one event.
//!
//! Source: <https://posthog.com/docs/api/capture>, and the requests of `posthog-js`.

use serde_json::{Map, Value};

use super::{
    EventBuilder, TranslateError, TranslatedBody, id, parse_json, strip_dollar, time, translate_events, uuid,
};
use crate::{base64, playtomic};

/// Returns the content of the field `data` of a beacon's form, decoded from base64: JSON, or JSON compressed with gzip.
/// Returns `None` if the body is not a form and is to be read as it is.
pub fn beacon(body: &[u8]) -> Option<Result<Vec<u8>, TranslateError>> {
    if !body.starts_with(b"data=") {
        return None;
    }
    let form = str::from_utf8(body).ok();
    let data = form.and_then(|form| playtomic::query_parameter(form, "data"));
    let bytes = data.and_then(|data| base64::decode(&data));
    Some(bytes.ok_or(TranslateError::Shape("`data` of the form is not base64")))
}

/// Translates a body.
pub fn translate(body: &[u8]) -> Result<TranslatedBody, TranslateError> {
    let body = parse_json(body)?;
    let key = key(&body);
    let sent_at = body.get("sent_at");
    match (&body, body.get("batch")) {
        (_, Some(Value::Array(events))) | (Value::Array(events), _) => {
            let key = key.or_else(|| events.iter().find_map(self::key));
            translate_events(events, sent_at, key, event)
        }
        (Value::Object(_), None) => translate_events(std::slice::from_ref(&body), sent_at, key, event),
        _ => Err(TranslateError::Shape(
            "the body must be an event, an array of events, or have a `batch` array",
        )),
    }
}

/// Returns the key of a body or of an event, which may be in one of four fields.
fn key(value: &Value) -> Option<String> {
    let properties = value.get("properties");
    let named = ["api_key", "token"].iter().filter_map(|name| value.get(name));
    let inside = ["token", "api_key"].iter().filter_map(|name| properties?.get(name));
    named.chain(inside).find_map(Value::as_str).map(str::to_owned)
}

fn event(raw: &Map<String, Value>) -> EventBuilder {
    let empty = Map::new();
    let properties = raw.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let of = |name: &str| properties.get(name);
    let name = raw.get("event").and_then(Value::as_str).unwrap_or_default();
    let mut event = EventBuilder::default();
    event.put("event", (!name.is_empty()).then(|| event_name(name).into()));
    event.put("id", raw.get("uuid").and_then(uuid));
    event.put("ts", raw.get("timestamp").or_else(|| of("timestamp")).and_then(time));
    event.put("player", id(raw.get("distinct_id").or_else(|| of("distinct_id"))));
    event.put("session", id(of("$session_id")));
    event.put("value", of("value").filter(|value| value.is_number()).cloned());
    event.put_dimension(
        "source",
        of("utm_source").or_else(|| of("$referring_domain")).filter(|it| *it != "$direct"),
    );
    event.put_dimension("version", of("$app_version"));
    event.put_dimension("level", of("level"));
    let is_own =
        |name: &String| !name.starts_with('$') && !matches!(&name[..], "token" | "distinct_id" | "value");
    event.props.extend(
        properties.iter().filter(|(name, _)| is_own(name)).map(|(name, it)| (name.clone(), it.clone())),
    );
    match name {
        "$identify" => link(&mut event, id(of("$anon_distinct_id"))),
        "$create_alias" => link(&mut event, id(of("alias"))),
        "$exception" => exception(&mut event, properties),
        _ => {}
    }
    event
}

/// Maps the names that have the same meaning here; other names lose their `$`.
fn event_name(name: &str) -> &str {
    match name {
        "$pageview" => "$view",
        "$identify" | "$create_alias" => "$identify",
        "$exception" => "$error",
        name if name.starts_with('$') => strip_dollar(name),
        name => name,
    }
}

/// Links an anonymous id to the player. Without an anonymous id the event is an ordinary one.
fn link(event: &mut EventBuilder, anonymous: Option<Value>) {
    match anonymous {
        Some(anonymous) => drop(event.props.insert("anonymous".to_owned(), anonymous)),
        None => event.put("event", Some("identify".into())),
    }
}

fn exception(event: &mut EventBuilder, properties: &Map<String, Value>) {
    let first = properties.get("$exception_list").and_then(|list| list.get(0));
    let message = properties.get("$exception_message").or_else(|| first?.get("value"));
    let message = message.and_then(Value::as_str).unwrap_or("exception");
    let cut: String = message.chars().take(200).collect();
    event.props.insert("severity".to_owned(), "error".into());
    event.props.insert("message".to_owned(), cut.into());
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(body: &str, expected: Expect) {
        let translated = translate(body.as_bytes()).expect("the body can be translated");
        expected.assert_eq(&format!("{:?} {}", translated.key, String::from_utf8_lossy(&translated.body)));
    }

    #[test]
    fn batch_array_and_single_event_are_translated() {
        check(
            r#"{"api_key":"k","sent_at":"2026-11-20T12:00:00Z","batch":[{"uuid":"01a1fa33-8f0c-7551-bc9a-5db3114138b4",
                "event":"level_up","properties":{"distinct_id":"bo","$session_id":"s","$os":"Linux","level":"castle","value":3,"lives":2},
                "timestamp":"2026-11-20T11:59:59Z"}]}"#,
            expect![[
                r#"Some("k") {"events":[{"event":"level_up","id":"01a1fa33-8f0c-7551-bc9a-5db3114138b4","level":"castle","player":"bo","props":{"level":"castle","lives":2},"session":"s","ts":1795175999000,"value":3}],"sent_at":1795176000000}"#
            ]],
        );
        check(
            r#"[{"event":"$pageview","properties":{"token":"k","distinct_id":"bo"}}]"#,
            expect![[r#"Some("k") {"events":[{"event":"$view","player":"bo"}]}"#]],
        );
        check(
            r#"{"event":"$feature_flag_called","token":"k","distinct_id":7}"#,
            expect![[r#"Some("k") {"events":[{"event":"feature_flag_called","player":"7"}]}"#]],
        );
    }

    #[test]
    fn identified_player_is_linked_to_the_anonymous_id() {
        check(
            r#"{"event":"$identify","api_key":"k","properties":{"distinct_id":"bo","$anon_distinct_id":"anon"}}"#,
            expect![[
                r#"Some("k") {"events":[{"event":"$identify","player":"bo","props":{"anonymous":"anon"}}]}"#
            ]],
        );
        check(
            r#"{"event":"$identify","api_key":"k","properties":{"distinct_id":"bo"}}"#,
            expect![[r#"Some("k") {"events":[{"event":"identify","player":"bo"}]}"#]],
        );
    }

    #[test]
    fn exception_becomes_an_error_event() {
        check(
            r#"{"event":"$exception","api_key":"k","properties":{"distinct_id":"bo","$exception_list":[{"value":"boom"}]}}"#,
            expect![[
                r#"Some("k") {"events":[{"event":"$error","player":"bo","props":{"message":"boom","severity":"error"}}]}"#
            ]],
        );
    }

    #[test]
    fn other_shapes_are_rejected() {
        for body in ["7", r#"{"batch":7}"#, "", "{"] {
            assert!(translate(body.as_bytes()).is_err(), "{body}");
        }
    }
}
