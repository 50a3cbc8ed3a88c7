//! `GET /openapi.json`: the API in OpenAPI 3.1, generated from the handlers. The dashboard has a page that shows it.

pub(crate) mod schemas;

mod complete;

use std::sync::LazyLock;

use axum::response::Response;
use axum::{Router, routing};
use hyper::header::HeaderMap;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::assets::Asset;
use super::{
    achievements, alerts, boards, cohorts, dimensions, events, experiments, exports, feed, flows, health,
    levels, load, metrics, monitor, people, player_profile, players, privacy, query, questions, saved, sql,
    subscriptions, surveys, vars, watch,
};
use crate::RuntimeState;

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new().route("/openapi.json", routing::get(get))
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Playmeter",
        description = "Realtime analytics and live-ops for games. The credential determines the game. \
                       Errors are problem documents (RFC 9457) that name the invalid field. \
                       A request above a limit gets 429 with `Retry-After`, and the name of the limit in `field`; \
                       503 with `Retry-After` means that the server is busy.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    modifiers(&SecuritySchemes),
    paths(
        events::handle, events::receipt, query::get, query::post, load::get, dimensions::get, watch::get, subscriptions::get, people::me, people::sign_out, metrics::get,
        monitor::get, health::alive, health::ready,
    ),
    components(schemas(schemas::ProblemDocument, schemas::EventBody)),
)]
struct PlaymeterApi;

struct SecuritySchemes;

impl Modify for SecuritySchemes {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let components = description.components.get_or_insert_default();
        let bearer = || SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        components.add_security_scheme("public_key", bearer());
        components.add_security_scheme("secret_key", bearer());
        let cookie = SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::new("playmeter")));
        components.add_security_scheme("sign_in", cookie);
    }
}

static JSON: LazyLock<String> = LazyLock::new(|| {
    let mut description = PlaymeterApi::openapi();
    description.merge(liveops_description());
    description.merge(flows::FlowsApi::openapi());
    description.merge(super::collectors::CollectorsApi::openapi());
    description.merge(super::import::ImportApi::openapi());
    description.merge(super::games::GamesApi::openapi());
    description.merge(questions::QuestionsApi::openapi());
    description.merge(sql::SqlApi::openapi());
    description.merge(exports::ExportsApi::openapi());
    description.merge(player_profile::PlayerProfileApi::openapi());
    description.merge(cohorts::CohortPreviewApi::openapi());
    description.merge(experiments::ExperimentsApi::openapi());
    description.merge(alerts::AlertsApi::openapi());
    let mut description = serde_json::to_value(&description).expect("the description has only string keys");
    complete::complete(&mut description);
    description.to_string()
});

static LIVEOPS_JSON: LazyLock<String> =
    LazyLock::new(|| liveops_description().to_json().expect("the description has only string keys"));

fn liveops_description() -> utoipa::openapi::OpenApi {
    let mut description = achievements::AchievementsApi::openapi();
    for part in [
        boards::BoardsApi::openapi(),
        cohorts::CohortsApi::openapi(),
        feed::FeedApi::openapi(),
        levels::LevelsApi::openapi(),
        players::PlayerSessionsApi::openapi(),
        privacy::PrivacyApi::openapi(),
        saved::SavedApi::openapi(),
        surveys::SurveysApi::openapi(),
        vars::VariablesApi::openapi(),
    ] {
        description.merge(part);
    }
    description
}

/// Returns the description of the live-ops operations as JSON.
pub(crate) fn liveops_json() -> &'static str {
    &LIVEOPS_JSON
}

static FILE: LazyLock<Asset> = LazyLock::new(|| Asset::generated("openapi.json", JSON.as_bytes()));

/// Returns the OpenAPI description, compressed if the client accepts that.
pub(crate) async fn get(headers: HeaderMap) -> Response {
    FILE.respond(&headers, "no-cache")
}
