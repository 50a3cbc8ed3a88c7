//! The requests of each minute as samples, so that they can be asked for over days: `$load.http.POST /v1/events.ok` and
//! the like, whose values are milliseconds.
//!
//! Requests are the game's whose credential they carry. Those without one (pages, health, wrong keys) are the first
//! game's: whose operator the installation is. Nothing is written for a minute in which nothing was asked.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use model::admit::REQUEST_METRIC_PREFIX;
use model::batch::{Endpoint, Samples};
use model::rollup::{Aggregate, Bucket};
use model::{RawBatch, RawEvent};
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::error;
use wal::{Ack, Lane};

use super::latency::Latency;
use super::requests::{Answered, Outcomes, Route, sum};
use crate::AppState;
use pipeline::catalog::{Access, Game};
use pipeline::ingest::{Claims, ClientInfo, IngestError, IngestRequest, retry_transient};
use pipeline::shutdown::wait_for_stop;
use pipeline::time::now_ms;

/// Requests by game and route.
pub(super) type Minute = BTreeMap<Option<u32>, BTreeMap<Route, Outcomes>>;

/// A server tells nothing before it has run for so long: one that lives for seconds leaves nothing but what it was sent.
const GROWN_UP: Duration = Duration::from_secs(60);
/// Minutes that wait for the log.
const WAITING_MAX: usize = 60;

/// Starts the thread. It sleeps until the first request of a minute, and then to the end of that minute.
pub fn start(shared: &Arc<AppState>) -> anyhow::Result<JoinHandle<()>> {
    let runtime = Builder::new_current_thread().enable_time().build().context("starting a runtime")?;
    let shared = Arc::clone(shared);
    let work = move || {
        runtime.block_on(async {
            let lane = shared.log.lane();
            tokio::spawn(lane.pump());
            let (waiting, mut stopping) = (Waiting::default(), shared.stopping.clone());
            tokio::select! {
                () = count_minutes(&shared, &waiting) => {}
                () = tell_minutes(&shared, &lane, &waiting) => {}
                () = wait_for_stop(&mut stopping) => {}
            }
        });
    };
    std::thread::Builder::new().name("load".into()).spawn(work).context("starting a thread")
}

/// Minutes that are over and wait to be told, each with its beginning in milliseconds since 1970. At the stop they, and
/// the minute that goes on, are not told.
#[derive(Default)]
struct Waiting {
    minutes: RefCell<VecDeque<(i64, Minute)>>,
    some: Notify,
}

impl Waiting {
    /// Adds a minute. Of more than there is room for, the oldest is given up.
    fn push(&self, minute_ms: i64, asked: Minute) {
        let mut minutes = self.minutes.borrow_mut();
        if minutes.len() >= WAITING_MAX {
            minutes.pop_front();
            error!("a minute of requests could not be told: too many wait for the log");
        }
        minutes.push_back((minute_ms, asked));
        self.some.notify_one();
    }

    async fn next(&self) -> (i64, Minute) {
        loop {
            let next = self.minutes.borrow_mut().pop_front();
            match next {
                Some(next) => return next,
                None => self.some.notified().await,
            }
        }
    }
}

/// Ends each minute on time, however long it takes to tell those before.
async fn count_minutes(shared: &AppState, waiting: &Waiting) {
    loop {
        shared.monitor.bell.notified().await;
        let minute_ms = now_ms() / 60_000 * 60_000;
        sleep(Duration::from_millis((minute_ms + 60_000 - now_ms()).max(0) as u64)).await;
        waiting.push(minute_ms, shared.monitor.take_minute());
    }
}

async fn tell_minutes(shared: &AppState, lane: &Lane<Claims>, waiting: &Waiting) {
    sleep(GROWN_UP.saturating_sub(shared.monitor.uptime())).await;
    loop {
        let (minute_ms, asked) = waiting.next().await;
        for (game, routes) in by_game(shared, asked) {
            let cells: Vec<(String, u32, Vec<u8>)> = routes.iter().flat_map(cells).collect();
            let (game, cells) = (&game, &cells);
            let submit = || submit(shared, lane, Arc::clone(game), minute_ms, cells);
            if let Err(failure) = retry_transient("the requests of a minute", submit, || false).await {
                error!(%failure, "the requests of a minute were not recorded");
            }
        }
    }
}

/// Nobody's requests are put to those of the first game.
fn by_game(shared: &AppState, asked: Minute) -> Vec<(Arc<Game>, BTreeMap<Route, Outcomes>)> {
    let first = shared.catalog.games().first().map(|game| game.number);
    let mut games: BTreeMap<u32, BTreeMap<Route, Outcomes>> = BTreeMap::new();
    for (game, routes) in asked {
        let Some(game) = game.or(first) else { continue };
        let sums = games.entry(game).or_default();
        for (route, outcomes) in routes {
            sum(sums.entry(route).or_default(), &outcomes);
        }
    }
    let known = |(game, routes)| Some((shared.catalog.game_by_number(game)?, routes));
    games.into_iter().filter_map(known).collect()
}

/// The metrics of one route: each outcome that there was, with how many and their encoded cell.
fn cells((route, outcomes): (&Route, &Outcomes)) -> Vec<(String, u32, Vec<u8>)> {
    let happened = Answered::ALL.into_iter().zip(outcomes).filter(|(_, latency)| latency.count() > 0);
    happened
        .map(|(answered, latency)| {
            let (method, path) = (route.0, if route.1.is_empty() { "(none)" } else { &route.1 });
            let mut bytes = Vec::new();
            cell(latency).encode(&mut bytes);
            let count = u32::try_from(latency.count()).unwrap_or(u32::MAX);
            (format!("{REQUEST_METRIC_PREFIX}{method} {path}.{}", answered.label()), count, bytes)
        })
        .collect()
}

/// Latencies as values in milliseconds: the sum is exact, the others to the upper end of their bucket.
fn cell(latency: &Latency) -> Aggregate {
    let mut cell = Aggregate { count: latency.count() as i64, ..Aggregate::default() };
    let values = cell.values.get_or_insert_default();
    values.sum.add(latency.total_us() as f64 / 1000.0);
    for (upper_us, count) in latency.buckets() {
        let ms = upper_us as f64 / 1000.0;
        values.min = values.min.min(ms);
        values.max = values.max.max(ms);
        values.quantiles.add(Bucket::of(ms), i64::from(count));
    }
    cell
}

async fn submit(
    shared: &AppState,
    lane: &Lane<Claims>,
    game: Arc<Game>,
    minute_ms: i64,
    cells: &[(String, u32, Vec<u8>)],
) -> Result<(), IngestError> {
    let events = cells.iter().map(|(name, taken, cell)| RawEvent {
        name: Some(Cow::Borrowed(name)),
        ts_ms: Some(minute_ms),
        samples: Some(Samples { received: *taken, aggregate: cell }),
        ..RawEvent::default()
    });
    let decoded = RawBatch { sent_at_ms: None, events: events.map(Ok).collect() };
    let (endpoint, received_ms, ack) = (Endpoint::Monitor, now_ms(), Ack::Disk);
    let client = ClientInfo::default();
    let request = IngestRequest { endpoint, received_ms, ack, rejected: &[], client };
    shared.ingest.submit(lane, &Access::server(game), &request, &decoded).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told of a route whose requests took so many milliseconds: `name: count, sum, smallest to largest`.
    fn check(took_ms: [&[u64]; 3], expected: &[&str]) {
        let mut outcomes = Outcomes::default();
        for (latency, took_ms) in outcomes.iter_mut().zip(took_ms) {
            took_ms.iter().for_each(|ms| latency.observe(Duration::from_millis(*ms)));
        }
        let told = cells((&("GET", "/v1/boards/{table}".into()), &outcomes)).into_iter().map(
            |(name, count, bytes)| {
                let cell =
                    Samples { received: count, aggregate: &bytes }.aggregate().expect("it was encoded");
                let values = cell.values.expect("there are some");
                let middle = values.quantiles.quantile(0.5).expect("a value");
                // Quantiles are right to a hundredth.
                assert!((values.min * 0.99..=values.max * 1.01).contains(&middle), "{middle}");
                format!("{name}: {count}, {} ms, {:.1} to {:.1}", values.sum.value(), values.min, values.max)
            },
        );
        assert_eq!(told.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_minute_is_one_metric_for_each_route_and_outcome_that_there_was() {
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
    fn minutes_that_wait_keep_their_times_and_the_oldest_goes_first() {
        let waiting = Waiting::default();
        (0..WAITING_MAX as i64 + 2).for_each(|minute| waiting.push(minute * 60_000, Minute::new()));
        in_runtime(async {
            for minute in 2..WAITING_MAX as i64 + 2 {
                assert_eq!(waiting.next().await.0, minute * 60_000);
            }
        });
        assert!(waiting.minutes.borrow().is_empty());
    }
}
