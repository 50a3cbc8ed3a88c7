//! The errors of whole requests, as problem documents (RFC 9457).

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use serde::Serialize;

use model::query::QueryError;
use pipeline::catalog::GameArchived;
use pipeline::views::ViewsBehind;

/// The reason why a request was rejected: a kind for programs and a sentence for people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Problem {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    /// The field, parameter or header at fault.
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
    /// The body or a parameter cannot be parsed.
    malformed = 400, "malformed", "Malformed request";
    /// The value of a field is not allowed.
    invalid = 400, "invalid_field", "Invalid field";
    /// The request has no credential, or an unknown one.
    unauthorized = 401, "key", "Missing or invalid credential";
    /// The credential does not permit this request.
    forbidden = 403, "scope", "Permission denied";
    /// The game does not allow its events to be exported.
    export_off = 403, "export_off", "Export is off";
    /// The game is archived and accepts no writes.
    archived = 403, "archived", "Game archived";
    /// The signature does not match the request.
    invalid_signature = 401, "signature", "Invalid signature";
    /// The route or the addressed object does not exist.
    not_found = 404, "not_found", "Not found";
    /// The route does not support the method.
    method_not_allowed = 405, "method", "Method not allowed";
    /// The body arrived too slowly.
    body_stalled = 408, "body_stalled", "Request body timeout";
    /// The body is larger than the limit.
    too_large = 413, "too_large", "Request too large";
    /// The content type or encoding is not supported.
    unsupported = 415, "unsupported", "Unsupported content type or encoding";
    /// The request names a host that this server is not.
    misdirected = 421, "host", "Misdirected request";
    /// The query is well-formed but cannot be answered.
    limit_reached = 422, "unanswerable", "Request cannot be processed";
    /// The request conflicts with the current state.
    conflict = 409, "conflict", "Conflict";
    /// A rate limit or quota is exceeded.
    quota_exceeded = 429, "too_many", "Too many requests";
    /// The route requires a WebSocket upgrade.
    upgrade_required = 426, "upgrade", "Upgrade required";
    /// The server failed to handle the request.
    internal = 500, "internal", "Internal server error";
    /// The server has no library for SQL, or cannot isolate queries.
    sql_unavailable = 501, "sql_unavailable", "SQL is not available";
    /// The disk is full. Reads still work.
    disk_full = 503, "disk_full", "The disk is full";
    /// A queue of the server is full.
    overloaded = 503, "overloaded", "Server overloaded";
    /// The query took too long.
    query_timeout = 503, "query_timeout", "Query timeout";
    /// The server is stopping or has lost its disk.
    stopping = 503, "stopping", "Server stopping";
}

impl Problem {
    /// Names the field, parameter or header at fault.
    pub fn field(mut self, field: impl Into<String>) -> Problem {
        self.field = Some(field.into());
        self
    }

    /// Sets the `Retry-After` header, in seconds.
    pub fn retry_after_s(mut self, seconds: u32) -> Problem {
        self.retry_after_s = Some(seconds);
        self
    }

    /// Returns the HTTP status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns the sentence for people.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Formats the problem as `400 invalid_field (name)`.
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

impl From<GameArchived> for Problem {
    fn from(archived: GameArchived) -> Problem {
        Problem::archived(archived.to_string())
    }
}

impl From<ViewsBehind> for Problem {
    fn from(behind: ViewsBehind) -> Problem {
        Problem::overloaded(behind.to_string()).retry_after_s(5)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).expect("a problem has only text and numbers");
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = StatusCode::from_u16(self.status).expect("every status above is valid");
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
