//! PostHog's capture API: `{"api_key", "batch": [...]}`, an array of events, or one event.
//!
//! Source: <https://posthog.com/docs/api/capture>, and what `posthog-js` sends.

use serde_json::{Map, Value};

use super::{Event, Translated, Untranslatable, id, own_name, read, time, translated, uuid};
use crate::{base64, playtomic};

/// What is in the field `data` of a beacon's form, in base64: JSON, or JSON that was packed with gzip. `None`: the body is
/// no form, and is read as it is.
pub fn beacon(body: &[u8]) -> Option<Result<Vec<u8>, Untranslatable>> {
    if !body.starts_with(b"data=") {
        return None;
    }
    let form = str::from_utf8(body).ok();
    let data = form.and_then(|form| playtomic::parameter(form, "data"));
    let bytes = data.and_then(|data| base64::decode(&data));
    Some(bytes.ok_or(Untranslatable::Shape("`data` of the form is not base64")))
}

/// Tells a body in our words.
pub fn translate(body: &[u8]) -> Result<Translated, Untranslatable> {
    let body = read(body)?;
    let key = key(&body);
    let sent_at = body.get("sent_at");
    match (&body, body.get("batch")) {
        (_, Some(Value::Array(events))) | (Value::Array(events), _) => {
            let key = key.or_else(|| events.iter().find_map(self::key));
            translated(events, sent_at, key, event)
        }
        (Value::Object(_), None) => translated(std::slice::from_ref(&body), sent_at, key, event),
        _ => Err(Untranslatable::Shape("the body is an event, an array, or has a `batch` that is one")),
    }
}

/// The key of a body or of an event: under one of four names.
fn key(value: &Value) -> Option<String> {
    let properties = value.get("properties");
    let named = ["api_key", "token"].iter().filter_map(|name| value.get(name));
    let inside = ["token", "api_key"].iter().filter_map(|name| properties?.get(name));
    named.chain(inside).find_map(Value::as_str).map(str::to_owned)
}

fn event(raw: &Map<String, Value>) -> Event {
    let empty = Map::new();
    let properties = raw.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    let of = |name: &str| properties.get(name);
    let name = raw.get("event").and_then(Value::as_str).unwrap_or_default();
    let mut event = Event::default();
    event.put("event", (!name.is_empty()).then(|| ours(name).into()));
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

/// The names that mean here what they mean there. Others lose their `$`.
fn ours(name: &str) -> &str {
    match name {
        "$pageview" => "$view",
        "$identify" | "$create_alias" => "$identify",
        "$exception" => "$error",
        name if name.starts_with('$') => own_name(name),
        name => name,
    }
}

/// `$identify` says who an id is that was nobody's until then. Without one it is an event like others.
fn link(event: &mut Event, anonymous: Option<Value>) {
    match anonymous {
        Some(anonymous) => drop(event.props.insert("anonymous".to_owned(), anonymous)),
        None => event.put("event", Some("identify".into())),
    }
}

fn exception(event: &mut Event, properties: &Map<String, Value>) {
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
        let told = translate(body.as_bytes()).expect("it can be told");
        expected.assert_eq(&format!("{:?} {}", told.key, String::from_utf8_lossy(&told.body)));
    }

    #[test]
    fn a_batch_an_array_and_one_event_are_told() {
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
    fn who_is_identified_is_linked_to_the_id_before() {
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
    fn an_exception_is_an_error() {
        check(
            r#"{"event":"$exception","api_key":"k","properties":{"distinct_id":"bo","$exception_list":[{"value":"boom"}]}}"#,
            expect![[
                r#"Some("k") {"events":[{"event":"$error","player":"bo","props":{"message":"boom","severity":"error"}}]}"#
            ]],
        );
    }

    #[test]
    fn another_shape_is_refused() {
        for body in ["7", r#"{"batch":7}"#, "", "{"] {
            assert!(translate(body.as_bytes()).is_err(), "{body}");
        }
    }
}
