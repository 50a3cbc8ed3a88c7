//! Who is spoken of in a command or in an answer.

use hashbrown::HashMap;
use serde_json::Value;

use crate::command::{BadCommand, parts};

/// The texts under which some players stand in one game's log, each with the number of its player.
#[derive(Default)]
pub struct Traces {
    of: HashMap<Vec<u8>, usize>,
}

impl Traces {
    /// Adds an id of a player.
    pub fn add(&mut self, id: &str, number: usize) {
        self.of.insert(id.as_bytes().to_vec(), number);
    }

    /// Whose id this is.
    pub fn whose(&self, id: &[u8]) -> Option<usize> {
        self.of.get(id).copied()
    }

    /// Whom of them a command is about, or in whose session it was sent. Called in log order for every command: takes
    /// note of the sessions that are opened.
    pub fn in_command(&mut self, bytes: &[u8]) -> Result<Option<usize>, BadCommand> {
        let json = parts(bytes)?.json;
        let envelope: Value = serde_json::from_slice(json).map_err(|error| BadCommand(error.to_string()))?;
        let mut found = None;
        visit(&envelope, &mut |text| found = found.or(self.whose(text.as_bytes())));
        let session = envelope.pointer("/command/players/open_session/session").and_then(Value::as_str);
        if let (Some(number), Some(session)) = (found, session) {
            self.add(session, number);
        }
        Ok(found)
    }
}

/// The game of a command.
pub fn game_of(bytes: &[u8]) -> Result<u32, BadCommand> {
    Ok(parts(bytes)?.game)
}

/// Whether a text or a name in this JSON is one of these. What is not JSON mentions nobody.
pub fn is_mentioned(json: &str, names: &dyn Fn(&str) -> bool) -> bool {
    let mut found = false;
    if let Ok(value) = serde_json::from_str(json) {
        visit(&value, &mut |text| found |= names(text));
    }
    found
}

fn visit(value: &Value, see: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => see(text),
        Value::Array(values) => values.iter().for_each(|value| visit(value, see)),
        Value::Object(fields) => {
            for (name, value) in fields {
                see(name);
                visit(value, see);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
