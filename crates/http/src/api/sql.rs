//! `POST /v1/sql`: queries in SQL over the raw events of the key's game.
//!
//! A query waits for a place, then what is in no file yet is written to temporary files, then a worker process runs it
//! and its answer is passed on as it comes. The worker is killed when the client leaves.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::StreamBody;
use hyper::Request;
use hyper::body::Frame;
use hyper::header::{ACCEPT, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use model::query::QueryStopped;
use pipeline::archiver::{GameFiles, GameFilesFailure};
use pipeline::catalog::{Access, Scope};
use pipeline::time::now_s;
use serde::Deserialize;
use sql::{FileFormat, SqlAnswer, SqlError, SqlFormat, SqlQuery, TableFile, Tables};
use tracing::{error, warn};
use utoipa::{OpenApi, ToSchema};

use super::json::from_json;
use super::openapi::schemas;
use super::query::{run_bounded, stopped_problem};
use super::questions::scan_problem;
use crate::auth::{Credentials, allow};
use crate::body;
use crate::client_stream::ClientPresence;
use crate::problem::Problem;
use crate::{AppState, RuntimeState};

/// Limit for a body.
const BODY_BYTES_MAX: usize = 64 << 10;
/// An answer that is shorter is sent as a whole.
const WHOLE_BYTES_MAX: usize = 64 << 10;

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new().route("/v1/sql", routing::post(run))
}

/// The operations of this module in the OpenAPI description.
#[derive(OpenApi)]
#[openapi(paths(run))]
pub(crate) struct SqlApi;

/// A query in SQL.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SqlRequest {
    /// One statement that reads the tables `events`, `sessions`, `players` and `scores`, in DuckDB's dialect.
    sql: String,
    /// Rows after which the answer is cut. By default, and at most, `sql.rows_max` of the settings.
    #[schema(minimum = 1)]
    rows_max: Option<u64>,
    /// Seconds that the query may take. By default, and at most, `sql.timeout_s` of the settings.
    #[schema(minimum = 1)]
    timeout_s: Option<u64>,
}

/// Runs a query in SQL over the game's raw events, sessions, players and scores.
///
/// The answer includes everything that was acknowledged before the query. `format` in the URL (`json`, `ndjson`, `csv`,
/// `arrow`) or `Accept` selects the format. An answer that cannot be completed ends with a broken connection.
#[utoipa::path(
    post, path = "/v1/sql", operation_id = "sql", tag = "analytics", security(("secret_key" = [])),
    request_body(content = SqlRequest, example = json!({
        "sql": "SELECT event, count(*) AS n FROM events GROUP BY event ORDER BY n DESC", "rows_max": 100,
    })),
    responses(
        (status = 200, description = "Columns and rows, or the rows as NDJSON, CSV or Arrow.", body = schemas::SqlResult),
        (status = 400, description = "The statement is wrong or does more than read; `field` names the field.", body = schemas::ProblemDocument),
        (status = 422, description = "The query needs more memory than it may use.", body = schemas::ProblemDocument),
        (status = 429, description = "Too many queries of the game are waiting; see Retry-After.", body = schemas::ProblemDocument),
        (status = 501, description = "The server has no library for SQL, or cannot isolate queries.", body = schemas::ProblemDocument),
        (status = 503, description = "The query took too long, or the server is busy; see Retry-After.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn run(
    State(shared): State<Arc<AppState>>,
    request: Request<Body>,
) -> Result<Response, Problem> {
    let (head, mut incoming) = request.into_parts();
    let read = read(&shared, &head, &mut incoming).await;
    let (access, query) = match read {
        Ok(read) => read,
        Err(problem) => {
            body::discard(&head.headers, incoming, &problem);
            return Err(problem);
        }
    };
    let answer = answer(&shared, &access, query);
    match head.extensions.get::<ClientPresence>() {
        None => answer.await,
        Some(presence) => tokio::select! {
            answer = answer => answer,
            () = presence.wait_until_left() => Err(stopped_problem(QueryStopped::Cancelled)),
        },
    }
}

async fn read(shared: &AppState, head: &Parts, body: &mut Body) -> Result<(Access, SqlQuery), Problem> {
    let access = Credentials::from(head).authorize_read(&shared.catalog, now_s())?;
    let access = if access.may(Scope::Sql) { access } else { allow(access, Scope::Query)? };
    let format = format(head)?;
    let body = body::collect(head, body, BODY_BYTES_MAX).await?;
    let SqlRequest { sql, rows_max, timeout_s } = from_json(&body)?;
    if sql.trim().is_empty() {
        return Err(Problem::invalid("must not be empty").field("sql"));
    }
    let settings = shared.sql.settings();
    let rows_max = within("rows_max", rows_max, settings.rows_max)?;
    let timeout_s = within("timeout_s", timeout_s, settings.timeout_max.as_secs())?;
    Ok((access, SqlQuery { sql, format, rows_max, timeout: Duration::from_secs(timeout_s) }))
}

fn within(field: &str, value: Option<u64>, max: u64) -> Result<u64, Problem> {
    match value {
        None => Ok(max),
        Some(value) if (1..=max).contains(&value) => Ok(value),
        Some(_) => Err(Problem::invalid(format!("must be between 1 and {max}")).field(field)),
    }
}

/// Returns the format that the URL or the header `Accept` names.
fn format(head: &Parts) -> Result<SqlFormat, Problem> {
    let mut format = None;
    for (name, value) in crate::query_string::pairs(head.uri.query().unwrap_or_default())? {
        if name != "format" {
            continue;
        }
        let named = match value.as_str() {
            "json" => SqlFormat::Json,
            "ndjson" => SqlFormat::Ndjson,
            "csv" => SqlFormat::Csv,
            "arrow" => SqlFormat::Arrow,
            _ => return Err(Problem::invalid("must be json, ndjson, csv or arrow").field("format")),
        };
        if format.replace(named).is_some() {
            return Err(Problem::invalid("occurs more than once").field("format"));
        }
    }
    Ok(format.unwrap_or_else(|| accepted_format(&head.headers)))
}

fn accepted_format(headers: &HeaderMap) -> SqlFormat {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match accept {
        accept if accept.contains("text/csv") => SqlFormat::Csv,
        accept if accept.contains("ndjson") => SqlFormat::Ndjson,
        accept if accept.contains("arrow.stream") => SqlFormat::Arrow,
        _ => SqlFormat::Json,
    }
}

/// Runs a query over everything that was acknowledged before it.
async fn answer(shared: &Arc<AppState>, access: &Access, query: SqlQuery) -> Result<Response, Problem> {
    let game = access.game.number;
    let (format, with_scores) = (query.format, may_read_scores(&query.sql));
    let offset = shared.log.durable_until();
    // What is to be read is prepared when there is a worker for it, so that no files wait.
    let admitted = shared.sql.admit(&access.game.id, query).await.map_err(sql_problem)?;
    shared.views.caught_up(offset).await?;
    let rows = shared.archiver.rows(game, offset).await?;
    let files =
        run_bounded(shared, game, move |control| rows.write(with_scores, control).map_err(files_problem))
            .await?;
    let tables = tables(&files)?;
    // Not with the body: a client that reads slowly must not keep files from an erasure.
    let mut answer = admitted.keep(files).run(tables).await.map_err(sql_problem)?;
    // A short answer is complete before the status is sent, so that its failure has one of its own.
    let mut first = Vec::new();
    let is_whole = loop {
        match answer.next().await.map_err(sql_problem)? {
            None => break true,
            Some(bytes) => first.extend_from_slice(&bytes),
        }
        if first.len() >= WHOLE_BYTES_MAX {
            break false;
        }
    };
    let content_type = match format {
        SqlFormat::Json => "application/json",
        SqlFormat::Ndjson => "application/x-ndjson",
        SqlFormat::Csv => "text/csv; charset=utf-8",
        SqlFormat::Arrow => "application/vnd.apache.arrow.stream",
    };
    let headers = [(CONTENT_TYPE, content_type), (CACHE_CONTROL, "no-store")];
    let body = if is_whole { Body::from(first) } else { stream(first.into(), answer) };
    let mut response = (headers, body).into_response();
    if format == SqlFormat::Csv {
        let name = HeaderValue::from_static("attachment; filename=\"sql.csv\"");
        response.headers_mut().insert(CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

/// Returns whether a statement may read the table of scores, whose rows are written for each query that does. A name
/// that is put together is the argument of `query` or `query_table`.
fn may_read_scores(sql: &str) -> bool {
    let sql = sql.to_ascii_lowercase();
    sql.contains("scores") || sql.contains("query") || sql.contains("show") || sql.contains("duckdb_")
}

fn tables(files: &GameFiles) -> Result<Tables, Problem> {
    let files_of = |paths: &[PathBuf], format| -> Result<Vec<TableFile>, Problem> {
        let file = |path: &PathBuf| match std::path::absolute(path) {
            // The worker runs in another folder.
            Ok(path) => Ok(TableFile { path, format }),
            Err(error) => Err(Problem::internal(error.to_string())),
        };
        paths.iter().map(file).collect()
    };
    Ok(Tables {
        events: files_of(&files.events, FileFormat::Parquet)?,
        scores: files_of(&files.scores, FileFormat::Ndjson)?,
        hidden_players: files.hidden_players.clone(),
        ..Tables::default()
    })
}

/// Returns a body with this piece and the rest of an answer. An answer that fails breaks the connection. The worker is
/// killed when the body is dropped, or at the deadline.
fn stream(first: Bytes, answer: SqlAnswer) -> Body {
    let next = async |state: Option<SqlAnswer>| {
        let mut answer = state?;
        match answer.next().await {
            Ok(Some(bytes)) => Some((Ok(Frame::data(bytes)), Some(answer))),
            Ok(None) => None,
            Err(failure) => {
                warn!(%failure, "an answer of a query in SQL was cut short");
                Some((Err(std::io::Error::other("the answer was cut short")), None))
            }
        }
    };
    let first = futures_util::stream::iter([Ok(Frame::data(first))]);
    Body::new(StreamBody::new(first.chain(futures_util::stream::unfold(Some(answer), next))))
}

fn files_problem(failure: GameFilesFailure) -> Problem {
    match failure {
        GameFilesFailure::DiskFull => Problem::disk_full(failure.to_string()).retry_after_s(10),
        GameFilesFailure::TooManyScores => Problem::limit_reached(failure.to_string()),
        GameFilesFailure::Scan(failure) => scan_problem(failure),
        GameFilesFailure::Disk(error) => {
            error!(%error, "temporary files for a query in SQL cannot be written");
            Problem::internal("temporary files cannot be written; the log of the server says why")
        }
    }
}

fn sql_problem(failure: SqlError) -> Problem {
    match failure {
        SqlError::LibraryMissing { .. }
        | SqlError::LibraryUnsuitable { .. }
        | SqlError::WorkerMissing { .. }
        | SqlError::NotIsolated(_) => Problem::sql_unavailable(failure.to_string()),
        SqlError::GameBusy { .. } => Problem::quota_exceeded(failure.to_string()).retry_after_s(1),
        SqlError::Busy | SqlError::Cancelled => Problem::overloaded(failure.to_string()).retry_after_s(1),
        SqlError::Statement { ref message, position } => {
            let at =
                position.map_or_else(String::new, |bytes| format!(" (at byte {bytes} of the statement)"));
            Problem::invalid(format!("{message}{at}")).field("sql")
        }
        SqlError::NotAllowed(message) => Problem::invalid(message).field("sql"),
        SqlError::Timeout { .. } => Problem::query_timeout(failure.to_string()).retry_after_s(1),
        SqlError::Memory { .. } => Problem::limit_reached(failure.to_string()),
        SqlError::Files(_) | SqlError::WorkerDied(_) => {
            error!(%failure, "a query in SQL failed");
            Problem::internal("the query failed; the log of the server says why")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_prepared_for_statements_that_may_read_them() {
        for sql in ["SELECT * FROM \"Scores\"", "FROM query_table('sc' || 'ores')", "SHOW ALL TABLES"] {
            assert!(may_read_scores(sql), "{sql}");
        }
        assert!(!may_read_scores("SELECT count(*) FROM events"));
    }
}
