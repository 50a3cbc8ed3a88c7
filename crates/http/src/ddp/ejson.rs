//! EJSON: the JSON of DDP, with dates and bytes.
//!
//! `{"$date": ms}`, `{"$binary": base64}`, and `{"$escape": {...}}` around a plain object with
//! such keys.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use pipeline::time::rfc3339;

/// Returns true if the JSON may contain EJSON's own objects. Most does not and is passed through unchanged.
fn may_contain_ejson(text: &str) -> bool {
    // The `$` of a key may also be written as an escape.
    text.contains("\"$") || text.contains("\"\\u0024")
}

/// Converts EJSON text to the plain JSON that routes accept. Fails if the text is not JSON.
pub(super) fn plain_text(text: &str) -> serde_json::Result<Cow<'_, str>> {
    if !may_contain_ejson(text) {
        return Ok(Cow::Borrowed(text));
    }
    Ok(Cow::Owned(plain(serde_json::from_str(text)?).to_string()))
}

/// Converts the JSON text of a response to EJSON.
pub(super) fn escaped_text(text: &str) -> Cow<'_, str> {
    if !may_contain_ejson(text) {
        return Cow::Borrowed(text);
    }
    let value = serde_json::from_str(text).expect("responses are valid JSON");
    Cow::Owned(escaped(value).to_string())
}

/// Converts EJSON to plain JSON: dates become RFC 3339, bytes stay base64 text.
fn plain(value: Value) -> Value {
    match value {
        Value::Array(values) => values.into_iter().map(plain).collect(),
        Value::Object(fields) => plain_object(fields),
        other => other,
    }
}

fn plain_object(mut fields: Map<String, Value>) -> Value {
    if fields.len() == 1 {
        if let Some(ms) = fields.get("$date").and_then(Value::as_i64) {
            return rfc3339(ms).into();
        }
        if let Some(Value::String(_)) = fields.get("$binary") {
            return fields.remove("$binary").unwrap_or_default();
        }
        if let Some(Value::Object(inner)) = fields.get_mut("$escape") {
            return Value::Object(
                std::mem::take(inner).into_iter().map(|(key, value)| (key, plain(value))).collect(),
            );
        }
    }
    Value::Object(fields.into_iter().map(|(key, value)| (key, plain(value))).collect())
}

/// Converts plain JSON to EJSON: an object with a key of EJSON is escaped.
fn escaped(value: Value) -> Value {
    match value {
        Value::Array(values) => values.into_iter().map(escaped).collect(),
        Value::Object(fields) => {
            let is_ambiguous =
                fields.len() <= 2 && fields.keys().any(|key| EJSON_KEYS.contains(&key.as_str()));
            let inner = Value::Object(fields.into_iter().map(|(key, value)| (key, escaped(value))).collect());
            if is_ambiguous { json!({ "$escape": inner }) } else { inner }
        }
        other => other,
    }
}

const EJSON_KEYS: [&str; 8] =
    ["$date", "$binary", "$escape", "$type", "$value", "$InfNaN", "$regexp", "$flags"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_ejson_is_passed_through() {
        assert!(matches!(plain_text(r#"{"a": [1.50, "x$"]}"#), Ok(Cow::Borrowed(_))));
        assert_eq!(plain_text(r#"{"at": {"$date":0}}"#).unwrap(), r#"{"at":"1970-01-01T00:00:00Z"}"#);
        assert_eq!(plain_text(r#"{"\u0024date":0}"#).unwrap(), r#""1970-01-01T00:00:00Z""#);
        assert_eq!(escaped_text(r#"{"$date":0}"#), r#"{"$escape":{"$date":0}}"#);
    }

    #[test]
    fn dates_become_rfc_3339_and_bytes_base64() {
        let check = |ejson: Value, expected: Value| assert_eq!(plain(ejson), expected);
        check(json!({"at": {"$date": 0}}), json!({"at": "1970-01-01T00:00:00Z"}));
        check(json!([{"$binary": "AAE="}]), json!(["AAE="]));
        check(json!({"$escape": {"$date": 5}}), json!({"$date": 5}));
        check(json!({"$date": "no number"}), json!({"$date": "no number"}));
        check(json!({"$date": 1, "more": 2}), json!({"$date": 1, "more": 2}));
    }

    #[test]
    fn plain_object_with_ejson_keys_is_escaped_and_round_trips() {
        for value in
            [json!({"$date": 5}), json!({"a": [{"$binary": "x"}]}), json!({"$escape": {}}), json!({"b": 1})]
        {
            assert_eq!(plain(escaped(value.clone())), value);
        }
        assert_eq!(escaped(json!({"$date": 5})), json!({"$escape": {"$date": 5}}));
    }
}
