//! Umami's `POST /api/send`: `{"type", "payload"}`, one event.
//!
//! Source: <https://umami.is/docs/api/sending-stats>, and the requests of `@umami/node` and its tracker script.

use serde_json::{Map, Value};

use super::{EventBuilder, TranslateError, TranslatedBody, id, parse_json, strip_dollar, translate_events};

/// Translates an event. `visitor` returns the id of the sender as a visitor of a website.
pub fn translate(body: &[u8], visitor: impl Fn(&str) -> String) -> Result<TranslatedBody, TranslateError> {
    let body = parse_json(body)?;
    let Some(Value::Object(payload)) = body.get("payload") else {
        return Err(TranslateError::Shape("the body must have a `payload`"));
    };
    let website = text(payload, "website").to_owned();
    let player = visitor(&website);
    let key = (!website.is_empty()).then_some(website);
    let is_identify = match body.get("type").and_then(Value::as_str) {
        None | Some("event") => false,
        Some("identify") => true,
        Some(_) => return Err(TranslateError::Shape("`type` must be `event` or `identify`")),
    };
    let payload = Value::Object(payload.clone());
    translate_events(std::slice::from_ref(&payload), None, key, |raw| {
        translate_event(raw, is_identify, &player)
    })
}

fn translate_event(raw: &Map<String, Value>, is_identify: bool, player: &str) -> EventBuilder {
    let name = match text(raw, "name") {
        _ if is_identify => "identify",
        "" => "$view",
        name => strip_dollar(name),
    };
    let mut event = EventBuilder::named(name);
    event.put("player", id(raw.get("id")).or_else(|| Some(player.into())));
    let ms = raw.get("timestamp").and_then(Value::as_f64).map(|seconds| Value::from(seconds * 1000.0));
    event.put("ts", ms.as_ref().and_then(super::time));
    event.add_props(raw.get("data"));
    event.put(
        "value",
        event.props.get("value").or(event.props.get("revenue")).filter(|it| it.is_number()).cloned(),
    );
    for prop in ["title", "language", "screen", "tag"] {
        event.put_text_prop(prop, text(raw, prop));
    }
    let (host, url) = (text(raw, "hostname"), text(raw, "url"));
    let url = if url.starts_with('/') && !host.is_empty() {
        format!("https://{host}{url}")
    } else {
        url.to_owned()
    };
    event.put_page(&url, text(raw, "referrer"));
    event
}

fn text<'a>(raw: &'a Map<String, Value>, name: &str) -> &'a str {
    raw.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(body: &str, expected: Expect) {
        let translated = translate(body.as_bytes(), |site| format!("visitor of {site}"));
        let translated = translated.expect("the body can be translated");
        expected.assert_eq(&format!("{:?} {}", translated.key, String::from_utf8_lossy(&translated.body)));
    }

    #[test]
    fn payload_without_a_name_is_a_page_view() {
        check(
            r#"{"type":"event","payload":{"website":"w1","hostname":"game.example","url":"/play?x=1","referrer":"https://search.example/","title":"Play","screen":"800x600","language":"en"}}"#,
            expect![[
                r#"Some("w1") {"events":[{"event":"$view","player":"visitor of w1","props":{"language":"en","screen":"800x600","title":"Play","url":"https://game.example/play"},"source":"search.example"}]}"#
            ]],
        );
    }

    #[test]
    fn named_event_has_its_data_and_player() {
        check(
            r#"{"type":"event","payload":{"website":"w1","name":"buy","id":"bo","timestamp":1795176000,"data":{"revenue":3,"plan":"pro"}}}"#,
            expect![[
                r#"Some("w1") {"events":[{"event":"buy","player":"bo","props":{"plan":"pro","revenue":3},"ts":1795176000000,"value":3}]}"#
            ]],
        );
        check(
            r#"{"type":"identify","payload":{"website":"w1","data":{"plan":"pro"}}}"#,
            expect![[
                r#"Some("w1") {"events":[{"event":"identify","player":"visitor of w1","props":{"plan":"pro"}}]}"#
            ]],
        );
    }

    #[test]
    fn other_bodies_are_rejected() {
        for body in ["{}", r#"{"payload":[]}"#, r#"{"type":"pulse","payload":{}}"#, "7", "{"] {
            assert!(translate(body.as_bytes(), str::to_owned).is_err(), "{body}");
        }
    }
}
