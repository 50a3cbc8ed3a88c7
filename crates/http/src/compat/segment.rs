//! Segment's libraries, with `host` changed and a key of the game as the write key.

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::response::Response;
use decode::capture::segment::translate_as;
use hyper::Request;
use hyper::header::{AUTHORIZATION, HeaderMap};
use hyper::http::request::Parts;
use model::batch::Endpoint;

use super::capture::{access, answer, take, untranslatable};
use crate::api::commands::Local;
use crate::api::events;
use crate::body;
use crate::problem::Problem;
use axum::{Router, routing};

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new()
        .route("/v1/batch", routing::post(batch))
        .route("/v1/track", routing::post(track))
        .route("/v1/identify", routing::post(identify))
        .route("/v1/page", routing::post(page))
        .route("/v1/screen", routing::post(screen))
        .route("/v1/group", routing::post(group))
        .route("/v1/alias", routing::post(alias))
}

/// A handler for each kind of call that has a route of its own.
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident: $kind:expr,)*) => {
        $(
            $(#[$doc])*
            pub async fn $name(
                State(local): State<Local>,
                ConnectInfo(peer): ConnectInfo<SocketAddr>,
                request: Request<Body>,
            ) -> Response {
                call(&local, peer, request, $kind).await
            }
        )*
    };
}

calls! {
    /// Calls of any kind, each with its `type`.
    batch: None,
    /// Something happened.
    track: Some("track"),
    /// Who somebody is.
    identify: Some("identify"),
    /// A page was seen.
    page: Some("page"),
    /// A screen was seen.
    screen: Some("screen"),
    /// Somebody belongs to a group.
    group: Some("group"),
    /// An id belongs to somebody.
    alias: Some("alias"),
}

async fn call(local: &Local, peer: SocketAddr, request: Request<Body>, kind: Option<&str>) -> Response {
    let (head, mut incoming) = request.into_parts();
    let taken = taken(local, &head, &mut incoming, peer, kind).await;
    answer(local, taken, r#"{"success":true}"#)
}

async fn taken(
    local: &Local,
    head: &Parts,
    incoming: &mut Body,
    peer: SocketAddr,
    kind: Option<&str>,
) -> Result<(), Problem> {
    let bytes = body::read(&head.headers, incoming, body::Limits::EVENTS).await?;
    let told = translate_as(&bytes, kind).map_err(untranslatable)?;
    let named = basic(&head.headers).or_else(|| told.key.clone());
    let access = access(local, head, peer, named.as_deref())?;
    take(local, head, peer, access, Endpoint::Segment, &told).await
}

/// The user of `Authorization: Basic`, which is the write key; the password is empty.
fn basic(headers: &HeaderMap) -> Option<String> {
    let encoded = events::text(headers, AUTHORIZATION).strip_prefix("Basic ")?;
    let pair = String::from_utf8(decode::base64::decode(encoded.trim())?).ok()?;
    let key = pair.split_once(':').map_or(&pair[..], |(user, _)| user);
    (!key.is_empty()).then(|| key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_write_key_is_the_user_without_a_password() {
        let check = |value: &str, expected: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().expect("a header"));
            assert_eq!(basic(&headers).as_deref(), expected, "{value}");
        };
        check("Basic cG1fcGtfeDo=", Some("pm_pk_x"));
        check("Basic cG1fcGtfeA==", Some("pm_pk_x"));
        check("Basic Og==", None);
        check("Basic !", None);
        check("Bearer pm_pk_x", None);
    }
}
