//! What the server says, message by message.

use std::fmt::Write;

use bytes::Bytes;
use serde_json::{Value, json};

use super::ejson;
use crate::problem::Problem;
use crate::ws::Frames;
use live::documents::{DocumentChange, DocumentFields};

/// The version that is spoken.
pub(super) const VERSION: &str = "1";

/// Why something was not done: a status of HTTP, or a word.
pub(super) struct Refusal {
    error: Value,
    reason: String,
    details: Value,
}

impl Refusal {
    /// The client resumes where nobody remembers.
    pub(super) fn reload() -> Refusal {
        let reason = "what changed since then is not known any more: subscribe again without `resume`";
        Refusal { error: "reload".into(), reason: reason.to_owned(), details: Value::Null }
    }

    /// What a route answered.
    pub(super) fn answered(status: u16, body: &[u8]) -> Refusal {
        let details: Value = serde_json::from_slice(body).unwrap_or_default();
        let reason = details["detail"].as_str().unwrap_or("the server failed").to_owned();
        Refusal { error: status.into(), reason, details }
    }

    fn json(&self) -> Value {
        let said = self.error.as_str().map_or_else(|| self.error.to_string(), str::to_owned);
        json!({
            "error": self.error,
            "reason": self.reason,
            "message": format!("{} [{said}]", self.reason),
            "details": self.details,
            "errorType": "Meteor.Error",
            "isClientSafe": true,
        })
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Refusal {
        let details = serde_json::to_value(&problem).expect("a problem has only text and numbers");
        Refusal { error: problem.status().into(), reason: problem.detail().to_owned(), details }
    }
}

pub(super) fn connected(session: &str) -> String {
    json!({ "msg": "connected", "session": session }).to_string()
}

pub(super) fn failed() -> String {
    json!({ "msg": "failed", "version": VERSION }).to_string()
}

pub(super) fn ping() -> &'static str {
    r#"{"msg":"ping"}"#
}

pub(super) fn pong(id: Option<&str>) -> String {
    match id {
        Some(id) => json!({ "msg": "pong", "id": id }).to_string(),
        None => r#"{"msg":"pong"}"#.to_owned(),
    }
}

/// A message was not understood. It is sent back, unless it is long or no JSON.
pub(super) fn error(reason: &str, offending: &str) -> String {
    const SENT_BACK_BYTES_MAX: usize = 1024;
    let offending = Some(offending).filter(|text| text.len() <= SENT_BACK_BYTES_MAX);
    let mut message = json!({ "msg": "error", "reason": reason });
    if let Some(offending) = offending.and_then(|text| serde_json::from_str(text).ok()) {
        message["offendingMessage"] = offending;
    }
    message.to_string()
}

pub(super) fn nosub(id: &str, refusal: Option<&Refusal>) -> String {
    let mut message = json!({ "msg": "nosub", "id": id });
    if let Some(refusal) = refusal {
        message["error"] = refusal.json();
    }
    message.to_string()
}

pub(super) fn ready(ids: &[String], epoch: &str, offset: u64) -> String {
    json!({ "msg": "ready", "subs": ids, "epoch": epoch, "offset": offset }).to_string()
}

/// `answer`: JSON as a route wrote it; empty: nothing.
pub(super) fn result(id: &str, answer: Result<&str, &Refusal>) -> String {
    let mut message = format!(r#"{{"msg":"result","id":{}"#, text(id));
    let _ = match answer {
        Ok("") => Ok(()),
        Ok(answer) => write!(message, r#","result":{}"#, ejson::escaped_text(answer)),
        Err(refusal) => write!(message, r#","error":{}"#, refusal.json()),
    };
    message.push('}');
    message
}

pub(super) fn updated(id: &str) -> String {
    json!({ "msg": "updated", "methods": [id] }).to_string()
}

/// What changed, for everybody who has these documents in this collection. In an order, unless somebody asked for none.
pub(super) fn changes(changes: &[DocumentChange], collection: &str, is_ordered: bool, offset: u64) -> Bytes {
    let mut frames = Frames::default();
    let collection = text(collection);
    let mut message = String::new();
    for change in changes {
        message.clear();
        if say(&mut message, change, &collection, is_ordered) {
            let _ = write!(message, r#","offset":{offset}}}"#);
            frames.text(&message);
        }
    }
    frames.freeze()
}

/// Says a change but for its end; false: there is nothing to say.
fn say(message: &mut String, change: &DocumentChange, collection: &str, is_ordered: bool) -> bool {
    let mut head = |kind: &str, id: &str| {
        let _ = write!(message, r#"{{"msg":"{kind}","collection":{collection},"id":{}"#, text(id));
    };
    match change {
        DocumentChange::Added(doc, Some(before)) if is_ordered => {
            head("addedBefore", &doc.id);
            say_fields(message, &doc.fields);
            say_before(message, before.as_deref());
        }
        DocumentChange::Added(doc, _) => {
            head("added", &doc.id);
            say_fields(message, &doc.fields);
        }
        DocumentChange::Changed(id, fields, cleared) => {
            head("changed", id);
            if !fields.is_empty() {
                say_fields(message, fields);
            }
            if !cleared.is_empty() {
                let _ = write!(message, r#","cleared":{}"#, json!(cleared));
            }
        }
        DocumentChange::Moved(id, before) if is_ordered => {
            head("movedBefore", id);
            say_before(message, before.as_deref());
        }
        DocumentChange::Moved(..) => return false,
        DocumentChange::Removed(id) => head("removed", id),
    }
    true
}

fn say_fields(message: &mut String, fields: &DocumentFields) {
    message.push_str(r#","fields":{"#);
    for (index, (name, value)) in fields.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(message, "{comma}{}:{}", text(name), ejson::escaped_text(value.text()));
    }
    message.push('}');
}

fn say_before(message: &mut String, before: Option<&str>) {
    let _ = write!(message, r#","before":{}"#, before.map_or_else(|| "null".to_owned(), text));
}

fn text(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use live::documents::{Document, JsonText};

    fn check(change: &DocumentChange, is_ordered: bool, expected: &str) {
        let mut said = String::new();
        if say(&mut said, change, r#""c""#, is_ordered) {
            said.push('}');
        }
        assert_eq!(said, expected.replace('\'', "\""));
    }

    fn doc(id: &str, value: &str) -> Arc<Document> {
        Arc::new(Document { id: id.into(), fields: [("v", JsonText::raw(value))].into() })
    }

    #[test]
    fn what_changed_is_told_in_the_words_of_ddp() {
        let added = DocumentChange::Added(doc("a", "1.50"), None);
        check(&added, true, "{'msg':'added','collection':'c','id':'a','fields':{'v':1.50}}");
        let before = DocumentChange::Added(doc("x", "{}"), Some(Some("b".into())));
        let told = "{'msg':'addedBefore','collection':'c','id':'x','fields':{'v':{}},'before':'b'}";
        check(&before, true, told);
        check(&before, false, "{'msg':'added','collection':'c','id':'x','fields':{'v':{}}}");
        let last = DocumentChange::Moved("a\"".into(), None);
        check(&last, true, r#"{'msg':'movedBefore','collection':'c','id':'a\"','before':null}"#);
        check(&last, false, "");
        check(&DocumentChange::Removed("a".into()), true, "{'msg':'removed','collection':'c','id':'a'}");
        let changed =
            DocumentChange::Changed("a".into(), [("v", JsonText::raw("2"))].into(), vec!["w".into()]);
        check(&changed, true, "{'msg':'changed','collection':'c','id':'a','fields':{'v':2},'cleared':['w']}");
        let cleared = DocumentChange::Changed("a".into(), DocumentFields::default(), vec!["v".into()]);
        check(&cleared, true, "{'msg':'changed','collection':'c','id':'a','cleared':['v']}");
    }

    #[test]
    fn what_looks_like_ejson_is_escaped() {
        let added = DocumentChange::Added(doc("a", r#"{"$date":1}"#), None);
        let told = "{'msg':'added','collection':'c','id':'a','fields':{'v':{'$escape':{'$date':1}}}}";
        check(&added, true, told);
        assert_eq!(
            result("m", Ok(r#"{"$binary":"x"}"#)),
            r#"{"msg":"result","id":"m","result":{"$escape":{"$binary":"x"}}}"#
        );
    }

    #[test]
    fn a_refusal_says_what_a_client_of_meteor_expects() {
        let refusal = Refusal::from(Problem::invalid("it is 1 to 100").field("per_page"));
        let message: Value = serde_json::from_str(&nosub("s", Some(&refusal))).unwrap();
        assert_eq!(message["error"]["error"], 400);
        assert_eq!(message["error"]["message"], "it is 1 to 100 [400]");
        assert_eq!(message["error"]["details"]["field"], "per_page");
        assert_eq!(message["error"]["errorType"], "Meteor.Error");
    }

    #[test]
    fn a_message_that_is_not_understood_is_sent_back_if_that_is_possible() {
        assert_eq!(error("why", "["), r#"{"msg":"error","reason":"why"}"#);
        let with = error("why", r#"{"msg":"sub"}"#);
        assert_eq!(with, r#"{"msg":"error","offendingMessage":{"msg":"sub"},"reason":"why"}"#);
        assert!(!error("why", &format!("\"{}\"", "x".repeat(2000))).contains("offending"));
    }
}
