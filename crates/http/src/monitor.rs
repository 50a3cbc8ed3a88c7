//! The load monitor: requests by route and outcome, ingest totals, and time spent per store.
//!
//! Each thread counts the requests it answers; a snapshot adds the threads up. A snapshot covers the time since the start
//! of the server. Only the requests of each minute are stored ([`minutes`]); the history of events is the accounting's.

mod latency;
mod minutes;
mod process;
mod request_counts;

pub use minutes::start;
pub(crate) use request_counts::RequestCounts;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use pipeline::accounting::AccountingKey;
use pipeline::time::{now_ms, rfc3339};
use pipeline::timed_stores::{StoreTimers, StoreTimes};
use wal::Stats;

use crate::AppState;

use latency::LatencyHistogram;
use minutes::MinuteRequests;
use request_counts::{OutcomeLatencies, RequestOutcome, RouteKey};

/// The routes of a snapshot: those with the most requests.
const ROUTES_MAX: usize = 200;

/// Collects the request counts of all threads and the clocks of the stores.
pub struct Monitor {
    started: Instant,
    clocks: StoreTimers,
    threads: Mutex<Vec<Arc<RequestCounts>>>,
    /// Notified by the first request of a minute on each thread.
    minute_started: Notify,
}

impl Monitor {
    /// Returns a monitor whose uptime starts now.
    pub fn new(clocks: StoreTimers) -> Monitor {
        Monitor { started: Instant::now(), clocks, threads: Mutex::default(), minute_started: Notify::new() }
    }

    /// Returns new request counts for a thread that answers requests.
    pub(crate) fn register_thread(&self) -> Arc<RequestCounts> {
        let requests = Arc::new(RequestCounts::default());
        self.threads.lock().push(Arc::clone(&requests));
        requests
    }

    /// Records a request in the counts of the thread that answered it.
    pub(crate) fn record_request(
        &self,
        requests: &RequestCounts,
        game: Option<u32>,
        route: (&Method, &str),
        response: (StatusCode, Duration),
    ) {
        let ((method, path), (status, took)) = (route, response);
        if requests.record(game, method, path, status, took) {
            self.minute_started.notify_one();
        }
    }

    fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Removes and returns the requests since the last call.
    fn take_minute(&self) -> MinuteRequests {
        let mut all = MinuteRequests::new();
        self.threads.lock().iter().for_each(|thread| thread.take_minute(&mut all));
        all
    }

    /// Returns all figures as JSON: `{time, version, uptime_s, process, events, requests, stores, subscriptions,
    /// collectors}`. Events, subscriptions and collectors are those of one game, or of all games if `game` is `None`.
    pub fn snapshot(&self, shared: &AppState, game: Option<u32>) -> Value {
        json!({
            "time": rfc3339(now_ms()),
            "version": env!("CARGO_PKG_VERSION"),
            "uptime_s": self.started.elapsed().as_secs(),
            "uptime_ms": self.started.elapsed().as_millis() as u64,
            "process": process::figures(),
            "events": events(shared, game),
            "requests": self.requests(),
            "stores": self.stores(shared),
            "subscriptions": subscriptions(shared, game),
            "collectors": shared.collectors.list(&shared.catalog, game),
        })
    }

    fn requests(&self) -> Vec<Value> {
        let mut all = BTreeMap::new();
        self.threads.lock().iter().for_each(|thread| thread.add_to(&mut all));
        let mut routes: Vec<(RouteKey, OutcomeLatencies)> = all.into_iter().collect();
        let count = |outcomes: &OutcomeLatencies| outcomes.iter().map(LatencyHistogram::count).sum::<u64>();
        routes.sort_by_key(|(_, outcomes)| Reverse(count(outcomes)));
        routes.iter().take(ROUTES_MAX).map(|(route, outcomes)| route_row(route, outcomes)).collect()
    }

    fn stores(&self, shared: &AppState) -> Vec<Value> {
        let (log, data) = (&shared.log, &shared.settings.data);
        let log_stats = log.stats();
        let event_ids = *self.clocks.id_stats.lock();
        let rollups = process::folder_bytes(&data.join("views"));
        vec![
            log_row(&log_stats, log.durable_until() - log.first()),
            store_row("rollups", None, rollups, self.clocks.rollups.times()),
            // Records are stored in the files of the rollups, so their bytes are counted there.
            store_row("records", None, 0, self.clocks.records.times()),
            store_row("event ids", Some(event_ids.keys), event_ids.disk_bytes, self.clocks.ids.times()),
        ]
    }
}

/// Returns rows `{game, endpoint, outcome, reason, count}` since the start.
fn events(shared: &AppState, only: Option<u32>) -> Vec<Value> {
    let counts = shared.views.accounting.since_start();
    let row = |(counted, count): (&AccountingKey, &u64)| {
        if only.is_some_and(|only| only != counted.game) {
            return None;
        }
        let game = shared.catalog.game_by_number(counted.game)?;
        let (endpoint, outcome) = (counted.endpoint.label(), counted.outcome().label());
        let reason = counted.reject.map(|reject| reject.label());
        Some(
            json!({"game": game.id, "endpoint": endpoint, "outcome": outcome, "reason": reason, "count": count}),
        )
    };
    counts.iter().filter_map(row).collect()
}

/// Returns the rows of `GET /v1/subscriptions`, each with its game.
fn subscriptions(shared: &AppState, only: Option<u32>) -> Vec<Value> {
    let games = shared.catalog.games();
    let games = games.iter().filter(|game| only.is_none_or(|only| only == game.number));
    let rows = games.flat_map(|game| {
        let mut census = shared.live.subscription_stats(game.number);
        let rows = census["subscriptions"].as_array_mut().map(std::mem::take).unwrap_or_default();
        rows.into_iter().map(|mut row| {
            row["game"] = game.id.as_str().into();
            row
        })
    });
    rows.collect()
}

fn route_row((method, path): &RouteKey, outcomes: &OutcomeLatencies) -> Value {
    let mut all = LatencyHistogram::default();
    outcomes.iter().for_each(|latency| all.add(latency));
    let mut row = json!({
        "method": method,
        "path": if path.is_empty() { "(none)" } else { path },
        "mean_us": all.total_us().checked_div(all.count()),
        "p50_us": all.quantile_us(0.5),
        "p99_us": all.quantile_us(0.99),
    });
    for outcome in RequestOutcome::ALL {
        row[outcome.label()] = outcomes[outcome as usize].count().into();
    }
    row
}

fn log_row(log: &Stats, entries: u64) -> Value {
    let spent = StoreTimes { writes: log.syncs, write_us: log.sync_ns / 1_000, ..StoreTimes::default() };
    store_row("log", Some(entries), log.disk_bytes, spent)
}

fn store_row(store: &str, count: Option<u64>, bytes: u64, spent: StoreTimes) -> Value {
    let StoreTimes { reads, read_us, writes, write_us } = spent;
    json!({
        "store": store, "count": count, "bytes": bytes,
        "reads": reads, "read_us": read_us, "writes": writes, "write_us": write_us,
    })
}
