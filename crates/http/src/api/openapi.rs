//! `GET /openapi.json`: the routes in OpenAPI 3.1, made from the handlers. The dashboard has a page to read it.

pub mod shapes;

use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::{
    achievements, boards, dimensions, events, feed, flows, health, levels, load, metrics, monitor, people,
    players, privacy, query, subscriptions, surveys, vars, watch,
};
use crate::api::commands::Local;
use axum::{Router, routing};

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new().route("/openapi.json", routing::get(get))
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Playmeter",
        description = "Realtime analytics and live-ops for games. The game comes from the credential alone. \
                       Errors are problem documents (RFC 9457) that name the field.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    modifiers(&Credentials),
    paths(
        events::handle, query::get, query::post, load::get, dimensions::get, watch::get, subscriptions::get, people::me, people::sign_out, metrics::get,
        monitor::get, health::alive, health::ready,
    ),
    components(schemas(shapes::Problem)),
)]
struct Docs;

struct Credentials;

impl Modify for Credentials {
    fn modify(&self, docs: &mut utoipa::openapi::OpenApi) {
        let components = docs.components.get_or_insert_default();
        let bearer = || SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        components.add_security_scheme("public_key", bearer());
        components.add_security_scheme("secret_key", bearer());
        let cookie = SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::new("playmeter")));
        components.add_security_scheme("sign_in", cookie);
    }
}

static JSON: LazyLock<String> = LazyLock::new(|| {
    let mut docs = Docs::openapi();
    docs.merge(of_liveops());
    docs.merge(flows::Docs::openapi());
    docs.merge(super::collectors::Docs::openapi());
    docs.merge(super::import::Docs::openapi());
    docs.to_json().expect("the description has text keys")
});

static LIVEOPS: LazyLock<String> =
    LazyLock::new(|| of_liveops().to_json().expect("the description has text keys"));

fn of_liveops() -> utoipa::openapi::OpenApi {
    let mut docs = achievements::Docs::openapi();
    for part in [
        boards::Docs::openapi(),
        feed::Docs::openapi(),
        levels::Docs::openapi(),
        players::Docs::openapi(),
        privacy::Docs::openapi(),
        surveys::Docs::openapi(),
        vars::Docs::openapi(),
    ] {
        docs.merge(part);
    }
    docs
}

/// The description of live-ops alone.
pub fn liveops() -> &'static str {
    &LIVEOPS
}

/// Answers with the description.
pub async fn get() -> Response {
    ([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-cache")], JSON.as_str()).into_response()
}
