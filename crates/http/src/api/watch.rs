//! `GET /v1/watch`: subscriptions as server-sent events.
//!
//! `?online=1`, `?events=1`, `?load=1`, `?flows=1`, `?alerts=1` and any number of `?query={JSON}`, several in one stream; for all
//! keys `?vars=1` with the parameters of `/v1/vars`, `?board=TABLE` and `?feed=PLAYER`. The stream starts with a
//! snapshot of each, followed by changes. `Last-Event-ID` resumes a stream.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::{Router, routing};
use bytes::Bytes;
use http_body_util::StreamBody;
use hyper::Uri;
use hyper::body::Frame;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use live::{
    DeliveryOptions, MIN_INTERVAL_MS_MAX, PageTopic, ResumePoint, SseStream, SubscriptionPermit, Topic,
};
use liveops::boards::{BoardWindow, SOURCE};
use model::batch::KeyClass;
use pipeline::catalog::{Access, Game, Scope, address_group};
use pipeline::time::{now_ms, now_s};
use tokio::sync::watch;

use super::query::rejected_problem;
use super::vars::viewer;
use crate::auth::{self, Credentials};
use crate::problem::Problem;
use crate::query_string::flag;
use crate::{AppState, RuntimeState};

/// Returns the routes of this module.
pub(crate) fn routes() -> Router<RuntimeState> {
    Router::new().route("/v1/watch", routing::get(get))
}

/// Subscriptions in one stream.
const TOPICS_MAX: usize = 20;

/// Rows of a board in a subscription.
const ROWS_MAX: u32 = 100;
/// Items of a feed in a subscription.
pub(crate) const FEED_ITEMS: usize = 20;

/// Streams live updates as server-sent events.
#[utoipa::path(
    get, path = "/v1/watch", operation_id = "watch", tag = "live",
    security(("public_key" = []), ("secret_key" = [])),
    params(
        ("online" = Option<bool>, Query, description = "True: subscribes to the number of players online.", example = true),
        ("events" = Option<bool>, Query, description = "True: subscribes to the latest events with their outcomes."),
        ("load" = Option<bool>, Query, description = "True: subscribes to the ingest accounting."),
        ("flows" = Option<bool>, Query, description = "True: subscribes to the number and quality of running flows, and the 50 worst flows."),
        ("alerts" = Option<bool>, Query, description = "True: subscribes to the alert rules with their states."),
        ("query" = Option<String>, Query, description = "Subscribes to an analytics query in JSON; may be repeated."),
        ("vars" = Option<bool>, Query,
            description = "True: subscribes to the values of the variables, with the parameters of `/v1/vars`. Allowed for all keys."),
        ("player" = Option<String>, Query, description = "With `vars`: the player."),
        ("platform" = Option<String>, Query, description = "With `vars`: as in `GET /v1/vars`."),
        ("version" = Option<String>, Query, description = "With `vars`: as in `GET /v1/vars`."),
        ("segment" = Option<String>, Query, description = "With `vars`: as in `GET /v1/vars`."),
        ("country" = Option<String>, Query, description = "With `vars` and a secret key: country of the player."),
        ("board" = Option<String>, Query, description = "Subscribes to the first page of a leaderboard. Allowed for all keys."),
        ("window" = Option<String>, Query, description = "With `board`: `day`, `week`, `month`, `season`, `all`, `24h`, `7d` or `30d`."),
        ("per_page" = Option<u32>, Query, minimum = 1, maximum = 100, description = "With `board`: number of rows, 1 to 100."),
        ("newest" = Option<bool>, Query, description = "With `board`, true: newest first."),
        ("code" = Option<String>, Query, description = "With `board`: access code of a private board."),
        ("source" = Option<String>, Query, description = "With `board`: only scores from this source. `filter.FIELD` is also allowed."),
        ("feed" = Option<String>, Query, description = "Subscribes to the feed of this player. Allowed for all keys."),
        ("min_interval" = Option<u32>, Query, maximum = 3_600_000, description =
            "Minimum interval between updates in milliseconds, 0 to 3,600,000. Default: 250.", example = 1000),
        ("last_event_id" = Option<String>, Query, description = "Same as the header `Last-Event-ID`."),
    ),
    responses((
        status = 200, description = "Server-sent events: a `snapshot`, then `change` events; `reset` replaces the state after a gap.",
        body = String, content_type = "text/event-stream",
    )),
)]
pub(crate) async fn get(
    State(shared): State<Arc<AppState>>,
    uri: Uri,
    credentials: Credentials,
) -> Result<Response, Problem> {
    // Read before the check, so that a change during the check is noticed.
    let revision = shared.catalog.revision();
    let mut access = credentials.authorize_read(&shared.catalog, now_s())?;
    let mut params = WatchParams::read(uri.query().unwrap_or_default())?;
    if !params.is_public() {
        access = auth::allow(access, Scope::Query)?;
    }
    let last = credentials.headers().get("last-event-id").and_then(|id| id.to_str().ok());
    let resume = last.or(params.last_event_id.as_deref()).and_then(ResumePoint::parse);
    let mut topics = params.topics(&access.game)?;
    if params.vars {
        let viewer = std::mem::take(&mut params.viewer).viewer(&shared, &access, &credentials)?;
        topics.push(("vars".to_owned(), Topic::Vars(Box::new(viewer))));
    }
    topics.extend(params.pages(&access));
    check_count(&topics)?;
    let subscriber = subscriber_key(&access, credentials.client_address());
    let permit = shared.live.admit(subscriber, topics.len());
    let permit = permit.map_err(|exceeded| Problem::quota_exceeded(exceeded.to_string()))?;
    shared.views.caught_up(shared.log.durable_until()).await?;
    let (live, game, options) = (Arc::clone(&shared.live), Arc::clone(&access.game), params.options);
    let is_slow = topics.iter().any(|(_, topic)| live.is_slow_to_open(&game, topic));
    let number = game.number;
    let open = move || SseStream::open(live, &game, topics, options, resume.as_ref());
    let client = match is_slow {
        true => shared.queries.run(number, |_| open()).await.map_err(rejected_problem)?,
        false => open(),
    };
    let client = client.map_err(|refused| Problem::overloaded(refused.to_string()).retry_after_s(10))?;
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    let access = StreamAccess {
        credentials: credentials.detached(),
        game: access.game.number,
        is_public: params.is_public(),
        revision,
        checked_at: Instant::now(),
        shared,
    };
    Ok((headers, stream(client, permit, access)).into_response())
}

/// The access of an open stream. It is checked again when the catalog has changed and at each heartbeat: a key can be
/// revoked or expire, and a person can sign out.
struct StreamAccess {
    shared: Arc<AppState>,
    credentials: Credentials,
    game: u32,
    /// Any key of the game may subscribe to these topics.
    is_public: bool,
    /// The revision of the catalog against which access was last checked.
    revision: u64,
    checked_at: Instant,
}

impl StreamAccess {
    /// Returns true if the stream may go on.
    fn is_valid(&mut self) -> bool {
        let AppState { catalog, settings, .. } = &*self.shared;
        let revision = catalog.revision();
        if revision == self.revision && self.checked_at.elapsed() < settings.heartbeat {
            return true;
        }
        (self.revision, self.checked_at) = (revision, Instant::now());
        let access = self.credentials.authorize_read(catalog, now_s());
        access.is_ok_and(|access| {
            access.game.number == self.game && (self.is_public || access.may(Scope::Query))
        })
    }
}

/// Streams changes as fast as the connection accepts them, until the credential is no longer valid. A slow connection
/// gets fewer updates, each with the latest state.
fn stream(client: SseStream, permit: SubscriptionPermit, access: StreamAccess) -> Body {
    type Stream = (SseStream, SubscriptionPermit, StreamAccess, watch::Receiver<bool>, bool);
    let stopping = access.shared.stopping.clone();
    let start = (client, permit, access, stopping, true);
    let next = async |(mut client, permit, mut access, mut stopping, first): Stream| {
        let heartbeat = access.shared.settings.heartbeat;
        let mut text = if first { b"retry: 1000\n\n".to_vec() } else { Vec::new() };
        loop {
            if !access.is_valid() {
                return None;
            }
            text.extend(client.next_events());
            if !text.is_empty() {
                break;
            }
            tokio::select! {
                () = client.wait() => {}
                // A comment keeps the connection open in proxies.
                () = tokio::time::sleep(heartbeat) => text = b": still here\n\n".to_vec(),
                _ = stopping.wait_for(|stopping| *stopping) => return None,
            }
        }
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from(text))), (client, permit, access, stopping, false)))
    };
    Body::new(StreamBody::new(futures_util::stream::unfold(start, next)))
}

/// Returns the key of the subscription quota: a secret key, or a public key with a group of addresses, because every
/// client has the public key.
pub(crate) fn subscriber_key(access: &Access, address: Option<IpAddr>) -> u64 {
    if access.class != KeyClass::Public {
        return access.key;
    }
    let mut hasher = DefaultHasher::new();
    (access.key, address.map(address_group)).hash(&mut hasher);
    hasher.finish()
}

#[derive(Default)]
struct WatchParams {
    options: DeliveryOptions,
    last_event_id: Option<String>,
    online: bool,
    events: bool,
    load: bool,
    flows: bool,
    alerts: bool,
    queries: Vec<String>,
    vars: bool,
    viewer: viewer::ViewerParams,
    board: Option<String>,
    window: Option<BoardWindow>,
    per_page: u32,
    newest: bool,
    code: String,
    filter: BTreeMap<String, String>,
    feed: Option<String>,
}

impl WatchParams {
    fn read(query: &str) -> Result<WatchParams, Problem> {
        let mut params = WatchParams::default();
        for (name, value) in crate::query_string::pairs(query)? {
            let on = || flag(&value).map_err(|problem| problem.field(&name));
            match name.as_str() {
                "last_event_id" => params.last_event_id = Some(value),
                "online" => params.online = on()?,
                "events" => params.events = on()?,
                "load" => params.load = on()?,
                "flows" => params.flows = on()?,
                "alerts" => params.alerts = on()?,
                "query" => params.queries.push(value),
                "vars" => params.vars = on()?,
                "board" => params.board = Some(value),
                "min_interval" => params.options.min_interval_ms = min_interval(&value)?,
                "window" => params.window = Some(parse_window(&value)?),
                "per_page" => params.per_page = per_page(&value)?,
                "newest" => params.newest = on()?,
                "code" => params.code = value,
                "source" => drop(params.filter.insert(SOURCE.to_owned(), value)),
                "feed" => params.feed = Some(value),
                // Authentication reads these.
                "key" | "game" => {}
                other if other.starts_with("filter.") => {
                    params.filter.insert(other["filter.".len()..].to_owned(), value);
                }
                other => {
                    if !params.viewer.set(other, value)? {
                        let detail = "unknown parameter; subscribe to `online`, `events`, `load`, `flows`, `alerts`, `query`, `vars`, `board` or `feed`";
                        return Err(Problem::invalid(detail).field(other));
                    }
                }
            }
        }
        Ok(params)
    }

    fn topics(&self, game: &Game) -> Result<Vec<(String, Topic)>, Problem> {
        let plain = [
            (self.online, "online", Topic::Online),
            (self.events, "events", Topic::Events),
            (self.load, "load", Topic::Load),
            (self.flows, "flows", Topic::Flows),
            (self.alerts, "alerts", Topic::Alerts),
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

    /// Returns the live-ops topics. A private board needs its access code, or a secret key.
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

    /// Returns true if any key of the game may subscribe to all of these topics.
    fn is_public(&self) -> bool {
        !(self.online || self.events || self.load || self.flows || self.alerts) && self.queries.is_empty()
    }
}

fn min_interval(text: &str) -> Result<u32, Problem> {
    let ms = text.parse().ok().filter(|ms| *ms <= MIN_INTERVAL_MS_MAX);
    let problem = || Problem::invalid(format!("must be between 0 and {MIN_INTERVAL_MS_MAX} milliseconds"));
    ms.ok_or_else(|| problem().field("min_interval"))
}

/// Parses the label of a board window.
pub(crate) fn parse_window(label: &str) -> Result<BoardWindow, Problem> {
    let problem =
        || Problem::invalid("must be day, week, month, season, all, 24h, 7d or 30d").field("window");
    BoardWindow::from_label(label).ok_or_else(problem)
}

fn per_page(text: &str) -> Result<u32, Problem> {
    check_rows(text.parse().unwrap_or(0))
}

/// Checks the number of rows of a board in a subscription.
pub(crate) fn check_rows(count: u32) -> Result<u32, Problem> {
    let problem = || Problem::invalid(format!("must be between 1 and {ROWS_MAX}")).field("per_page");
    Some(count).filter(|rows| (1..=ROWS_MAX).contains(rows)).ok_or_else(problem)
}

fn check_count(topics: &[(String, Topic)]) -> Result<(), Problem> {
    match topics.len() {
        0 => {
            let detail = "name at least one topic: `online=1`, `events=1`, `load=1`, `flows=1`, `alerts=1`, `query={...}`, `vars=1`, `board=TABLE` or \
                          `feed=PLAYER`";
            Err(Problem::invalid(detail))
        }
        1..=TOPICS_MAX => Ok(()),
        _ => Err(Problem::invalid(format!("a stream can have at most {TOPICS_MAX} topics")).field("query")),
    }
}
