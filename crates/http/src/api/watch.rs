//! `GET /v1/watch`: subscriptions as server-sent events.
//!
//! `?online=1`, `?events=1`, `?load=1`, `?flows=1` and any number of `?query={JSON}`, several in one stream; for anybody `?vars=1`
//! with the parameters of `/v1/vars`, `?board=TABLE` and `?feed=PLAYER`. A snapshot of each, then changes; `Last-Event-ID` goes on where a client was.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::Uri;
use hyper::body::Frame;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName};
use liveops::boards::{BoardWindow, SOURCE};
use model::batch::KeyClass;
use tokio::sync::watch;

use super::events::address;
use super::vars::who;
use crate::AppState;
use crate::api::commands::Local;
use crate::auth;
use crate::problem::Problem;
use axum::{Router, routing};
use live::{
    DeliveryOptions, MIN_INTERVAL_MS_MAX, PageTopic, ResumePoint, SseStream, SubscriptionPermit, Topic,
};
use pipeline::catalog::{Access, Game, Scope, address_group};
use pipeline::time::{now_ms, now_s};

/// Returns the routes of this module.
pub fn routes() -> Router<Local> {
    Router::new().route("/v1/watch", routing::get(get))
}

/// A comment keeps the connection known to everyone in between.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Subscriptions in one stream.
const TOPICS_MAX: usize = 20;

/// Rows of a board that can be watched.
const ROWS_MAX: u32 = 100;
/// Items of a feed that is watched.
pub(crate) const FEED_ITEMS: usize = 20;

/// Answers with a stream.
#[utoipa::path(
    get, path = "/v1/watch", operation_id = "watch", tag = "live",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("online" = Option<String>, Query, description = "`1`: players online.", example = "1"),
        ("events" = Option<String>, Query, description = "`1`: the last events with their outcomes."),
        ("load" = Option<String>, Query, description = "`1`: the accounting."),
        ("flows" = Option<String>, Query, description = "`1`: how many flows run, how they do, and the 50 worst of them."),
        ("query" = Option<String>, Query, description = "A question as JSON; may be repeated."),
        ("vars" = Option<String>, Query,
            description = "`1`: the variables' values; for any key, with the parameters of `/v1/vars`."),
        ("player" = Option<String>, Query, description = "Whose values, with `vars`."),
        ("platform" = Option<String>, Query, description = "With `vars`."),
        ("version" = Option<String>, Query, description = "With `vars`."),
        ("segment" = Option<String>, Query, description = "With `vars`."),
        ("country" = Option<String>, Query, description = "With `vars` and a secret key."),
        ("board" = Option<String>, Query, description = "A board's first page; for any key."),
        ("window" = Option<String>, Query, description = "With `board`: day, week, month, season, all, 24h, 7d, 30d."),
        ("per_page" = Option<u32>, Query, description = "With `board`: rows, up to 100."),
        ("newest" = Option<String>, Query, description = "With `board`, `1`: newest first."),
        ("code" = Option<String>, Query, description = "With `board`: that of a private one."),
        ("source" = Option<String>, Query, description = "With `board`; `filter.FIELD` as well."),
        ("feed" = Option<String>, Query, description = "What those did whom this player follows; for any key."),
        ("min_interval" = Option<u32>, Query, description =
            "Told at most so often, in milliseconds: 250 by default, 0: at once, up to 3,600,000.", example = 1000),
        ("last_event_id" = Option<String>, Query, description = "As the header Last-Event-ID."),
    ),
    responses((
        status = 200, description = "Server-sent events: `snapshot`, then `change`; `reset` instead after a gap.",
        body = String, content_type = "text/event-stream",
    )),
)]
pub async fn get(
    State(shared): State<Arc<AppState>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let mut access = auth::for_reads(&shared.catalog, &headers, uri.query(), now_s())?;
    let mut parameters = Parameters::read(uri.query().unwrap_or_default())?;
    if !parameters.is_for_anybody() {
        access = auth::allow(access, Scope::Query)?;
    }
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let resume = last.or(parameters.last_event_id.as_deref()).and_then(ResumePoint::parse);
    let mut topics = parameters.topics(&access.game)?;
    if parameters.vars {
        let who = std::mem::take(&mut parameters.who).who(&shared, &access, &headers, peer)?;
        topics.push(("vars".to_owned(), Topic::Vars(Box::new(who))));
    }
    topics.extend(parameters.pages(&access));
    check_count(&topics)?;
    let holder = holder(&access, address(&shared, &headers, peer));
    let permit = shared.live.admit(holder, topics.len());
    let permit = permit.map_err(|refused| Problem::too_many(refused.to_string()))?;
    shared.views.caught_up(shared.log.durable_until()).await;
    let client =
        SseStream::open(Arc::clone(&shared.live), &access.game, topics, parameters.options, resume.as_ref());
    let client = client.map_err(|refused| Problem::overloaded(refused.to_string()).retry_after_s(10))?;
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, stream(client, permit, shared.stopping.clone())).into_response())
}

/// What is new, whenever the connection can take it. A slow connection is asked less often, and then gets the latest.
fn stream(client: SseStream, permit: SubscriptionPermit, stopping: watch::Receiver<bool>) -> Body {
    type Stream = (SseStream, SubscriptionPermit, watch::Receiver<bool>, bool);
    let start = (client, permit, stopping, true);
    let next = async |(mut client, permit, mut stopping, first): Stream| {
        let mut text = if first { b"retry: 1000\n\n".to_vec() } else { Vec::new() };
        text.extend(client.next_events());
        while text.is_empty() {
            tokio::select! {
                () = client.wait() => text = client.next_events(),
                () = tokio::time::sleep(HEARTBEAT) => text = b": still here\n\n".to_vec(),
                _ = stopping.wait_for(|stopping| *stopping) => return None,
            }
        }
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from(text))), (client, permit, stopping, false)))
    };
    Body::new(StreamBody::new(futures_util::stream::unfold(start, next)))
}

/// Who watches. A public key is in every client, so it alone does not tell.
pub(crate) fn holder(access: &Access, address: Option<IpAddr>) -> u64 {
    if access.class != KeyClass::Public {
        return access.key;
    }
    let mut hasher = DefaultHasher::new();
    (access.key, address.map(address_group)).hash(&mut hasher);
    hasher.finish()
}

#[derive(Default)]
struct Parameters {
    options: DeliveryOptions,
    last_event_id: Option<String>,
    online: bool,
    events: bool,
    load: bool,
    flows: bool,
    queries: Vec<String>,
    vars: bool,
    who: who::Parameters,
    board: Option<String>,
    window: Option<BoardWindow>,
    per_page: u32,
    newest: bool,
    code: String,
    filter: BTreeMap<String, String>,
    feed: Option<String>,
}

impl Parameters {
    fn read(query: &str) -> Result<Parameters, Problem> {
        let mut parameters = Parameters::default();
        for (name, value) in crate::query_string::pairs(query)? {
            let on = matches!(value.as_str(), "1" | "true");
            match name.as_str() {
                "last_event_id" => parameters.last_event_id = Some(value),
                "online" => parameters.online = on,
                "events" => parameters.events = on,
                "load" => parameters.load = on,
                "flows" => parameters.flows = on,
                "query" => parameters.queries.push(value),
                "vars" => parameters.vars = on,
                "board" => parameters.board = Some(value),
                "min_interval" => parameters.options.min_interval_ms = min_interval(&value)?,
                "window" => parameters.window = Some(window(&value)?),
                "per_page" => parameters.per_page = per_page(&value)?,
                "newest" => parameters.newest = on,
                "code" => parameters.code = value,
                "source" => drop(parameters.filter.insert(SOURCE.to_owned(), value)),
                "feed" => parameters.feed = Some(value),
                // The credential and the game it is for have been read.
                "key" | "game" => {}
                other if other.starts_with("filter.") => {
                    parameters.filter.insert(other["filter.".len()..].to_owned(), value);
                }
                other => {
                    if !parameters.who.take(other, value)? {
                        let detail =
                            "watch `online`, `events`, `load`, `flows`, `query`, `vars`, `board` or `feed`";
                        return Err(Problem::invalid(detail).field(other));
                    }
                }
            }
        }
        Ok(parameters)
    }

    fn topics(&self, game: &Game) -> Result<Vec<(String, Topic)>, Problem> {
        let plain = [
            (self.online, "online", Topic::Online),
            (self.events, "events", Topic::Events),
            (self.load, "load", Topic::Load),
            (self.flows, "flows", Topic::Flows),
        ];
        let chosen = plain.into_iter().filter(|(on, ..)| *on);
        let mut topics: Vec<(String, Topic)> =
            chosen.map(|(_, name, topic)| (name.to_owned(), topic)).collect();
        for (index, text) in self.queries.iter().enumerate() {
            let query = pipeline::query::request::from_json(text.as_bytes(), &game.settings.declared());
            let query = query.map_err(Problem::from)?;
            query.plan(now_ms(), &game.tz).map_err(Problem::from)?;
            topics.push((format!("query{index}"), Topic::Query(Box::new(query))));
        }
        Ok(topics)
    }

    /// The pages of live-ops. A private board is seen with its code, or by those who may see all.
    fn pages(&self, access: &Access) -> Vec<(String, Topic)> {
        let board = self.board.clone().map(|table| PageTopic::Board {
            table,
            window: self.window,
            per_page: self.per_page,
            newest: self.newest,
            filter: self.filter.clone().into_iter().collect(),
            code: (access.class == KeyClass::Public).then(|| self.code.clone()),
        });
        let feed = self.feed.clone().map(|player| PageTopic::Feed { player, n: FEED_ITEMS });
        let named = [("board", board), ("feed", feed)].into_iter();
        named.filter_map(|(name, page)| Some((name.to_owned(), Topic::Page(Box::new(page?))))).collect()
    }

    /// Whether any key of the game may watch all of this.
    fn is_for_anybody(&self) -> bool {
        !(self.online || self.events || self.load || self.flows) && self.queries.is_empty()
    }
}

fn min_interval(text: &str) -> Result<u32, Problem> {
    let ms = text.parse().ok().filter(|ms| *ms <= MIN_INTERVAL_MS_MAX);
    let problem = || Problem::invalid(format!("it is 0 to {MIN_INTERVAL_MS_MAX} milliseconds"));
    ms.ok_or_else(|| problem().field("min_interval"))
}

/// A window by its name.
pub(crate) fn window(label: &str) -> Result<BoardWindow, Problem> {
    let problem = || Problem::invalid("it is day, week, month, season, all, 24h, 7d or 30d").field("window");
    BoardWindow::from_label(label).ok_or_else(problem)
}

fn per_page(text: &str) -> Result<u32, Problem> {
    rows(text.parse().unwrap_or(0))
}

/// So many rows of a board, if that can be watched.
pub(crate) fn rows(count: u32) -> Result<u32, Problem> {
    let problem = || Problem::invalid(format!("it is 1 to {ROWS_MAX}")).field("per_page");
    Some(count).filter(|rows| (1..=ROWS_MAX).contains(rows)).ok_or_else(problem)
}

fn check_count(topics: &[(String, Topic)]) -> Result<(), Problem> {
    match topics.len() {
        0 => {
            let detail = "say what to watch: `online=1`, `events=1`, `load=1`, `flows=1`, `query={...}`, `vars=1`, `board=TABLE` or \
                          `feed=PLAYER`";
            Err(Problem::invalid(detail))
        }
        1..=TOPICS_MAX => Ok(()),
        _ => Err(Problem::invalid(format!("at most {TOPICS_MAX} in one stream")).field("query")),
    }
}
