//! The demo game's variables, one of them an experiment, and its achievements.

use std::collections::BTreeMap;

use liveops::feed::{self, Achievement};
use liveops::vars::{self, VarDefinition};
use liveops::{Caller, Command, Principal};
use serde_json::json;
use tracing::warn;

use http::{CommandRequest, RuntimeState};
use pipeline::catalog::Access;
use pipeline::time::now_ms;

const ACHIEVEMENTS: [(&str, &str, &str); 3] = [
    ("first-run", "First run", "Played a whole run."),
    ("all-stars", "All stars", "Every letter right at once."),
    ("alphabet", "The alphabet", "Found every letter from A to Z."),
];

/// Creates them at the first start. Later changes by users are left alone.
pub(crate) async fn create(runtime: &RuntimeState, access: &Access) {
    let game = runtime.shared.views.liveops.game(access.game.number);
    if game.read().vars.version() > 0 {
        return;
    }
    let commands = std::iter::once(variables()).chain(ACHIEVEMENTS.map(achievement));
    for command in commands {
        let by = Principal { caller: Caller::Server, signed: None };
        let asked = CommandRequest::new(access.clone(), by, now_ms(), None);
        match runtime.execute(asked, command, &[]).await {
            Ok(Ok(_)) => {}
            Ok(Err(refusal)) => warn!(%refusal, "a part of the demo game was not created"),
            Err(problem) => warn!(?problem, "a part of the demo game was not created"),
        }
    }
}

/// The values that `examples/letters` uses without a server.
fn variables() -> Command {
    let definitions = json!({
        "rounds": { "value": 6, "description": "Puzzles in a run", "schema": { "type": "integer", "minimum": 1, "maximum": 12 } },
        "choices": { "value": 3, "description": "Letters to choose from", "schema": { "type": "integer", "minimum": 2, "maximum": 5 } },
        "row": { "value": 4, "description": "Letters in the row", "schema": { "type": "integer", "minimum": 3, "maximum": 5 } },
        "letters": { "value": "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "description": "Which letters may be missing", "schema": { "type": "string", "minLength": 1 } },
        "hint_s": {
            "value": 10, "description": "Seconds until the right letter winks", "schema": { "type": "number", "minimum": 0 },
            "conditions": [{ "name": "soon", "value": 6, "percent": { "from": 0, "to": 50 } }],
        },
        "speech_rate": { "value": 0.85, "description": "How fast the voice speaks", "schema": { "type": "number", "minimum": 0.1, "maximum": 2 } },
        "hue": { "value": 225, "description": "The colour of the sky: change it and look at an open game", "schema": { "type": "integer", "minimum": 0, "maximum": 360 } },
    });
    let definitions: BTreeMap<String, Option<VarDefinition>> =
        serde_json::from_str(&definitions.to_string()).expect("the definitions are valid");
    Command::Vars(vars::VarsCommand::PutMany { vars: definitions, expected_version: Some(0) })
}

fn achievement((key, name, description): (&str, &str, &str)) -> Command {
    let achievement = json!({ "name": name, "description": description, "points": 10 });
    let achievement: Achievement = serde_json::from_value(achievement).expect("the achievement is valid");
    Command::Feed(feed::FeedCommand::PutAchievement { key: key.to_owned(), achievement })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demo_definitions_are_valid() {
        assert!(
            matches!(variables(), Command::Vars(vars::VarsCommand::PutMany { vars, .. }) if vars.len() == 7)
        );
        assert_eq!(ACHIEVEMENTS.map(achievement).len(), 3);
    }
}
