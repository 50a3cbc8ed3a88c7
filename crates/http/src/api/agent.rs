//! `POST /v1/agent/readings`: what `playmeter agent` read on a host.
//!
//! Readings are points in InfluxDB's line protocol, and become samples like any others. What is particular is that
//! nobody has to prepare the game: two dimensions tell hosts and their parts apart, and are declared when they come.

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::response::{IntoResponse, Response};
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use model::batch::{Endpoint, KeyClass};

use super::commands::Local;
use super::openapi::shapes;
use crate::auth;
use crate::body;
use crate::compat::influx::points;
use crate::problem::Problem;
use axum::{Router, routing};
use pipeline::catalog::{Access, Catalog, CatalogError, Scope, SettingsChange};
use pipeline::time::now_s;

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new().route("/v1/agent/readings", routing::post(write))
}

/// The dimensions of readings: a host, and a part of one host, such as a disk.
///
/// Declared dimensions are in no combination, so a part's value has its host in front: `web-1/sda`.
pub const DIMENSIONS: [&str; 2] = ["host", "host_part"];

/// Takes readings of hosts: points in InfluxDB's line protocol, with the tags `host` and `host_part`.
///
/// Both become dimensions of the game if they are none, for which it needs room. The answer comes when what was
/// accepted is durable. Lines that cannot be read are counted and left out; 400 says that there was nothing else.
#[utoipa::path(
    post, path = "/v1/agent/readings", operation_id = "write_readings", tag = "events",
    security(("secret_key" = [])),
    params(
        ("precision" = Option<String>, Query, description = "Of times: `ns` (default), `us`, `ms`, `s`, `m`, `h`."),
    ),
    request_body(content = String, content_type = "text/plain", example = json!("host.cpu,host=web-1 value=12.5")),
    responses(
        (status = 204, description = "Taken, as far as it could be read."),
        (status = 400, description = "Nothing could be read.", body = shapes::Problem),
        (status = 401, description = "No key, or one that is not valid.", body = shapes::Problem),
        (status = 409, description = "The game has as many dimensions as it can have.", body = shapes::Problem),
        (status = 503, description = "Cannot be made durable now; see Retry-After.", body = shapes::Problem),
    ),
)]
pub async fn write(
    State(local): State<Local>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request<Body>,
) -> Response {
    let (head, mut incoming) = request.into_parts();
    match take(&local, &head, &mut incoming, peer).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(problem) => {
            local.shared.requests.refused(&problem);
            body::discard(&head.headers, incoming, &problem);
            problem.into_response()
        }
    }
}

async fn take(local: &Local, head: &Parts, incoming: &mut Body, peer: SocketAddr) -> Result<(), Problem> {
    let access = declared(&local.shared.catalog, access(&local.shared.catalog, head)?)?;
    points(local, &access, head, incoming, (Endpoint::Agent, peer)).await
}

fn access(catalog: &Catalog, head: &Parts) -> Result<Access, Problem> {
    let access = auth::by_key(catalog, &head.headers, head.uri.query(), now_s())?;
    let access = access.ok_or_else(|| Problem::key("send `Authorization: Bearer KEY`"))?;
    let access = auth::allow(access, Scope::EventsWrite)?;
    if access.class == KeyClass::Public {
        return Err(Problem::scope("readings come from hosts of your own: send a secret key"));
    }
    Ok(access)
}

/// The same access to a game that has the dimensions.
fn declared(catalog: &Catalog, mut access: Access) -> Result<Access, Problem> {
    let has = |name: &&str| access.game.settings.dimensions.iter().any(|dimension| dimension.name == **name);
    if !DIMENSIONS.iter().all(has) {
        let declare = DIMENSIONS.map(str::to_owned).to_vec();
        let change = SettingsChange { declare, ..SettingsChange::default() };
        let game = catalog.set_game(&access.game.id, change);
        access.game = game.map_err(|refused| problem(&refused))?.into();
    }
    Ok(access)
}

/// A game without room stays so; a disk without room is tried again.
fn problem(refused: &CatalogError) -> Problem {
    let why = format!("readings need the dimensions {}: {refused}", DIMENSIONS.join(" and "));
    match refused {
        CatalogError::NotWritten(_) => Problem::disk_full(why).retry_after_s(5),
        _ => Problem::conflict(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalog_that_cannot_be_written_now_is_tried_again_and_a_full_game_is_not() {
        let not_written = problem(&CatalogError::NotWritten("no space left".into())).into_response();
        assert_eq!(not_written.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            not_written.headers().get("retry-after").map(|seconds| seconds.as_bytes()),
            Some(&b"5"[..])
        );
        let full = CatalogError::Invalid { field: "dimension", message: "there are 16".into() };
        assert_eq!(problem(&full).into_response().status(), StatusCode::CONFLICT);
    }
}
