//! `POST /tracker/p.aspx` of SDK 2: one event about a player, as base64 of JSON in the form field `data`.

use serde_json::{Map, Value, json};

use super::escape::{raw_parameter, unescape};
use super::form::FormError;
use super::source::source;
use crate::capture::TranslatedBody;

/// Translates an event: `pevent`, `transaction` with the total price or `invitation` with the number of invited players.
/// The id that the SDK keeps in the browser is the player.
pub fn translate_pevent(body: &[u8]) -> Result<TranslatedBody, FormError> {
    let body = str::from_utf8(body).map_err(|_| FormError::NotText)?;
    let data = raw_parameter(body, "data").filter(|data| !data.is_empty());
    let data = unescape(data.ok_or(FormError::Missing("data"))?);
    let bytes = crate::base64::decode(&data).ok_or(FormError::Data)?;
    let event: Map<String, Value> = serde_json::from_slice(&bytes).map_err(|_| FormError::Data)?;
    let body = json!({ "events": [translate(&event)] }).to_string().into_bytes();
    Ok(TranslatedBody { body, key: None, events: 1 })
}

fn translate(event: &Map<String, Value>) -> Value {
    let is = |name: &str| event.get(name) == Some(&Value::Bool(true));
    let name = match (is("transaction"), is("invitation")) {
        (true, _) => "transaction",
        (_, true) => "invitation",
        _ => "pevent",
    };
    let text = |name: &str| event.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let mut props = event.get("params").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut translated = Map::from_iter([("event".to_owned(), name.into())]);
    translated.extend(text("session").map(|player| ("player".to_owned(), player.into())));
    translated.extend(text("source").and_then(source).map(|source| ("source".to_owned(), source.into())));
    let total = props.get("total").filter(|total| total.is_number());
    translated.extend(total.map(|total| ("value".to_owned(), total.clone())));
    for name in ["location", "locationbefore", "referredby", "invitedby", "sessionid"] {
        props.extend(text(name).map(|value| (name.to_owned(), value.into())));
    }
    props.extend(
        event.get("time").filter(|time| time.is_number()).map(|time| ("time".to_owned(), time.clone())),
    );
    translated.insert("props".to_owned(), props.into());
    translated.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_is_named_by_its_kind() {
        // {"session":"s1","source":"www.games.example","time":60,"location":"menu","params":{"total":5,"item":"hat"},"transaction":true}
        let body = "data=eyJzZXNzaW9uIjoiczEiLCJzb3VyY2UiOiJ3d3cuZ2FtZXMuZXhhbXBsZSIsInRpbWUiOjYwLCJsb2NhdGlvbiI6Im1lbnUiLCJwYXJhbXMiOnsidG90YWwiOjUsIml0ZW0iOiJoYXQifSwidHJhbnNhY3Rpb24iOnRydWV9";
        let translated = translate_pevent(body.as_bytes()).expect("an event");
        assert_eq!(
            String::from_utf8_lossy(&translated.body),
            r#"{"events":[{"event":"transaction","player":"s1","props":{"item":"hat","location":"menu","time":60,"total":5},"source":"www.games.example","value":5}]}"#
        );
        let plain = translate_pevent(b"data=e30%3D").expect("an event");
        assert_eq!(String::from_utf8_lossy(&plain.body), r#"{"events":[{"event":"pevent","props":{}}]}"#);
        for body in ["", "data=", "data=!", "data=W10="] {
            assert!(translate_pevent(body.as_bytes()).is_err(), "{body}");
        }
    }
}
