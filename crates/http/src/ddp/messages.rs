//! The messages that the server sends.

use std::fmt::Write;

use bytes::Bytes;
use serde_json::{Value, json};

use live::documents::{DocumentChange, DocumentFields};

use super::ejson;
use crate::problem::Problem;
use crate::ws::FrameBuffer;

/// The supported version of DDP.
pub(super) const VERSION: &str = "1";

/// The error of a subscription or method: an HTTP status or a code.
pub(super) struct DdpError {
    error: Value,
    reason: String,
    details: Value,
}

impl DdpError {
    /// The changes since the position in `resume` are no longer kept.
    pub(super) fn resume_expired() -> DdpError {
        let reason = "cannot resume: these changes are no longer kept; subscribe again without `resume`";
        DdpError { error: "reload".into(), reason: reason.to_owned(), details: Value::Null }
    }

    /// The error response of a route.
    pub(super) fn from_response(status: u16, body: &[u8]) -> DdpError {
        let details: Value = serde_json::from_slice(body).unwrap_or_default();
        let reason = details["detail"].as_str().unwrap_or("the server failed").to_owned();
        DdpError { error: status.into(), reason, details }
    }

    fn json(&self) -> Value {
        let code = self.error.as_str().map_or_else(|| self.error.to_string(), str::to_owned);
        json!({
            "error": self.error,
            "reason": self.reason,
            "message": format!("{} [{code}]", self.reason),
            "details": self.details,
            "errorType": "Meteor.Error",
            "isClientSafe": true,
        })
    }
}

impl From<Problem> for DdpError {
    fn from(problem: Problem) -> DdpError {
        let details = serde_json::to_value(&problem).expect("a problem has only text and numbers");
        DdpError { error: problem.status().into(), reason: problem.detail().to_owned(), details }
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

/// The response to an invalid message. The message is included unless it is longer than 1 KiB or not JSON.
pub(super) fn error(reason: &str, offending: &str) -> String {
    const OFFENDING_BYTES_MAX: usize = 1024;
    let offending = Some(offending).filter(|text| text.len() <= OFFENDING_BYTES_MAX);
    let mut message = json!({ "msg": "error", "reason": reason });
    if let Some(offending) = offending.and_then(|text| serde_json::from_str(text).ok()) {
        message["offendingMessage"] = offending;
    }
    message.to_string()
}

pub(super) fn nosub(id: &str, error: Option<&DdpError>) -> String {
    let mut message = json!({ "msg": "nosub", "id": id });
    if let Some(error) = error {
        message["error"] = error.json();
    }
    message.to_string()
}

pub(super) fn ready(ids: &[String], epoch: &str, offset: u64) -> String {
    json!({ "msg": "ready", "subs": ids, "epoch": epoch, "offset": offset }).to_string()
}

/// The result of a method. `result` is the JSON of a response body; an empty body is omitted.
pub(super) fn result(id: &str, result: Result<&str, &DdpError>) -> String {
    let mut message = format!(r#"{{"msg":"result","id":{}"#, quoted(id));
    let _ = match result {
        Ok("") => Ok(()),
        Ok(body) => write!(message, r#","result":{}"#, ejson::escaped_text(body)),
        Err(error) => write!(message, r#","error":{}"#, error.json()),
    };
    message.push('}');
    message
}

pub(super) fn updated(id: &str) -> String {
    json!({ "msg": "updated", "methods": [id] }).to_string()
}

/// Encodes changes for all subscribers of these documents in a collection. `is_ordered` includes their positions.
pub(super) fn changes(changes: &[DocumentChange], collection: &str, is_ordered: bool, offset: u64) -> Bytes {
    let mut frames = FrameBuffer::default();
    let collection = quoted(collection);
    let mut message = String::new();
    for change in changes {
        message.clear();
        if write_change(&mut message, change, &collection, is_ordered) {
            let _ = write!(message, r#","offset":{offset}}}"#);
            frames.text(&message);
        }
    }
    frames.freeze()
}

/// Writes the message of a change without its last fields. Returns false if there is nothing to write.
fn write_change(message: &mut String, change: &DocumentChange, collection: &str, is_ordered: bool) -> bool {
    let mut head = |kind: &str, id: &str| {
        let _ = write!(message, r#"{{"msg":"{kind}","collection":{collection},"id":{}"#, quoted(id));
    };
    match change {
        DocumentChange::Added(doc, Some(before)) if is_ordered => {
            head("addedBefore", &doc.id);
            write_fields(message, &doc.fields);
            write_before(message, before.as_deref());
        }
        DocumentChange::Added(doc, _) => {
            head("added", &doc.id);
            write_fields(message, &doc.fields);
        }
        DocumentChange::Changed(id, fields, cleared) => {
            head("changed", id);
            if !fields.is_empty() {
                write_fields(message, fields);
            }
            if !cleared.is_empty() {
                let _ = write!(message, r#","cleared":{}"#, json!(cleared));
            }
        }
        DocumentChange::Moved(id, before) if is_ordered => {
            head("movedBefore", id);
            write_before(message, before.as_deref());
        }
        DocumentChange::Moved(..) => return false,
        DocumentChange::Removed(id) => head("removed", id),
    }
    true
}

fn write_fields(message: &mut String, fields: &DocumentFields) {
    message.push_str(r#","fields":{"#);
    for (index, (name, value)) in fields.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(message, "{comma}{}:{}", quoted(name), ejson::escaped_text(value.text()));
    }
    message.push('}');
}

fn write_before(message: &mut String, before: Option<&str>) {
    let _ = write!(message, r#","before":{}"#, before.map_or_else(|| "null".to_owned(), quoted));
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use live::documents::{Document, JsonText};

    use super::*;

    fn check(change: &DocumentChange, is_ordered: bool, expected: &str) {
        let mut message = String::new();
        if write_change(&mut message, change, r#""c""#, is_ordered) {
            message.push('}');
        }
        assert_eq!(message, expected.replace('\'', "\""));
    }

    fn doc(id: &str, value: &str) -> Arc<Document> {
        Arc::new(Document { id: id.into(), fields: [("v", JsonText::raw(value))].into() })
    }

    #[test]
    fn changes_are_encoded_as_ddp_messages() {
        let added = DocumentChange::Added(doc("a", "1.50"), None);
        check(&added, true, "{'msg':'added','collection':'c','id':'a','fields':{'v':1.50}}");
        let before = DocumentChange::Added(doc("x", "{}"), Some(Some("b".into())));
        let expected = "{'msg':'addedBefore','collection':'c','id':'x','fields':{'v':{}},'before':'b'}";
        check(&before, true, expected);
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
    fn plain_object_with_ejson_keys_is_escaped() {
        let added = DocumentChange::Added(doc("a", r#"{"$date":1}"#), None);
        let expected = "{'msg':'added','collection':'c','id':'a','fields':{'v':{'$escape':{'$date':1}}}}";
        check(&added, true, expected);
        assert_eq!(
            result("m", Ok(r#"{"$binary":"x"}"#)),
            r#"{"msg":"result","id":"m","result":{"$escape":{"$binary":"x"}}}"#
        );
    }

    #[test]
    fn error_has_the_fields_that_meteor_clients_expect() {
        let error = DdpError::from(Problem::invalid("must be between 1 and 100").field("per_page"));
        let message: Value = serde_json::from_str(&nosub("s", Some(&error))).unwrap();
        assert_eq!(message["error"]["error"], 400);
        assert_eq!(message["error"]["message"], "must be between 1 and 100 [400]");
        assert_eq!(message["error"]["details"]["field"], "per_page");
        assert_eq!(message["error"]["errorType"], "Meteor.Error");
    }

    #[test]
    fn invalid_message_is_included_in_the_error_if_it_is_short_json() {
        assert_eq!(error("why", "["), r#"{"msg":"error","reason":"why"}"#);
        let with = error("why", r#"{"msg":"sub"}"#);
        assert_eq!(with, r#"{"msg":"error","offendingMessage":{"msg":"sub"},"reason":"why"}"#);
        assert!(!error("why", &format!("\"{}\"", "x".repeat(2000))).contains("offending"));
    }
}
