//! The load monitor: what the server is asked, what becomes of it, and where its time goes.
//!
//! Requests are counted on the thread that answers them and added up when somebody looks. What is told here is since the
//! start; what is kept are the minutes of requests ([`minutes`]), and what came in event by event: the accounting.

mod asker;
mod latency;
mod minutes;
mod process;
mod requests;

pub use asker::{note_game, noting_game};
pub use latency::Latency;
pub use minutes::start;
pub use requests::{Answered, Requests};

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use wal::Stats;

use minutes::Minute;
use requests::{Outcomes, Route};

use crate::AppState;
use pipeline::accounting::AccountingKey;
use pipeline::time::{now_ms, rfc3339};
use pipeline::timed_stores::{StoreTimers, StoreTimes};

/// Routes that are told of, the busiest first.
const ROUTES_MAX: usize = 200;

/// What is measured, by whom.
pub struct Monitor {
    started: Instant,
    clocks: StoreTimers,
    threads: Mutex<Vec<Arc<Requests>>>,
    /// Rung by the first request of a minute on each thread.
    bell: Notify,
}

impl Monitor {
    /// Begins now.
    pub fn new(clocks: StoreTimers) -> Monitor {
        Monitor { started: Instant::now(), clocks, threads: Mutex::default(), bell: Notify::new() }
    }

    /// The counts of a thread that answers requests.
    pub fn thread(&self) -> Arc<Requests> {
        let requests = Arc::new(Requests::default());
        self.threads.lock().push(Arc::clone(&requests));
        requests
    }

    /// Counts a request that was answered, among those of a thread.
    pub fn answered(
        &self,
        requests: &Requests,
        game: Option<u32>,
        route: (&Method, &str),
        answer: (StatusCode, Duration),
    ) {
        let ((method, path), (status, took)) = (route, answer);
        if requests.answered(game, method, path, status, took) {
            self.bell.notify_one();
        }
    }

    fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// What was asked since the last call.
    fn take_minute(&self) -> Minute {
        let mut all = Minute::new();
        self.threads.lock().iter().for_each(|thread| thread.turn_minute(&mut all));
        all
    }

    /// Everything as JSON: `{time, version, uptime_s, process, events, requests, stores, subscriptions, collectors}`. Of
    /// the games, only this one is told of; `None`: all of them.
    pub fn look(&self, shared: &AppState, game: Option<u32>) -> Value {
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
        let mut routes: Vec<(Route, Outcomes)> = all.into_iter().collect();
        let count = |outcomes: &Outcomes| outcomes.iter().map(Latency::count).sum::<u64>();
        routes.sort_by_key(|(_, outcomes)| Reverse(count(outcomes)));
        routes.iter().take(ROUTES_MAX).map(|(route, outcomes)| request(route, outcomes)).collect()
    }

    fn stores(&self, shared: &AppState) -> Vec<Value> {
        let (log, data) = (&shared.log, &shared.settings.data);
        let written = log.stats();
        let held = *self.clocks.id_stats.lock();
        let rollups = process::folder_bytes(&data.join("views"));
        vec![
            log_row(&written, log.durable_until() - log.first()),
            row("rollups", None, rollups, self.clocks.rollups.times()),
            // Their bytes lie in the files of the rollups.
            row("records", None, 0, self.clocks.records.times()),
            row("event ids", Some(held.keys), held.disk_bytes, self.clocks.ids.times()),
        ]
    }
}

/// `{game, endpoint, outcome, reason, count}`, since the start.
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

/// As `GET /v1/subscriptions` tells of them, each with its game.
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

fn request((method, path): &Route, outcomes: &Outcomes) -> Value {
    let mut all = Latency::default();
    outcomes.iter().for_each(|outcome| all.add(outcome));
    let mut row = json!({
        "method": method,
        "path": if path.is_empty() { "(none)" } else { path },
        "mean_us": all.total_us().checked_div(all.count()),
        "p50_us": all.quantile_us(0.5),
        "p99_us": all.quantile_us(0.99),
    });
    for answered in Answered::ALL {
        row[answered.label()] = outcomes[answered as usize].count().into();
    }
    row
}

fn log_row(written: &Stats, entries: u64) -> Value {
    let spent =
        StoreTimes { writes: written.syncs, write_us: written.sync_ns / 1_000, ..StoreTimes::default() };
    row("log", Some(entries), written.disk_bytes, spent)
}

fn row(store: &str, count: Option<u64>, bytes: u64, spent: StoreTimes) -> Value {
    let StoreTimes { reads, read_us, writes, write_us } = spent;
    json!({
        "store": store, "count": count, "bytes": bytes,
        "reads": reads, "read_us": read_us, "writes": writes, "write_us": write_us,
    })
}
