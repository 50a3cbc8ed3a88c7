//! Segment's HTTP API: `track`, `identify`, `page`, `screen`, `group` and `alias`, alone or in a `batch`.
//!
//! Source: <https://segment.com/docs/connections/sources/catalog/libraries/server/http-api/>, and the requests of
//! `@segment/analytics-node`.

use serde_json::{Map, Value};

use super::{
    EventBuilder, TranslateError, TranslatedBody, id, parse_json, strip_dollar, time, translate_events, uuid,
};

/// Translates a batch, or a single call with a `type`.
pub fn translate(body: &[u8]) -> Result<TranslatedBody, TranslateError> {
    translate_as(body, None)
}

/// Translates a body sent to the route of one kind of call, such as `track`.
pub fn translate_as(body: &[u8], kind: Option<&str>) -> Result<TranslatedBody, TranslateError> {
    let mut body = parse_json(body)?;
    let key = body.get("writeKey").and_then(Value::as_str).map(str::to_owned);
    if let (Some(kind), Some(call)) = (kind, body.as_object_mut()) {
        call.entry("type").or_insert_with(|| kind.into());
    }
    let sent_at = body.get("sentAt").cloned();
    match (&body, body.get("batch")) {
        (_, Some(Value::Array(calls))) => translate_events(calls, sent_at.as_ref(), key, event),
        (Value::Object(_), None) => {
            translate_events(std::slice::from_ref(&body), sent_at.as_ref(), key, event)
        }
        _ => Err(TranslateError::Shape("the body must be a call, or have a `batch` array")),
    }
}

fn event(call: &Map<String, Value>) -> EventBuilder {
    let text = |name: &str| call.get(name).and_then(Value::as_str).unwrap_or_default();
    let object = |name: &str| call.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut event = match text("type") {
        "track" if text("event").is_empty() => EventBuilder::default(),
        "track" => with(strip_dollar(text("event")), object("properties")),
        "page" => named_view("$view", text("name"), object("properties")),
        "screen" => named_view("screen", text("name"), object("properties")),
        "group" => with("group", object("traits")),
        "identify" => with("identify", object("traits")),
        "alias" => EventBuilder::named("$identify"),
        // A call of an unknown kind has no name and is rejected for that.
        _ => EventBuilder::default(),
    };
    event.put("id", call.get("messageId").and_then(uuid));
    event.put("ts", call.get("timestamp").and_then(time));
    event.put("player", id(call.get("userId")).or_else(|| id(call.get("anonymousId"))));
    let value =
        event.props.get("value").or_else(|| event.props.get("revenue")).filter(|value| value.is_number());
    let value = value.cloned();
    event.put("value", value);
    from_context(&mut event, call.get("context"));
    match text("type") {
        "alias" => name_id(&mut event, "anonymous", call.get("previousId")),
        "group" => name_id(&mut event, "group", call.get("groupId")),
        "identify" => link(&mut event, call),
        _ => {}
    }
    event
}

fn with(name: &str, props: Map<String, Value>) -> EventBuilder {
    EventBuilder { props, ..EventBuilder::named(name) }
}

fn named_view(event: &str, name: &str, props: Map<String, Value>) -> EventBuilder {
    let mut event = with(event, props);
    if !name.is_empty() {
        event.props.insert("name".to_owned(), name.into());
    }
    event
}

fn name_id(event: &mut EventBuilder, name: &str, value: Option<&Value>) {
    event.props.extend(id(value).map(|id| (name.to_owned(), id)));
}

/// Sets the dimensions from the library's context.
fn from_context(event: &mut EventBuilder, context: Option<&Value>) {
    let Some(context) = context else { return };
    let of = |outer: &str, inner: &str| context.get(outer).and_then(|outer| outer.get(inner));
    let platform = of("os", "name").and_then(Value::as_str).map(str::to_lowercase).map(Value::from);
    event.put_dimension("platform", platform.as_ref());
    event.put_dimension("version", of("app", "version"));
    event.put_dimension("source", of("campaign", "source"));
}

/// Turns an `identify` with both ids into a link, as `$identify` does; its traits are kept.
fn link(event: &mut EventBuilder, call: &Map<String, Value>) {
    let (Some(_), Some(anonymous)) = (id(call.get("userId")), id(call.get("anonymousId"))) else { return };
    event.put("event", Some("$identify".into()));
    event.props.insert("anonymous".to_owned(), anonymous);
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(kind: Option<&str>, body: &str, expected: Expect) {
        let translated = translate_as(body.as_bytes(), kind).expect("the body can be translated");
        expected.assert_eq(&format!("{:?} {}", translated.key, String::from_utf8_lossy(&translated.body)));
    }

    #[test]
    fn each_kind_of_call_is_translated() {
        check(
            None,
            r#"{"writeKey":"k","sentAt":"2026-11-20T12:00:00.500Z","batch":[
                {"type":"track","event":"Level Up","userId":"u1","properties":{"level":3,"value":5},"messageId":"node-next-1",
                 "timestamp":"2026-11-20T12:00:00Z","context":{"os":{"name":"iOS"},"app":{"version":"2.1"},"campaign":{"source":"ad"}}},
                {"type":"page","name":"Home","anonymousId":"an1","properties":{"url":"http://x/"}},
                {"type":"screen","name":"Shop","userId":"u1"},
                {"type":"group","groupId":"g1","userId":"u1","traits":{"size":4}},
                {"type":"alias","userId":"u1","previousId":"an1"},
                {"type":"identify","userId":"u1","traits":{"plan":"pro"}},
                {"type":"identify","userId":"u1","anonymousId":"an1"},
                {"type":"nothing"}]}"#,
            expect![[
                r#"Some("k") {"events":[{"event":"Level Up","id":"5ce43b95-fcfa-31dd-bf90-a189adf4e308","platform":"ios","player":"u1","props":{"level":3,"value":5},"source":"ad","ts":1795176000000,"value":5,"version":"2.1"},{"event":"$view","player":"an1","props":{"name":"Home","url":"http://x/"}},{"event":"screen","player":"u1","props":{"name":"Shop"}},{"event":"group","player":"u1","props":{"group":"g1","size":4}},{"event":"$identify","player":"u1","props":{"anonymous":"an1"}},{"event":"identify","player":"u1","props":{"plan":"pro"}},{"event":"$identify","player":"u1","props":{"anonymous":"an1"}},{}],"sent_at":1795176000500}"#
            ]],
        );
    }

    #[test]
    fn route_of_one_kind_needs_no_type() {
        check(
            Some("track"),
            r#"{"event":"win","userId":7}"#,
            expect![[r#"None {"events":[{"event":"win","player":"7"}]}"#]],
        );
    }
}
