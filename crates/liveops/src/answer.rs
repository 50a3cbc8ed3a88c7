//! What becomes of a command: an answer, or a refusal with its reason.

use serde::{Deserialize, Serialize};

/// What the caller is told of a command that was decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// As in HTTP: 200, 201, or 204 without a body.
    pub status: u16,
    /// JSON text; empty with 204.
    pub json: String,
}

impl Answer {
    /// 200 with this body.
    pub fn ok(body: &impl Serialize) -> Answer {
        Answer::with(200, body)
    }

    /// 201 with this body.
    pub fn created(body: &impl Serialize) -> Answer {
        Answer::with(201, body)
    }

    /// 204.
    pub fn nothing() -> Answer {
        Answer { status: 204, json: String::new() }
    }

    fn with(status: u16, body: &impl Serialize) -> Answer {
        let json = serde_json::to_string(body).expect("answers are made of text keys and finite numbers");
        Answer { status, json }
    }
}

/// Why a command changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{detail}")]
pub struct Refusal {
    /// What kind of refusal it is.
    pub kind: Kind,
    /// The field that is wrong.
    pub field: Option<String>,
    /// A sentence for people.
    pub detail: String,
}

/// The kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A field has a value that it may not have.
    Invalid,
    /// The caller may not do this.
    Forbidden,
    /// There is nothing of this name, or it is another game's.
    NotFound,
    /// It does not fit what is there: another version, another body under the same key.
    Conflict,
    /// A limit on how much there may be.
    TooMany,
    /// The signature is no longer good.
    Unsigned,
}

impl Refusal {
    /// A field has a value that it may not have.
    pub fn invalid(field: impl Into<String>, detail: impl Into<String>) -> Refusal {
        Refusal { kind: Kind::Invalid, field: Some(field.into()), detail: detail.into() }
    }

    /// The caller may not do this.
    pub fn forbidden(detail: impl Into<String>) -> Refusal {
        Refusal { kind: Kind::Forbidden, field: None, detail: detail.into() }
    }

    /// There is nothing of this name.
    pub fn not_found(detail: impl Into<String>) -> Refusal {
        Refusal { kind: Kind::NotFound, field: None, detail: detail.into() }
    }

    /// It does not fit what is there.
    pub fn conflict(detail: impl Into<String>) -> Refusal {
        Refusal { kind: Kind::Conflict, field: None, detail: detail.into() }
    }

    /// There may not be more of these.
    pub fn too_many(detail: impl Into<String>) -> Refusal {
        Refusal { kind: Kind::TooMany, field: None, detail: detail.into() }
    }
}
