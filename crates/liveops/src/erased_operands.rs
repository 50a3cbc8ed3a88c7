//! Removing an erased player from questions: from conditions such as `{"property": "player", "op": "=", "value": "ann"}`
//! and from searches for players.

use serde_json::Value;

use crate::vars::Json;

/// What a condition about an erased player compares with.
const ERASED: &str = "(erased)";
/// The properties whose values are ids of players.
const PLAYER_PROPERTIES: [&str; 2] = ["player", "anonymous"];

/// The field of a search for players by a part of their id.
const SEARCH: &str = "search";

/// Returns the JSON without the player's id in conditions about players; `None` if it has none.
pub(crate) fn without_player(json: &Json, player: &str) -> Option<Json> {
    let mut value: Value = serde_json::from_str(json.text()).ok()?;
    remove(&mut value, player).then(|| Json::parse(&value.to_string()).expect("it was written as JSON"))
}

fn remove(value: &mut Value, player: &str) -> bool {
    match value {
        Value::Array(items) => {
            let mut is_changed = false;
            items.iter_mut().for_each(|item| is_changed |= remove(item, player));
            is_changed
        }
        Value::Object(fields) => {
            let property = fields.get("property").and_then(Value::as_str).unwrap_or_default();
            let is_about_players = PLAYER_PROPERTIES.contains(&property);
            let mut is_changed = false;
            for (name, field) in fields {
                is_changed |= match name.as_str() {
                    "value" if is_about_players => replace(field, player),
                    SEARCH => replace(field, player),
                    _ => remove(field, player),
                };
            }
            is_changed
        }
        _ => false,
    }
}

fn replace(operand: &mut Value, player: &str) -> bool {
    match operand {
        Value::String(text) if text == player => {
            ERASED.clone_into(text);
            true
        }
        // A number is compared by its text.
        Value::Number(number) if number.to_string() == player => {
            *operand = ERASED.into();
            true
        }
        Value::Array(items) => {
            let mut is_changed = false;
            items.iter_mut().for_each(|item| is_changed |= replace(item, player));
            is_changed
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_ids_by_their_text() {
        let json = Json::parse(
            r#"[{"op":"in","property":"player","value":[123,1234]},{"property":"level","value":123}]"#,
        );
        let after = without_player(&json.expect("JSON"), "123").expect("a condition names the player");
        let expected =
            r#"[{"op":"in","property":"player","value":["(erased)",1234]},{"property":"level","value":123}]"#;
        assert_eq!(after.text(), expected);
    }

    #[test]
    fn only_conditions_about_players_lose_the_id() {
        let check = |before: &str, expected: Option<&str>| {
            let before = Json::parse(before).expect("JSON");
            let after = without_player(&before, "ann");
            assert_eq!(after.as_ref().map(Json::text), expected, "{before:?}");
        };
        check(
            r#"{"where":[{"or":[{"op":"=","property":"player","value":"ann"}]}]}"#,
            Some(r#"{"where":[{"or":[{"op":"=","property":"player","value":"(erased)"}]}]}"#),
        );
        check(
            r#"[{"op":"in","property":"anonymous","value":["bo","ann"]}]"#,
            Some(r#"[{"op":"in","property":"anonymous","value":["bo","(erased)"]}]"#),
        );
        check(r#"{"search":"ann"}"#, Some(r#"{"search":"(erased)"}"#));
        check(r#"[{"op":"=","property":"country","value":"ann"}]"#, None);
        check(r#"[{"op":"=","property":"player","value":"anna"}]"#, None);
    }
}
