//! Writes the requests of each minute to the log as samples, so that queries can cover days: `$load.http.POST
//! /v1/events.ok` and similar metrics, whose values are milliseconds.
//!
//! A request counts for the game of its credential. Requests without one (pages, health, wrong keys) count for the first
//! game, which belongs to the operator of the installation. Nothing is written for a minute without requests.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::error;

use model::admit::REQUEST_METRIC_PREFIX;
use model::batch::{Endpoint, Samples};
use model::rollup::{Aggregate, Bucket};
use model::{RawBatch, RawEvent};
use pipeline::catalog::{Access, Game};
use pipeline::ingest::{Claims, ClientInfo, IngestError, IngestRequest, retry_transient};
use pipeline::shutdown::wait_for_stop;
use pipeline::time::now_ms;
use wal::{Ack, Lane};

use super::latency::LatencyHistogram;
use super::request_counts::{OutcomeLatencies, RequestOutcome, RouteKey, add_outcomes};
use crate::AppState;

/// Requests by game and route.
pub(super) type MinuteRequests = BTreeMap<Option<u32>, BTreeMap<RouteKey, OutcomeLatencies>>;

/// The uptime before which nothing is written: a server that runs for seconds only stores what it was sent.
const UPTIME_MIN: Duration = Duration::from_secs(60);
/// The minutes that may wait for the log.
const PENDING_MAX: usize = 60;

/// Starts the thread that writes the minutes. It sleeps until the first request of a minute, then to the end of that
/// minute. Fails if the thread or its runtime cannot be started.
pub fn start(shared: &Arc<AppState>) -> anyhow::Result<JoinHandle<()>> {
    let runtime = Builder::new_current_thread().enable_time().build().context("starting a runtime")?;
    let shared = Arc::clone(shared);
    let work = move || {
        runtime.block_on(async {
            let lane = shared.log.lane();
            tokio::spawn(lane.pump());
            let (pending, mut stopping) = (PendingMinutes::default(), shared.stopping.clone());
            tokio::select! {
                () = collect_minutes(&shared, &pending) => {}
                () = submit_minutes(&shared, &lane, &pending) => {}
                () = wait_for_stop(&mut stopping) => {}
            }
        });
    };
    std::thread::Builder::new().name("load".into()).spawn(work).context("starting a thread")
}

/// Past minutes that are not written yet, each with its start in milliseconds since 1970. When the server stops, they and
/// the current minute are dropped.
#[derive(Default)]
struct PendingMinutes {
    minutes: RefCell<VecDeque<(i64, MinuteRequests)>>,
    pushed: Notify,
}

impl PendingMinutes {
    /// Adds a minute. Drops the oldest one if [`PENDING_MAX`] are pending.
    fn push(&self, minute_ms: i64, requests: MinuteRequests) {
        let mut minutes = self.minutes.borrow_mut();
        if minutes.len() >= PENDING_MAX {
            minutes.pop_front();
            error!("request metrics of one minute dropped: too many minutes wait for the log");
        }
        minutes.push_back((minute_ms, requests));
        self.pushed.notify_one();
    }

    async fn next(&self) -> (i64, MinuteRequests) {
        loop {
            let next = self.minutes.borrow_mut().pop_front();
            match next {
                Some(next) => return next,
                None => self.pushed.notified().await,
            }
        }
    }
}

/// Ends each minute on time, independently of how long the log takes for earlier minutes.
async fn collect_minutes(shared: &AppState, pending: &PendingMinutes) {
    loop {
        shared.monitor.minute_started.notified().await;
        let minute_ms = now_ms() / 60_000 * 60_000;
        sleep(Duration::from_millis((minute_ms + 60_000 - now_ms()).max(0) as u64)).await;
        pending.push(minute_ms, shared.monitor.take_minute());
    }
}

async fn submit_minutes(shared: &AppState, lane: &Lane<Claims>, pending: &PendingMinutes) {
    sleep(UPTIME_MIN.saturating_sub(shared.monitor.uptime())).await;
    loop {
        let (minute_ms, requests) = pending.next().await;
        for (game, routes) in group_by_game(shared, requests) {
            let samples: Vec<RouteSample> = routes.iter().flat_map(route_samples).collect();
            let (game, samples) = (&game, &samples);
            let submit = || submit(shared, lane, Arc::clone(game), minute_ms, samples);
            if let Err(failure) = retry_transient("request metrics", submit, || false).await {
                error!(%failure, "failed to record the request metrics of one minute");
            }
        }
    }
}

/// Groups requests by game. Requests without a game are added to those of the first game.
fn group_by_game(
    shared: &AppState,
    requests: MinuteRequests,
) -> Vec<(Arc<Game>, BTreeMap<RouteKey, OutcomeLatencies>)> {
    let first = shared.catalog.games().first().map(|game| game.number);
    let mut games: BTreeMap<u32, BTreeMap<RouteKey, OutcomeLatencies>> = BTreeMap::new();
    for (game, routes) in requests {
        let Some(game) = game.or(first) else { continue };
        let sums = games.entry(game).or_default();
        for (route, outcomes) in routes {
            add_outcomes(sums.entry(route).or_default(), &outcomes);
        }
    }
    let known = |(game, routes)| Some((shared.catalog.game_by_number(game)?, routes));
    games.into_iter().filter_map(known).collect()
}

/// The name of a metric, its number of requests and their encoded aggregate.
type RouteSample = (String, u32, Vec<u8>);

/// Returns one sample for each outcome of a route that has requests.
fn route_samples((route, outcomes): (&RouteKey, &OutcomeLatencies)) -> Vec<RouteSample> {
    let present = RequestOutcome::ALL.into_iter().zip(outcomes).filter(|(_, latency)| latency.count() > 0);
    present
        .map(|(outcome, latency)| {
            let (method, path) = (route.0, if route.1.is_empty() { "(none)" } else { &route.1 });
            let mut bytes = Vec::new();
            aggregate(latency).encode(&mut bytes);
            let count = u32::try_from(latency.count()).unwrap_or(u32::MAX);
            (format!("{REQUEST_METRIC_PREFIX}{method} {path}.{}", outcome.label()), count, bytes)
        })
        .collect()
}

/// Converts latencies to values in milliseconds: the sum is exact, each value is rounded up to the end of its bucket.
fn aggregate(latency: &LatencyHistogram) -> Aggregate {
    let mut aggregate = Aggregate { count: latency.count() as i64, ..Aggregate::default() };
    let values = aggregate.values.get_or_insert_default();
    values.sum.add(latency.total_us() as f64 / 1000.0);
    for (upper_us, count) in latency.buckets() {
        let ms = upper_us as f64 / 1000.0;
        values.min = values.min.min(ms);
        values.max = values.max.max(ms);
        values.quantiles.add(Bucket::of(ms), i64::from(count));
    }
    aggregate
}

async fn submit(
    shared: &AppState,
    lane: &Lane<Claims>,
    game: Arc<Game>,
    minute_ms: i64,
    samples: &[RouteSample],
) -> Result<(), IngestError> {
    let events = samples.iter().map(|(name, count, aggregate)| RawEvent {
        name: Some(Cow::Borrowed(name)),
        ts_ms: Some(minute_ms),
        samples: Some(Samples { received: *count, aggregate }),
        ..RawEvent::default()
    });
    let decoded = RawBatch { sent_at_ms: None, events: events.map(Ok).collect() };
    let (endpoint, received_ms, ack) = (Endpoint::Monitor, now_ms(), Ack::Disk);
    let client = ClientInfo::default();
    let request = IngestRequest { endpoint, received_ms, ack, rejected: &[], client };
    match shared.ingest.submit(lane, &Access::server(game), &request, &decoded).await {
        // An archived game stays as it is; its requests are in `/metrics` only.
        Ok(_) | Err(IngestError::Archived(_)) => Ok(()),
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the samples of a route whose requests took `took_ms` by outcome: `name: count, sum, min to max`.
    fn check(took_ms: [&[u64]; 3], expected: &[&str]) {
        let mut outcomes = OutcomeLatencies::default();
        for (latency, took_ms) in outcomes.iter_mut().zip(took_ms) {
            took_ms.iter().for_each(|ms| latency.observe(Duration::from_millis(*ms)));
        }
        let samples = route_samples((&("GET", "/v1/boards/{table}".into()), &outcomes)).into_iter().map(
            |(name, count, bytes)| {
                let cell =
                    Samples { received: count, aggregate: &bytes }.aggregate().expect("valid encoding");
                let values = cell.values.expect("values are present");
                let median = values.quantiles.quantile(0.5).expect("a median");
                // Quantiles are accurate to 1 %.
                assert!((values.min * 0.99..=values.max * 1.01).contains(&median), "{median}");
                format!("{name}: {count}, {} ms, {:.1} to {:.1}", values.sum.value(), values.min, values.max)
            },
        );
        assert_eq!(samples.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn each_route_and_outcome_with_requests_is_one_metric() {
        check([&[], &[], &[]], &[]);
        check(
            [&[1, 1, 7], &[], &[100]],
            &[
                "$load.http.GET /v1/boards/{table}.ok: 3, 9 ms, 1.0 to 7.2",
                "$load.http.GET /v1/boards/{table}.failed: 1, 100 ms, 114.7 to 114.7",
            ],
        );
    }

    fn in_runtime(work: impl Future<Output = ()>) {
        Builder::new_current_thread().enable_time().build().expect("a runtime").block_on(work);
    }

    #[test]
    fn pending_minutes_keep_their_times_and_the_oldest_is_dropped_first() {
        let pending = PendingMinutes::default();
        (0..PENDING_MAX as i64 + 2).for_each(|minute| pending.push(minute * 60_000, MinuteRequests::new()));
        in_runtime(async {
            for minute in 2..PENDING_MAX as i64 + 2 {
                assert_eq!(pending.next().await.0, minute * 60_000);
            }
        });
        assert!(pending.minutes.borrow().is_empty());
    }
}
