//! GameAnalytics' collector API, version 2: an array of events, each with its category.
//!
//! Source: <https://docs.gameanalytics.com/event-tracking-and-integrations/rest-api/>, and the requests of their
//! JavaScript SDK. The game's key is in the path, the signature in a header.

use serde_json::{Map, Value};

use super::{
    EventBuilder, TranslateError, TranslatedBody, id, parse_json, strip_dollar, translate_events, uuid,
};

/// Translates a body.
pub fn translate(body: &[u8]) -> Result<TranslatedBody, TranslateError> {
    match parse_json(body)? {
        Value::Array(events) => translate_events(&events, None, None, event),
        _ => Err(TranslateError::Shape("the body must be an array of events")),
    }
}

fn event(raw: &Map<String, Value>) -> EventBuilder {
    let text = |name: &str| raw.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut event = match text("category") {
        "user" => EventBuilder::named("$session_start"),
        "session_end" => session_end(raw),
        "design" => design(text("event_id"), raw.get("value")),
        "progression" => progression(text("event_id"), raw),
        "business" => business(text("event_id"), raw),
        "resource" => resource(text("event_id"), raw),
        "error" => error(text("severity"), text("message")),
        "sdk_error" => EventBuilder::named("sdk_error"),
        "impression" => EventBuilder::named("impression"),
        "ads" => EventBuilder::named("ads"),
        // An event of an unknown category has no name and is rejected for that.
        _ => EventBuilder::default(),
    };
    event.put("id", raw.get("event_uuid").and_then(uuid));
    event.put(
        "ts",
        raw.get("client_ts").and_then(Value::as_i64).and_then(|s| s.checked_mul(1000)).map(Value::from),
    );
    event.put("player", id(raw.get("user_id")));
    event.put("session", id(raw.get("session_id")));
    event.put_dimension("platform", raw.get("platform"));
    event.put_dimension("version", raw.get("build"));
    custom(&mut event, raw);
    event
}

/// Adds the three custom dimensions and the custom fields.
fn custom(event: &mut EventBuilder, raw: &Map<String, Value>) {
    for name in ["custom_01", "custom_02", "custom_03"] {
        if let Some(value) = raw.get(name).filter(|value| value.is_string()) {
            event.props.insert(name.to_owned(), value.clone());
        }
    }
    if let Some(fields) = raw.get("custom_fields").and_then(Value::as_object) {
        event.props.extend(fields.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
}

/// `length` is in seconds.
fn session_end(raw: &Map<String, Value>) -> EventBuilder {
    let mut event = EventBuilder::named("$session_end");
    event.put("value", raw.get("length").filter(|length| length.is_number()).cloned());
    event
}

/// `kill:robot` with a value is an event of that name.
fn design(event_id: &str, value: Option<&Value>) -> EventBuilder {
    if event_id.is_empty() {
        return EventBuilder::default();
    }
    let mut event = EventBuilder::named(strip_dollar(event_id));
    event.put("value", value.filter(|value| value.is_number()).cloned());
    event
}

/// `Start:world1:level2` is progress in the level `world1:level2`.
fn progression(event_id: &str, raw: &Map<String, Value>) -> EventBuilder {
    let (status, level) = event_id.split_once(':').unwrap_or((event_id, ""));
    let state = match status {
        "Start" => "start",
        "Complete" => "win",
        "Fail" => "quit",
        _ => return EventBuilder::default(),
    };
    let mut event = EventBuilder::named("$level");
    event.put("level", (!level.is_empty()).then(|| level.into()));
    event.put("value", raw.get("score").filter(|score| score.is_number()).cloned());
    event.props.insert("state".to_owned(), state.into());
    if let Some(attempt) = raw.get("attempt_num").filter(|attempt| attempt.is_number()) {
        event.props.insert("attempt".to_owned(), attempt.clone());
    }
    event
}

/// `pack:sword`, an amount in cents and a currency.
fn business(event_id: &str, raw: &Map<String, Value>) -> EventBuilder {
    let mut event = EventBuilder::named("$business");
    let amount = raw.get("amount").and_then(Value::as_f64).map(|cents| cents / 100.0);
    event.put("value", amount.map(Value::from));
    let fields = [
        ("currency", raw.get("currency").cloned()),
        ("amount", amount.map(Value::from)),
        ("item", Some(event_id.into())),
    ];
    put_present(&mut event, fields);
    event
}

/// `Source:gems:boost:speed` and an amount.
fn resource(event_id: &str, raw: &Map<String, Value>) -> EventBuilder {
    let mut parts = event_id.splitn(3, ':');
    let mut next = || parts.next().map(Value::from);
    let flow = next().and_then(|flow| flow.as_str().map(str::to_lowercase)).map(Value::from);
    let (currency, item) = (next(), next());
    let mut event = EventBuilder::named("$resource");
    event.put("value", raw.get("amount").filter(|amount| amount.is_number()).cloned());
    put_present(
        &mut event,
        [("flow", flow), ("currency", currency), ("amount", raw.get("amount").cloned()), ("item", item)],
    );
    event
}

fn error(severity: &str, message: &str) -> EventBuilder {
    let mut event = EventBuilder::named("$error");
    // Their messages may have 8,192 characters; the start of a long one is enough.
    let cut: String = message.chars().take(200).collect();
    put_present(&mut event, [("severity", Some(severity.into())), ("message", Some(cut.into()))]);
    event
}

fn put_present<const N: usize>(event: &mut EventBuilder, fields: [(&str, Option<Value>); N]) {
    let present = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    event.props.extend(present);
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(body: &str, expected: Expect) {
        let translated = translate(body.as_bytes()).expect("the body can be translated");
        expected.assert_eq(&String::from_utf8_lossy(&translated.body));
    }

    #[test]
    fn each_category_is_translated() {
        check(
            r#"[{"category":"user","event_uuid":"bb305fb5-e5a9-4bf8-8006-6139d4090025","user_id":"u","session_id":"s","client_ts":1795199052,"platform":"linux","build":"1.0"},
                {"category":"design","event_id":"kill:robot","value":7,"custom_01":"ninja","custom_fields":{"mode":"hard"}},
                {"category":"progression","event_id":"Start:world1:level2"},
                {"category":"progression","event_id":"Fail:world1","score":10,"attempt_num":2},
                {"category":"business","event_id":"pack:sword","currency":"USD","amount":499,"cart_type":"shop"},
                {"category":"resource","event_id":"Sink:gems:boost:speed","amount":5},
                {"category":"error","severity":"warning","message":"boom"},
                {"category":"session_end","length":61},
                {"category":"other"}]"#,
            expect![[
                r#"{"events":[{"event":"$session_start","id":"bb305fb5-e5a9-4bf8-8006-6139d4090025","platform":"linux","player":"u","session":"s","ts":1795199052000,"version":"1.0"},{"event":"kill:robot","props":{"custom_01":"ninja","mode":"hard"},"value":7},{"event":"$level","level":"world1:level2","props":{"state":"start"}},{"event":"$level","level":"world1","props":{"attempt":2,"state":"quit"},"value":10},{"event":"$business","props":{"amount":4.99,"currency":"USD","item":"pack:sword"},"value":4.99},{"event":"$resource","props":{"amount":5,"currency":"gems","flow":"sink","item":"boost:speed"},"value":5},{"event":"$error","props":{"message":"boom","severity":"warning"}},{"event":"$session_end","value":61},{}]}"#
            ]],
        );
    }

    #[test]
    fn other_shapes_are_rejected() {
        for body in ["7", "{}", "", "["] {
            assert!(translate(body.as_bytes()).is_err(), "{body}");
        }
    }
}
