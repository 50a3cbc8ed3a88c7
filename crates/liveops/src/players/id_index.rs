//! Finding players in commands and responses.

use hashbrown::HashMap;
use serde_json::Value;

use crate::command::{CommandDecodeError, parts};

/// Ids and sessions of some players of a game, each with the number of its player.
#[derive(Default)]
pub struct PlayerIdIndex {
    numbers: HashMap<Vec<u8>, usize>,
}

impl PlayerIdIndex {
    /// Adds an id of a player.
    pub fn add(&mut self, id: &str, number: usize) {
        self.numbers.insert(id.as_bytes().to_vec(), number);
    }

    /// Returns the number of the player with this id.
    pub fn find(&self, id: &[u8]) -> Option<usize> {
        self.numbers.get(id).copied()
    }

    /// Returns the number of the player whom a command names or whose session sent it. Must be called for every command
    /// in log order, because it registers the sessions that are opened.
    pub fn find_in_command(&mut self, bytes: &[u8]) -> Result<Option<usize>, CommandDecodeError> {
        let json = parts(bytes)?.json;
        let envelope: Value =
            serde_json::from_slice(json).map_err(|error| CommandDecodeError(error.to_string()))?;
        let mut found = None;
        visit(&envelope, &mut |text| found = found.or(self.find(text.as_bytes())));
        let session = envelope.pointer("/command/players/open_session/session").and_then(Value::as_str);
        if let (Some(number), Some(session)) = (found, session) {
            self.add(session, number);
        }
        Ok(found)
    }
}

/// Returns the game of a command.
pub fn game_of_command(bytes: &[u8]) -> Result<u32, CommandDecodeError> {
    Ok(parts(bytes)?.game)
}

/// Returns true if `matches` accepts a string or a key of this JSON. False if it is not JSON.
pub(crate) fn contains_text(json: &str, matches: &dyn Fn(&str) -> bool) -> bool {
    let mut found = false;
    if let Ok(value) = serde_json::from_str(json) {
        visit(&value, &mut |text| found |= matches(text));
    }
    found
}

fn visit(value: &Value, call: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => call(text),
        Value::Array(values) => values.iter().for_each(|value| visit(value, call)),
        Value::Object(fields) => {
            for (name, value) in fields {
                call(name);
                visit(value, call);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
