//! The requests of one thread by game, route and outcome, with their latencies.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::{Method, StatusCode};
use parking_lot::Mutex;

use super::latency::LatencyHistogram;
use super::minutes::MinuteRequests;

/// The class of a response status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RequestOutcome {
    /// 1xx to 3xx.
    Ok,
    /// 4xx: an error of the client.
    Rejected,
    /// 5xx: an error of the server.
    Failed,
}

impl RequestOutcome {
    pub(super) const ALL: [RequestOutcome; 3] =
        [RequestOutcome::Ok, RequestOutcome::Rejected, RequestOutcome::Failed];

    fn from_status(status: StatusCode) -> RequestOutcome {
        match status.as_u16() {
            ..400 => RequestOutcome::Ok,
            400..500 => RequestOutcome::Rejected,
            _ => RequestOutcome::Failed,
        }
    }

    /// Returns the name of the outcome in responses and metric names.
    pub(super) fn label(self) -> &'static str {
        ["ok", "refused", "failed"][self as usize]
    }
}

/// Latencies by [`RequestOutcome`].
pub(super) type OutcomeLatencies = [LatencyHistogram; RequestOutcome::ALL.len()];

/// A method and the template of a path, such as `GET` and `/v1/boards/{table}`; never a path as a client sent it.
pub(super) type RouteKey = (&'static str, String);

/// Latencies by method and path template.
type RouteLatencies = BTreeMap<&'static str, BTreeMap<String, OutcomeLatencies>>;

/// The request counts of one thread. Its lock is contended only while a snapshot is taken.
#[derive(Default)]
pub(crate) struct RequestCounts {
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    /// Requests of past minutes.
    past: RouteLatencies,
    /// Requests of the current minute, by game.
    minute: BTreeMap<Option<u32>, RouteLatencies>,
}

impl RequestCounts {
    /// Counts a request, for a game if it has one, and returns true if it is the first of the minute. `path` is the
    /// template that matched; empty if none did.
    pub(super) fn record(
        &self,
        game: Option<u32>,
        method: &Method,
        path: &str,
        status: StatusCode,
        took: Duration,
    ) -> bool {
        const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
        let method = METHODS.into_iter().find(|known| *known == method.as_str()).unwrap_or("other");
        let mut counts = self.counts.lock();
        let is_first = counts.minute.is_empty();
        let paths = counts.minute.entry(game).or_default().entry(method).or_default();
        let outcomes = match paths.get_mut(path) {
            Some(outcomes) => outcomes,
            None => paths.entry(path.to_owned()).or_default(),
        };
        outcomes[RequestOutcome::from_status(status) as usize].observe(took);
        is_first
    }

    /// Adds the requests since the start to `all`.
    pub(super) fn add_to(&self, all: &mut BTreeMap<RouteKey, OutcomeLatencies>) {
        let counts = self.counts.lock();
        counts.minute.values().chain([&counts.past]).for_each(|routes| add_routes(routes, all));
    }

    /// Ends the current minute and adds its requests to `all`.
    pub(super) fn take_minute(&self, all: &mut MinuteRequests) {
        let mut counts = self.counts.lock();
        for (game, routes) in std::mem::take(&mut counts.minute) {
            add_routes(&routes, all.entry(game).or_default());
            for (method, paths) in routes {
                let past = counts.past.entry(method).or_default();
                paths
                    .into_iter()
                    .for_each(|(path, outcomes)| add_outcomes(past.entry(path).or_default(), &outcomes));
            }
        }
    }
}

fn add_routes(routes: &RouteLatencies, all: &mut BTreeMap<RouteKey, OutcomeLatencies>) {
    for (method, paths) in routes {
        for (path, outcomes) in paths {
            add_outcomes(all.entry((method, path.clone())).or_default(), outcomes);
        }
    }
}

/// Adds each latency to the sum of its outcome.
pub(super) fn add_outcomes(sums: &mut OutcomeLatencies, outcomes: &OutcomeLatencies) {
    sums.iter_mut().zip(outcomes).for_each(|(sum, latency)| sum.add(latency));
}
