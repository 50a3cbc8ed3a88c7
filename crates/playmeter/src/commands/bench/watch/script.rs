//! The messages that a subscriber sends after connecting, and the responses that it waits for.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

/// The placeholder for the number of the subscriber, starting at 0.
const NUMBER: &str = "{i}";
/// A message that contains one of these means that the subscription was rejected.
const REJECTIONS: [&str; 4] = [r#""msg":"nosub""#, r#""msg":"failed""#, r#""msg":"error""#, r#""error":"#];

/// The steps in order. Without steps, a connection is already a subscription.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Script {
    steps: Vec<ScriptStep>,
}

/// A message to send and the text of the response after which the next step starts.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScriptStep {
    pub(crate) say: String,
    pub(crate) until: String,
}

impl Script {
    /// Creates the DDP 1 script that connects and subscribes to a publication.
    pub(crate) fn ddp(publication: &str, what: Option<Value>, options: Option<Value>) -> Script {
        let connect = json!({ "msg": "connect", "version": "1", "support": ["1"] });
        let params = match (what, options) {
            (None, None) => vec![],
            (what, None) => vec![what.unwrap_or_default()],
            (what, Some(options)) => vec![what.unwrap_or_default(), options],
        };
        let sub = json!({ "msg": "sub", "id": "1", "name": publication, "params": params });
        let step = |say: Value, until: &str| ScriptStep { say: say.to_string(), until: until.into() };
        Script { steps: vec![step(connect, r#""msg":"connected""#), step(sub, r#""msg":"ready""#)] }
    }

    /// Reads a JSON array of `{"say", "until"}`.
    pub(crate) fn read(file: &Path) -> anyhow::Result<Script> {
        let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        let script: Script =
            serde_json::from_str(&text).with_context(|| format!("reading {}", file.display()))?;
        ensure!(script.steps.iter().all(|step| !step.until.is_empty()), "`until` must not be empty");
        Ok(script)
    }

    /// Returns the message of subscriber `number` in this step, or `None` after the last step.
    pub(crate) fn message(&self, step: usize, number: usize) -> Option<String> {
        Some(self.steps.get(step)?.say.replace(NUMBER, &number.to_string()))
    }

    /// Returns true if the message is the response to this step.
    pub(crate) fn is_response(&self, step: usize, message: &[u8]) -> bool {
        self.steps.get(step).is_some_and(|step| contains(message, &step.until))
    }

    /// Returns true if the message rejects the subscription.
    pub(crate) fn is_rejection(message: &[u8]) -> bool {
        REJECTIONS.iter().any(|text| contains(message, text))
    }
}

fn contains(message: &[u8], text: &str) -> bool {
    memchr::memmem::find(message, text.as_bytes()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(what: Option<&str>, options: Option<&str>, expected: &str) {
        let value = |text: &str| serde_json::from_str(text).expect("the test writes JSON");
        let script = Script::ddp("query", what.map(value), options.map(value));
        let sub: Value = value(&script.message(1, 7).expect("it is the second step"));
        assert_eq!(sub["params"].to_string(), expected);
    }

    #[test]
    fn subscription_has_the_given_parameters() {
        check(None, None, "[]");
        check(Some(r#"{"metric":"score"}"#), None, r#"[{"metric":"score"}]"#);
        check(None, Some(r#"{"min_interval":0}"#), r#"[null,{"min_interval":0}]"#);
    }

    #[test]
    fn parameter_may_contain_the_subscriber_number() {
        check(Some(r#"{"metric":"score_{i}"}"#), None, r#"[{"metric":"score_7"}]"#);
    }

    #[test]
    fn responses_are_recognised_by_their_text() {
        let script = Script::ddp("online", None, None);
        assert!(script.is_response(0, br#"{"msg":"connected","session":"x"}"#));
        assert!(!script.is_response(1, br#"{"msg":"connected","session":"x"}"#));
        assert!(!script.is_response(2, br#"{"msg":"ready","subs":["1"]}"#));
        assert!(Script::is_rejection(br#"{"msg":"nosub","id":"1","error":{"error":403}}"#));
    }
}
