//! `POST /v1/agent/readings`: readings that `playmeter agent` took on a host.
//!
//! Readings are points in InfluxDB's line protocol and become samples like any others. The game needs no preparation:
//! the two dimensions that identify hosts and their parts are declared when the first readings arrive.

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use model::batch::{Endpoint, KeyClass};
use pipeline::catalog::{Access, Catalog, CatalogError, Scope, SettingsChange};
use pipeline::time::now_s;

use super::openapi::schemas;
use crate::RuntimeState;
use crate::auth::{self, Credentials};
use crate::body;
use crate::compat::influx::write_points;
use crate::problem::Problem;

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new().route("/v1/agent/readings", routing::post(write))
}

/// The dimensions of readings: a host, and a part of a host such as a disk.
///
/// Declared dimensions cannot be combined in a query, so the value of a part starts with its host: `web-1/sda`.
pub(crate) const DIMENSIONS: [&str; 2] = ["host", "host_part"];

/// Receives host readings: points in InfluxDB's line protocol with the tags `host` and `host_part`.
///
/// Both tags are declared as dimensions of the game if they are not declared yet; the game must have room for them. The
/// response is sent once the accepted points are durable. Invalid lines are counted and skipped; 400 means that no line
/// was valid.
#[utoipa::path(
    post, path = "/v1/agent/readings", operation_id = "write_readings", tag = "events",
    security(("secret_key" = [])),
    params(
        ("precision" = Option<String>, Query, description = "Unit of the timestamps: `ns` (default), `us`, `ms`, `s`, `m`, `h`."),
    ),
    request_body(content = String, content_type = "text/plain", example = json!("host.cpu,host=web-1 value=12.5")),
    responses(
        (status = 204, description = "Valid points are durable; invalid lines were skipped."),
        (status = 400, description = "No line was valid.", body = schemas::ProblemDocument),
        (status = 401, description = "The key is missing or invalid.", body = schemas::ProblemDocument),
        (status = 409, description = "The game has reached its limit of dimensions.", body = schemas::ProblemDocument),
        (status = 503, description = "The server cannot store data at the moment; see Retry-After.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn write(State(runtime): State<RuntimeState>, request: Request<Body>) -> Response {
    let (head, mut incoming) = request.into_parts();
    match receive(&runtime, &head, &mut incoming).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(problem) => {
            runtime.shared.rejected_requests.count(&problem);
            body::discard(&head.headers, incoming, &problem);
            problem.into_response()
        }
    }
}

async fn receive(runtime: &RuntimeState, head: &Parts, incoming: &mut Body) -> Result<(), Problem> {
    let catalog = &runtime.shared.catalog;
    let access = with_declared_dimensions(catalog, authorize(catalog, head)?)?;
    write_points(runtime, &access, head, incoming, Endpoint::Agent).await
}

fn authorize(catalog: &Catalog, head: &Parts) -> Result<Access, Problem> {
    let access = Credentials::from(head).authorize_key(catalog, now_s())?;
    let access = access.ok_or_else(|| Problem::unauthorized("send a key as `Authorization: Bearer KEY`"))?;
    let access = auth::allow(access, Scope::EventsWrite)?;
    if access.class == KeyClass::Public {
        return Err(Problem::forbidden("readings need a secret key"));
    }
    Ok(access)
}

/// Declares the dimensions of readings for the game if it does not have them.
fn with_declared_dimensions(catalog: &Catalog, mut access: Access) -> Result<Access, Problem> {
    let has = |name: &&str| access.game.settings.dimensions.iter().any(|dimension| dimension.name == **name);
    if !DIMENSIONS.iter().all(has) {
        let declare = DIMENSIONS.map(str::to_owned).to_vec();
        let change = SettingsChange { declare, ..SettingsChange::default() };
        let game = catalog.set_game(&access.game.id, change);
        access.game = game.map_err(|refused| declaration_problem(&refused))?.into();
    }
    Ok(access)
}

/// A full game stays full; a full disk is worth a retry.
fn declaration_problem(refused: &CatalogError) -> Problem {
    let detail = format!("readings need the dimensions {}: {refused}", DIMENSIONS.join(" and "));
    match refused {
        CatalogError::NotWritten(_) => Problem::disk_full(detail).retry_after_s(5),
        _ => Problem::conflict(detail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_failed_write_of_the_catalog_may_be_retried() {
        let not_written =
            declaration_problem(&CatalogError::NotWritten("no space left".into())).into_response();
        assert_eq!(not_written.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            not_written.headers().get("retry-after").map(|seconds| seconds.as_bytes()),
            Some(&b"5"[..])
        );
        let full = CatalogError::Invalid { field: "dimension", message: "there are 16".into() };
        assert_eq!(declaration_problem(&full).into_response().status(), StatusCode::CONFLICT);
    }
}
