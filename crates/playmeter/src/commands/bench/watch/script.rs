//! What a subscriber says before it watches, and what it waits for each time.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

/// Stands for the subscriber's number, from 0 on.
const NUMBER: &str = "{i}";
/// A message that holds one of these ends the attempt.
const REFUSALS: [&str; 4] = [r#""msg":"nosub""#, r#""msg":"failed""#, r#""msg":"error""#, r#""error":"#];

/// The steps, one after the other. None: whoever is connected watches.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Script {
    steps: Vec<Step>,
}

/// One message and the words in the answer that let the next one be said.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub say: String,
    pub until: String,
}

impl Script {
    /// DDP 1: connects and subscribes to one publication.
    pub fn ddp(publication: &str, what: Option<Value>, options: Option<Value>) -> Script {
        let connect = json!({ "msg": "connect", "version": "1", "support": ["1"] });
        let params = match (what, options) {
            (None, None) => vec![],
            (what, None) => vec![what.unwrap_or_default()],
            (what, Some(options)) => vec![what.unwrap_or_default(), options],
        };
        let sub = json!({ "msg": "sub", "id": "1", "name": publication, "params": params });
        let step = |say: Value, until: &str| Step { say: say.to_string(), until: until.into() };
        Script { steps: vec![step(connect, r#""msg":"connected""#), step(sub, r#""msg":"ready""#)] }
    }

    /// Reads a JSON array of `{"say", "until"}`.
    pub fn read(file: &Path) -> anyhow::Result<Script> {
        let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        let script: Script =
            serde_json::from_str(&text).with_context(|| format!("reading {}", file.display()))?;
        ensure!(script.steps.iter().all(|step| !step.until.is_empty()), "`until` names some words");
        Ok(script)
    }

    /// What subscriber `number` says in this step.
    pub fn say(&self, step: usize, number: usize) -> Option<String> {
        Some(self.steps.get(step)?.say.replace(NUMBER, &number.to_string()))
    }

    /// Whether the message answers this step.
    pub fn is_answered(&self, step: usize, message: &[u8]) -> bool {
        self.steps.get(step).is_some_and(|step| contains(message, &step.until))
    }

    /// Whether the message says that there will be nothing to watch.
    pub fn is_refusal(message: &[u8]) -> bool {
        REFUSALS.iter().any(|words| contains(message, words))
    }
}

fn contains(message: &[u8], words: &str) -> bool {
    memchr::memmem::find(message, words.as_bytes()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(what: Option<&str>, options: Option<&str>, expected: &str) {
        let value = |text: &str| serde_json::from_str(text).expect("the test writes JSON");
        let script = Script::ddp("query", what.map(value), options.map(value));
        let sub: Value = value(&script.say(1, 7).expect("it is the second step"));
        assert_eq!(sub["params"].to_string(), expected);
    }

    #[test]
    fn a_subscription_has_the_parameters_given() {
        check(None, None, "[]");
        check(Some(r#"{"metric":"score"}"#), None, r#"[{"metric":"score"}]"#);
        check(None, Some(r#"{"min_interval":0}"#), r#"[null,{"min_interval":0}]"#);
    }

    #[test]
    fn each_subscriber_can_have_its_own() {
        check(Some(r#"{"metric":"score_{i}"}"#), None, r#"[{"metric":"score_7"}]"#);
    }

    #[test]
    fn an_answer_is_known_by_its_words() {
        let script = Script::ddp("online", None, None);
        assert!(script.is_answered(0, br#"{"msg":"connected","session":"x"}"#));
        assert!(!script.is_answered(1, br#"{"msg":"connected","session":"x"}"#));
        assert!(!script.is_answered(2, br#"{"msg":"ready","subs":["1"]}"#));
        assert!(Script::is_refusal(br#"{"msg":"nosub","id":"1","error":{"error":403}}"#));
    }
}
