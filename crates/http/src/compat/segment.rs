//! Endpoints for Segment libraries: change `host` and use a key of the game as the write key.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::{Router, routing};
use hyper::Request;
use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::http::request::Parts;

use decode::capture::segment::translate_as;
use model::batch::Endpoint;

use super::capture::{authorize, respond, submit, translate_problem};
use crate::RuntimeState;
use crate::api::events;
use crate::body;
use crate::problem::Problem;

pub(super) fn routes() -> Router<RuntimeState> {
    Router::new()
        .route("/v1/batch", routing::post(batch))
        .route("/v1/track", routing::post(track))
        .route("/v1/identify", routing::post(identify))
        .route("/v1/page", routing::post(page))
        .route("/v1/screen", routing::post(screen))
        .route("/v1/group", routing::post(group))
        .route("/v1/alias", routing::post(alias))
}

/// Defines one handler per kind of call.
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident: $kind:expr,)*) => {
        $(
            $(#[$doc])*
            async fn $name(
                State(runtime): State<RuntimeState>,
                request: Request<Body>,
            ) -> Response {
                call(&runtime, request, $kind).await
            }
        )*
    };
}

calls! {
    /// Accepts calls of any kind, each with its `type`.
    batch: None,
    /// Accepts an event.
    track: Some("track"),
    /// Accepts the traits of a user.
    identify: Some("identify"),
    /// Accepts a page view.
    page: Some("page"),
    /// Accepts a screen view.
    screen: Some("screen"),
    /// Accepts the group of a user.
    group: Some("group"),
    /// Accepts another id of a user.
    alias: Some("alias"),
}

async fn call(runtime: &RuntimeState, request: Request<Body>, kind: Option<&str>) -> Response {
    let (head, mut incoming) = request.into_parts();
    let result = capture(runtime, &head, &mut incoming, kind).await;
    respond(runtime, result, r#"{"success":true}"#)
}

async fn capture(
    runtime: &RuntimeState,
    head: &Parts,
    incoming: &mut Body,
    kind: Option<&str>,
) -> Result<(), Problem> {
    let bytes = body::read(head, incoming, body::BodyLimits::EVENTS).await?;
    let translated = translate_as(&bytes, kind).map_err(translate_problem)?;
    let key = basic_user(&head.headers).or_else(|| translated.key.clone());
    let access = authorize(runtime, head, key.as_deref())?;
    submit(runtime, head, access, Endpoint::Segment, &translated).await
}

/// Returns the user of `Authorization: Basic`, which is the write key. The password is empty.
fn basic_user(headers: &HeaderMap) -> Option<String> {
    let encoded = events::header_text(headers, AUTHORIZATION).strip_prefix("Basic ")?;
    let pair = String::from_utf8(decode::base64::decode(encoded.trim())?).ok()?;
    let key = pair.split_once(':').map_or(&pair[..], |(user, _)| user);
    (!key.is_empty()).then(|| key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_key_is_the_basic_auth_user() {
        let check = |value: &str, expected: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().expect("valid header value"));
            assert_eq!(basic_user(&headers).as_deref(), expected, "{value}");
        };
        check("Basic cG1fcGtfeDo=", Some("pm_pk_x"));
        check("Basic cG1fcGtfeA==", Some("pm_pk_x"));
        check("Basic Og==", None);
        check("Basic !", None);
        check("Bearer pm_pk_x", None);
    }
}
