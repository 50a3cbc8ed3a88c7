//! Errors of whole requests as RFC 9457 problem documents.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use model::query::QueryError;
use serde::Serialize;

/// Why a request was refused: a kind for programs, a sentence for people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Problem {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    /// The field, parameter or header that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    #[serde(skip)]
    retry_after_s: Option<u32>,
}

macro_rules! problems {
    ($($(#[$doc:meta])* $name:ident = $status:literal, $kind:literal, $title:literal;)*) => {
        impl Problem {
            $($(#[$doc])*
            pub fn $name(detail: impl Into<String>) -> Problem {
                let (kind, title) = (concat!("/problems/", $kind), $title);
                Problem { kind, title, status: $status, detail: detail.into(), field: None, retry_after_s: None }
            })*
        }
    };
}

problems! {
    /// The body or a parameter cannot be read.
    malformed = 400, "malformed", "The request is malformed";
    /// A field is wrong.
    invalid = 400, "invalid_field", "A field is invalid";
    /// No credential, or one that is not known.
    key = 401, "key", "The key is missing or not valid";
    /// The credential may not do this.
    scope = 403, "scope", "The key may not do this";
    /// The signature does not fit.
    signature = 401, "signature", "The signature is not valid";
    /// There is nothing of this name.
    not_found = 404, "not_found", "Not found";
    /// The route has no such method.
    method = 405, "method", "The method is not allowed here";
    /// The body came too slowly.
    body_stalled = 408, "body_stalled", "The body stalled";
    /// The body has more than the limit.
    too_large = 413, "too_large", "The request is too large";
    /// A content type or encoding that is not known.
    unsupported = 415, "unsupported", "The content type or encoding is not supported";
    /// A well-formed question without an answer here.
    unanswerable = 422, "unanswerable", "The question cannot be answered";
    /// It does not fit what is there.
    conflict = 409, "conflict", "It conflicts with what is there";
    /// More than the credential may send.
    too_many = 429, "too_many", "Too many requests";
    /// The route speaks another protocol.
    upgrade = 426, "upgrade", "Another protocol is spoken here";
    /// Something broke here.
    internal = 500, "internal", "The server failed";
    /// The disk is full; reads go on.
    disk_full = 503, "disk_full", "The disk is full";
    /// Too much is waiting.
    overloaded = 503, "overloaded", "The server is overloaded";
    /// The server is stopping or has lost its disk.
    stopping = 503, "stopping", "The server is stopping";
}

impl Problem {
    /// Names the field that is wrong.
    pub fn field(mut self, field: impl Into<String>) -> Problem {
        self.field = Some(field.into());
        self
    }

    /// Says when to try again.
    pub fn retry_after_s(mut self, seconds: u32) -> Problem {
        self.retry_after_s = Some(seconds);
        self
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The sentence for people.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// `400 invalid_field (name)`, for tests.
    #[cfg(test)]
    pub(crate) fn brief(&self) -> String {
        let field = self.field.as_ref().map_or_else(String::new, |field| format!(" ({field})"));
        format!("{} {}{field}", self.status, self.kind.trim_start_matches("/problems/"))
    }
}

impl From<QueryError> for Problem {
    fn from(error: QueryError) -> Problem {
        Problem::invalid(error.message).field(error.field)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).expect("a problem has only text and numbers");
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(self.status).expect("statuses are written above");
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
