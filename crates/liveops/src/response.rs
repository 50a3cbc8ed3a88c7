//! The outcome of a command: a response, or a refusal with its reason.

use serde::{Deserialize, Serialize};

/// The response to a command that was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandResponse {
    /// The HTTP status: 200, 201, 202, or 204 without a body.
    pub status: u16,
    /// The JSON body; empty with 204.
    pub json: String,
}

impl CommandResponse {
    /// Returns a 200 response with this body.
    pub fn ok(body: &impl Serialize) -> CommandResponse {
        CommandResponse::with(200, body)
    }

    /// Returns a 201 response with this body.
    pub(crate) fn created(body: &impl Serialize) -> CommandResponse {
        CommandResponse::with(201, body)
    }

    /// Returns a 202 response with this body.
    pub(crate) fn accepted(body: &impl Serialize) -> CommandResponse {
        CommandResponse::with(202, body)
    }

    /// Returns a 204 response.
    pub(crate) fn no_content() -> CommandResponse {
        CommandResponse { status: 204, json: String::new() }
    }

    /// Appends the fields of `more`, which must be an object with fields. The body must be one, too.
    pub(crate) fn with_fields(mut self, more: &impl Serialize) -> CommandResponse {
        let more = serde_json::to_string(more).expect("responses have text keys and finite numbers");
        if self.json.pop() == Some('}') && more.starts_with('{') {
            self.json.push(',');
            self.json.push_str(&more[1..]);
        }
        self
    }

    fn with(status: u16, body: &impl Serialize) -> CommandResponse {
        let json = serde_json::to_string(body).expect("responses have text keys and finite numbers");
        CommandResponse { status, json }
    }
}

/// The reason why a command changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{detail}")]
pub struct Refusal {
    /// The kind of refusal, which decides the HTTP status.
    pub kind: RefusalKind,
    /// The field that caused it.
    pub field: Option<String>,
    /// An explanation for the user.
    pub detail: String,
}

/// The kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// A field has an invalid value.
    Invalid,
    /// The sender may not do this.
    Forbidden,
    /// The object does not exist in this game.
    NotFound,
    /// The command conflicts with the state: another version, or another body under the same key.
    Conflict,
    /// A limit is reached.
    TooMany,
    /// The signature is missing, expired or was used before.
    Unsigned,
}

impl Refusal {
    /// Returns a refusal for an invalid field.
    pub fn invalid(field: impl Into<String>, detail: impl Into<String>) -> Refusal {
        Refusal { kind: RefusalKind::Invalid, field: Some(field.into()), detail: detail.into() }
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Refusal {
        Refusal { kind: RefusalKind::Forbidden, field: None, detail: detail.into() }
    }

    /// Returns a refusal for an object that does not exist.
    pub fn not_found(detail: impl Into<String>) -> Refusal {
        Refusal { kind: RefusalKind::NotFound, field: None, detail: detail.into() }
    }

    /// Returns a refusal for a command that conflicts with the state.
    pub fn conflict(detail: impl Into<String>) -> Refusal {
        Refusal { kind: RefusalKind::Conflict, field: None, detail: detail.into() }
    }

    /// Returns a refusal because a limit is reached.
    pub fn too_many(detail: impl Into<String>) -> Refusal {
        Refusal { kind: RefusalKind::TooMany, field: None, detail: detail.into() }
    }
}
