//! `GET /v1/export/events`: the raw events of a game in pages, for programs that copy all of them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use archive::pages::{EventCursor, EventPage, PageFormat, PageRequest};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use hyper::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, HeaderValue};
use model::query::{QueryControl, QueryStopped};
use parking_lot::Mutex;
use pipeline::catalog::{Access, Scope};
use pipeline::time::{now_s, parse_time};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use utoipa::OpenApi;

use super::export_stream;
use super::openapi::schemas;
use super::query::run_bounded;
use super::questions::scan_problem;
use crate::auth::{Credentials, allow};
use crate::problem::Problem;
use crate::{AppState, RuntimeState};

/// The header with the place where the next page begins.
const NEXT_CURSOR: HeaderName = HeaderName::from_static("playmeter-next-cursor");
/// The header with the number of events.
const ROWS: HeaderName = HeaderName::from_static("playmeter-rows");
/// The header with the id of the game.
const GAME: HeaderName = HeaderName::from_static("playmeter-game");
/// Events of a page unless the request says otherwise, and at most.
const ROWS_DEFAULT: u64 = 100_000;
const ROWS_MAX: u64 = 1_000_000;
/// Pages that are sent at once, of all games. A game has one at a time.
const PAGES_MAX: usize = 2;
/// Time for a page: while it is sent, an erasure cannot be completed.
const PAGE_TIME: Duration = Duration::from_secs(300);
/// The memory that reading a page may take.
const PAGE_BYTES: usize = 256 << 20;

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new().route("/v1/export/events", routing::get(events))
}

/// The operations of this module in the OpenAPI description.
#[derive(OpenApi)]
#[openapi(paths(events))]
pub(crate) struct ExportsApi;

/// The pages that are being sent.
pub struct PagesInProgress {
    games: Arc<Mutex<HashSet<u32>>>,
    all: Arc<Semaphore>,
}

impl Default for PagesInProgress {
    fn default() -> PagesInProgress {
        PagesInProgress { games: Arc::default(), all: Arc::new(Semaphore::new(PAGES_MAX)) }
    }
}

/// A page that is being sent.
struct PageInProgress {
    game: u32,
    games: Arc<Mutex<HashSet<u32>>>,
    _permit: OwnedSemaphorePermit,
}

impl PagesInProgress {
    fn start(&self, game: u32) -> Result<PageInProgress, Problem> {
        let busy = || Problem::overloaded("other exports are running; try again").retry_after_s(1);
        let permit = Arc::clone(&self.all).try_acquire_owned().map_err(|_| busy())?;
        if !self.games.lock().insert(game) {
            let detail = "another page of the game's events is being sent; ask for one page after the other";
            return Err(Problem::quota_exceeded(detail).retry_after_s(1));
        }
        Ok(PageInProgress { game, games: Arc::clone(&self.games), _permit: permit })
    }
}

impl Drop for PageInProgress {
    fn drop(&mut self) {
        self.games.lock().remove(&self.game);
    }
}

/// Returns a page of the game's raw events.
///
/// Off until the owner enables `export` for the game. Events come by UTC day, in an order that never changes. The header
/// `Playmeter-Next-Cursor` is the `cursor` of the next page; the last page has none. Every event that was acknowledged
/// before the first page was requested is on exactly one page; later ones are on one page or on none.
#[utoipa::path(
    get, path = "/v1/export/events", operation_id = "export_events", tag = "analytics",
    security(("secret_key" = []), ("sign_in" = [])),
    params(
        ("format" = Option<String>, Query, description = "`ndjson` (default), `csv`, or `parquet`, whose pages have events of one day.", example = "ndjson"),
        ("from" = Option<String>, Query, description = "Events at or after this time, RFC 3339 or milliseconds since 1970."),
        ("to" = Option<String>, Query, description = "Events before this time, RFC 3339 or milliseconds since 1970."),
        ("cursor" = Option<String>, Query, description = "The page to return: the header `Playmeter-Next-Cursor` of the page before."),
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 1_000_000, description = "Events of the page. Default: 100000.", example = 1000),
    ),
    responses(
        (status = 200, description = "The page.", body = schemas::EventPage, content_type = "application/x-ndjson"),
        (status = 400, description = "A parameter is invalid; `field` names it.", body = schemas::ProblemDocument),
        (status = 403, description = "The key has not the scope `export`, or export is off for the game.", body = schemas::ProblemDocument),
        (status = 429, description = "Another page of the game is being sent; see Retry-After.", body = schemas::ProblemDocument),
    ),
)]
pub(crate) async fn events(
    State(shared): State<Arc<AppState>>,
    credentials: Credentials,
    request: axum::extract::RawQuery,
) -> Result<Response, Problem> {
    let access = authorize(&shared, &credentials)?;
    let request = page_request(request.0.as_deref().unwrap_or_default())?;
    let (game, format) = (access.game.number, request.format);
    let in_progress = shared.event_pages.start(game)?;
    let started = Instant::now();
    let offset = shared.log.durable_until();
    // Before the snapshot, so that an erasure that ends in between has changed what the snapshot reads.
    let reader = shared.archiver.reader();
    let request = PageRequest { hidden_players: shared.archiver.players_in_erasure(game), ..request };
    let snapshot = shared.archiver.snapshot(game, offset).await?;
    let page = run_bounded(&shared, game, move |control| {
        EventPage::plan(snapshot, request, control).map_err(scan_problem)
    })
    .await?;
    let (next, rows) = (page.next, page.rows());
    let body = export_stream::stream_within(
        PAGE_TIME,
        shared,
        (in_progress, reader),
        "events",
        move |shared, out| {
            let control = PageControl { shared, started };
            Ok(page.write(&control, &mut |bytes| out.put(bytes).map_err(std::io::Error::other))?)
        },
    );
    let (content_type, name) = match format {
        PageFormat::Ndjson => ("application/x-ndjson", "events.ndjson"),
        PageFormat::Csv => ("text/csv; charset=utf-8", "events.csv"),
        PageFormat::Parquet => ("application/vnd.apache.parquet", "events.parquet"),
    };
    let mut response = ([(CONTENT_TYPE, content_type), (CACHE_CONTROL, "no-store")], body).into_response();
    let headers = response.headers_mut();
    headers.insert(ROWS, HeaderValue::from(rows));
    let text =
        |text: String| HeaderValue::try_from(text).map_err(|error| Problem::internal(error.to_string()));
    headers.insert(CONTENT_DISPOSITION, text(format!("attachment; filename=\"{name}\""))?);
    headers.insert(GAME, text(access.game.id.clone())?);
    if let Some(next) = next {
        headers.insert(NEXT_CURSOR, text(next.to_string())?);
    }
    Ok(response)
}

fn authorize(shared: &AppState, credentials: &Credentials) -> Result<Access, Problem> {
    let access = allow(credentials.authorize_read(&shared.catalog, now_s())?, Scope::Export)?;
    if !access.game.settings.export {
        let id = &access.game.id;
        return Err(Problem::export_off(format!(
            "export is off for the game `{id}`; its owner enables it with `playmeter games set {id} --export true`, \
             or with PATCH /v1/games/{id} {{\"export\": true}}"
        )));
    }
    Ok(access)
}

/// Reads the parameters of a URL.
fn page_request(query: &str) -> Result<PageRequest, Problem> {
    let mut request = PageRequest {
        times: i64::MIN..i64::MAX,
        from: None,
        rows_max: ROWS_DEFAULT,
        format: PageFormat::Ndjson,
        hidden_players: Vec::new(),
    };
    let mut seen = HashSet::new();
    for (name, value) in crate::query_string::pairs(query)? {
        let invalid = |detail: String| Problem::invalid(detail).field(&name);
        let time = || {
            parse_time(&value)
                .ok_or_else(|| invalid("must be RFC 3339 or milliseconds since 1970".to_owned()))
        };
        match name.as_str() {
            // Authentication has read these.
            "key" | "game" => continue,
            "from" => request.times.start = time()?,
            "to" => request.times.end = time()?,
            "cursor" => {
                let cursor = value.parse::<EventCursor>().map_err(|error| invalid(error.to_string()))?;
                request.from = Some(cursor);
            }
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=ROWS_MAX).contains(limit));
                let detail = || invalid(format!("must be between 1 and {ROWS_MAX}"));
                request.rows_max = limit.ok_or_else(detail)?;
            }
            "format" => {
                request.format = match value.as_str() {
                    "ndjson" => PageFormat::Ndjson,
                    "csv" => PageFormat::Csv,
                    "parquet" => PageFormat::Parquet,
                    _ => return Err(invalid("must be ndjson, csv or parquet".to_owned())),
                };
            }
            _ => return Err(invalid("is not a parameter of this route".to_owned())),
        }
        if !seen.insert(name.clone()) {
            return Err(invalid("occurs more than once".to_owned()));
        }
    }
    if request.times.is_empty() {
        return Err(Problem::invalid("must be after `from`").field("to"));
    }
    Ok(request)
}

/// Ends a page that takes too long or too much memory, and when the server stops.
struct PageControl<'a> {
    shared: &'a AppState,
    started: Instant,
}

impl QueryControl for PageControl<'_> {
    fn check(&self, bytes: usize) -> Result<(), QueryStopped> {
        if bytes > PAGE_BYTES {
            return Err(QueryStopped::Memory { bytes_max: PAGE_BYTES });
        }
        if self.started.elapsed() > PAGE_TIME {
            return Err(QueryStopped::Timeout { seconds: PAGE_TIME.as_secs() });
        }
        if *self.shared.stopping.borrow() { Err(QueryStopped::Cancelled) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_parameter_is_named() {
        for (query, field) in [
            ("format=xml", "format"),
            ("from=yesterday", "from"),
            ("from=10&to=10", "to"),
            ("cursor=1", "cursor"),
            ("limit=0", "limit"),
            ("limit=1000001", "limit"),
            ("limit=5&limit=6", "limit"),
            ("rows=5", "rows"),
        ] {
            let problem = page_request(query).expect_err(query);
            assert_eq!(problem.brief(), format!("400 invalid_field ({field})"), "{query}");
        }
        let request = page_request("format=csv&from=1970-01-01T00:00:01Z&to=5000&limit=7&key=a&game=b");
        let request = request.expect("all are valid");
        assert_eq!((request.times, request.rows_max, request.format), (1_000..5_000, 7, PageFormat::Csv));
    }
}
