//! Headers for browsers: calls from other origins, and the security headers of every response.

use axum::body::Body;
use axum::response::IntoResponse;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Response};

use crate::problem::Problem;

/// Returns true if pages of other origins may call this path: with a key, never with a sign-in.
pub(crate) fn is_open(path: &str) -> bool {
    const PREFIXES: [&str; 13] = [
        "/v1/",
        "/sdk/",
        "/v2/",
        "/e",
        "/i/v0/e",
        "/capture",
        "/batch",
        "/flags",
        "/decide",
        "/array/",
        "/remote_configs/",
        "/api/event",
        "/api/send",
    ];
    // These are for the pages of this server only.
    const CLOSED: [&str; 3] = ["/v1/me", "/v1/sign-out", "/v1/games"];
    !CLOSED.contains(&path)
        && !path.starts_with("/v1/games/")
        && PREFIXES.iter().any(|prefix| match path.strip_prefix(prefix) {
            Some(rest) => prefix.ends_with('/') || matches!(rest, "" | "/"),
            None => false,
        })
}

/// Sets the security headers of every response.
pub(crate) fn set_security_headers(headers: &mut HeaderMap) {
    const POLICY: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; \
                          form-action 'self'; frame-ancestors 'none'";
    const ALWAYS: [(HeaderName, &str); 3] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// The request headers that a page of another origin may send.
const REQUEST_HEADERS: &str = "Authorization, Content-Type, Content-Encoding, Idempotency-Key, If-None-Match, \
                               Last-Event-ID, X-Playmeter-Signature";
/// The response headers that a page of another origin may read.
const RESPONSE_HEADERS: &str = "Date, ETag, Playmeter-Quota-Used, Playmeter-Vars-Version, Retry-After";

/// Responds to a preflight request: these methods are allowed, without credentials.
pub(crate) fn preflight(methods: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = hyper::StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    allow_any_origin(headers);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(REQUEST_HEADERS));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    response
}

pub(crate) fn allow_any_origin(headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(RESPONSE_HEADERS));
}

/// Returns the response to a request that is not a POST.
pub(crate) fn reject_unless_post(method: &Method) -> Option<Response<Body>> {
    match *method {
        Method::POST => None,
        Method::OPTIONS => Some(preflight("POST, OPTIONS")),
        _ => {
            let problem = Problem::method_not_allowed("send events with POST");
            let mut response = problem.into_response();
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST, OPTIONS"));
            Some(response)
        }
    }
}
