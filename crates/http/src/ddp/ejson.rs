//! EJSON: JSON with dates and bytes, as DDP carries it.
//!
//! `{"$date": ms}`, `{"$binary": base64}`, and `{"$escape": {...}}` around an object that only looks like one of them.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use pipeline::time::rfc3339;

/// Whether this JSON may hold something of EJSON's own; most does not, and is left as it stands.
pub fn may_hold(text: &str) -> bool {
    // A quoted name may also begin with an escape.
    text.contains("\"$") || text.contains("\"\\u0024")
}

/// A text as the routes take it.
pub fn plain_text(text: &str) -> serde_json::Result<Cow<'_, str>> {
    if !may_hold(text) {
        return Ok(Cow::Borrowed(text));
    }
    Ok(Cow::Owned(plain(serde_json::from_str(text)?).to_string()))
}

/// A text as EJSON has it.
pub fn escaped_text(text: &str) -> Cow<'_, str> {
    if !may_hold(text) {
        return Cow::Borrowed(text);
    }
    let value = serde_json::from_str(text).expect("what the server says is JSON");
    Cow::Owned(escaped(value).to_string())
}

/// Plain JSON as the routes take it: dates become RFC 3339, bytes stay base64 text.
fn plain(value: Value) -> Value {
    match value {
        Value::Array(values) => values.into_iter().map(plain).collect(),
        Value::Object(fields) => object(fields),
        other => other,
    }
}

fn object(mut fields: Map<String, Value>) -> Value {
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

/// Plain JSON as EJSON: an object that looks like one of EJSON's own is escaped.
fn escaped(value: Value) -> Value {
    match value {
        Value::Array(values) => values.into_iter().map(escaped).collect(),
        Value::Object(fields) => {
            let looks = fields.len() <= 2 && fields.keys().any(|key| OWN.contains(&key.as_str()));
            let inner = Value::Object(fields.into_iter().map(|(key, value)| (key, escaped(value))).collect());
            if looks { json!({ "$escape": inner }) } else { inner }
        }
        other => other,
    }
}

const OWN: [&str; 8] = ["$date", "$binary", "$escape", "$type", "$value", "$InfNaN", "$regexp", "$flags"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_changed_only_if_it_has_to_be() {
        assert!(matches!(plain_text(r#"{"a": [1.50, "x$"]}"#), Ok(Cow::Borrowed(_))));
        assert_eq!(plain_text(r#"{"at": {"$date":0}}"#).unwrap(), r#"{"at":"1970-01-01T00:00:00Z"}"#);
        assert_eq!(plain_text(r#"{"\u0024date":0}"#).unwrap(), r#""1970-01-01T00:00:00Z""#);
        assert_eq!(escaped_text(r#"{"$date":0}"#), r#"{"$escape":{"$date":0}}"#);
    }

    #[test]
    fn dates_and_bytes_become_what_the_routes_take() {
        let check = |ejson: Value, expected: Value| assert_eq!(plain(ejson), expected);
        check(json!({"at": {"$date": 0}}), json!({"at": "1970-01-01T00:00:00Z"}));
        check(json!([{"$binary": "AAE="}]), json!(["AAE="]));
        check(json!({"$escape": {"$date": 5}}), json!({"$date": 5}));
        check(json!({"$date": "no number"}), json!({"$date": "no number"}));
        check(json!({"$date": 1, "more": 2}), json!({"$date": 1, "more": 2}));
    }

    #[test]
    fn what_looks_like_ejson_and_is_none_is_escaped_and_reads_back() {
        for value in
            [json!({"$date": 5}), json!({"a": [{"$binary": "x"}]}), json!({"$escape": {}}), json!({"b": 1})]
        {
            assert_eq!(plain(escaped(value.clone())), value);
        }
        assert_eq!(escaped(json!({"$date": 5})), json!({"$escape": {"$date": 5}}));
    }
}
