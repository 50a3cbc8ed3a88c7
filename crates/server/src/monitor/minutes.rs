//! The requests of each minute as samples, so that they can be asked for over days: `$load.http.POST /v1/events.ok` and
//! the like, whose values are milliseconds.
//!
//! Requests are the game's whose credential they carry. Those without one (pages, health, wrong keys) are the first
//! game's: whose operator the installation is. Nothing is written for a minute in which nothing was asked.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use decode::json::Decoded;
use log::{Ack, Lane};
use model::RawEvent;
use model::admit::OWN_REQUESTS;
use model::record::{Endpoint, Samples};
use model::rollup::{Bucket, Cell};
use tokio::runtime::Builder;
use tokio::time::sleep;
use tracing::error;

use super::latency::Latency;
use super::requests::{Answered, Outcomes, Route, sum};
use crate::catalog::{Access, Game};
use crate::http::stopped;
use crate::line::{Claims, LineError, Request};
use crate::server::Shared;
use crate::time::now_ms;

/// Requests by game and route.
pub(super) type Minute = BTreeMap<Option<u32>, BTreeMap<Route, Outcomes>>;

/// A server tells nothing before it has run for so long: one that lives for seconds leaves nothing but what it was sent.
const GROWN_UP: Duration = Duration::from_secs(60);

/// Starts the thread. It sleeps until the first request of a minute, and then to the end of that minute.
pub(crate) fn start(shared: &Arc<Shared>) -> anyhow::Result<JoinHandle<()>> {
    let runtime = Builder::new_current_thread().enable_time().build().context("starting a runtime")?;
    let shared = Arc::clone(shared);
    let work = move || {
        runtime.block_on(async {
            let lane = shared.log.lane();
            tokio::spawn(lane.pump());
            tell_minutes(&shared, &lane).await;
        });
    };
    std::thread::Builder::new().name("load".into()).spawn(work).context("starting a thread")
}

/// What was asked in the minute that goes on when the server stops is not told.
async fn tell_minutes(shared: &Shared, lane: &Lane<Claims>) {
    let mut stopping = shared.stopping.clone();
    let work = async {
        loop {
            shared.monitor.bell.notified().await;
            let minute_ms = now_ms() / 60_000 * 60_000;
            sleep(Duration::from_millis((minute_ms + 60_000 - now_ms()).max(0) as u64)).await;
            let asked = shared.monitor.take_minute();
            sleep(GROWN_UP.saturating_sub(shared.monitor.uptime())).await;
            tell(shared, lane, minute_ms, asked).await;
        }
    };
    tokio::select! { () = work => {}, () = stopped(&mut stopping) => {} }
}

async fn tell(shared: &Shared, lane: &Lane<Claims>, minute_ms: i64, asked: Minute) {
    for (game, routes) in by_game(shared, asked) {
        let cells: Vec<(String, u32, Vec<u8>)> = routes.iter().flat_map(cells).collect();
        if let Err(failure) = write(shared, lane, game, minute_ms, &cells).await {
            error!(%failure, "a minute of requests could not be told");
        }
    }
}

/// Nobody's requests are put to those of the first game.
fn by_game(shared: &Shared, asked: Minute) -> Vec<(Arc<Game>, BTreeMap<Route, Outcomes>)> {
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
            (format!("{OWN_REQUESTS}{method} {path}.{}", answered.label()), count, bytes)
        })
        .collect()
}

/// Latencies as values in milliseconds: the sum is exact, the others to the upper end of their bucket.
fn cell(latency: &Latency) -> Cell {
    let mut cell = Cell { count: latency.count() as i64, ..Cell::default() };
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

async fn write(
    shared: &Shared,
    lane: &Lane<Claims>,
    game: Arc<Game>,
    minute_ms: i64,
    cells: &[(String, u32, Vec<u8>)],
) -> Result<(), LineError> {
    let events = cells.iter().map(|(name, taken, cell)| RawEvent {
        name: Some(Cow::Borrowed(name)),
        ts_ms: Some(minute_ms),
        samples: Some(Samples { taken: *taken, cell }),
        ..RawEvent::default()
    });
    let decoded = Decoded { sent_at_ms: None, events: events.map(Ok).collect() };
    let (endpoint, received_ms, ack) = (Endpoint::Monitor, now_ms(), Ack::Disk);
    let request = Request { endpoint, received_ms, address: None, user_agent: "", ack, refused: &[] };
    shared.line.take(lane, &Access::own(game), &request, &decoded).await.map(drop)
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
                let cell = Samples { taken: count, cell: &bytes }.cell().expect("it was encoded");
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
}
