//! Requests by route and outcome, and how long they took.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::{Method, StatusCode};
use parking_lot::Mutex;

use super::latency::Latency;
use super::minutes::Minute;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answered {
    /// 1xx to 3xx.
    Ok,
    /// 4xx: the client's doing.
    Refused,
    /// 5xx: the server's.
    Failed,
}

impl Answered {
    /// What a status means.
    pub fn of(status: StatusCode) -> Answered {
        match status.as_u16() {
            ..400 => Answered::Ok,
            400..500 => Answered::Refused,
            _ => Answered::Failed,
        }
    }

    /// All of them.
    pub const ALL: [Answered; 3] = [Answered::Ok, Answered::Refused, Answered::Failed];

    /// The word in answers.
    pub fn label(self) -> &'static str {
        ["ok", "refused", "failed"][self as usize]
    }
}

/// Latencies by outcome.
pub(super) type Outcomes = [Latency; Answered::ALL.len()];

/// A method and the template of a path, such as `GET` and `/v1/boards/{table}`; never what a client typed.
pub(super) type Route = (&'static str, String);

/// Outcomes by method and path.
type Methods = BTreeMap<&'static str, BTreeMap<String, Outcomes>>;

/// The requests of one thread: its lock is free whenever nobody looks.
#[derive(Default)]
pub struct Requests {
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    /// Those of the minutes that are over.
    before: Methods,
    /// Those of this minute, by game.
    minute: BTreeMap<Option<u32>, Methods>,
}

impl Requests {
    /// Counts a request that was answered for a game, if it was one's. `path` is the template that matched; empty if none
    /// did. Whether it is the first of this minute.
    pub fn answered(
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
        outcomes[Answered::of(status) as usize].observe(took);
        is_first
    }

    /// Adds what there is since the start to the sums of other threads.
    pub(super) fn add_to(&self, all: &mut BTreeMap<Route, Outcomes>) {
        let counts = self.counts.lock();
        counts.minute.values().chain([&counts.before]).for_each(|methods| add(methods, all));
    }

    /// Begins a new minute, and adds what was asked in the one that is over to that of other threads.
    pub(super) fn turn_minute(&self, all: &mut Minute) {
        let mut counts = self.counts.lock();
        for (game, methods) in std::mem::take(&mut counts.minute) {
            add(&methods, all.entry(game).or_default());
            for (method, paths) in methods {
                let before = counts.before.entry(method).or_default();
                paths
                    .into_iter()
                    .for_each(|(path, outcomes)| sum(before.entry(path).or_default(), &outcomes));
            }
        }
    }
}

fn add(methods: &Methods, all: &mut BTreeMap<Route, Outcomes>) {
    for (method, paths) in methods {
        for (path, outcomes) in paths {
            sum(all.entry((method, path.clone())).or_default(), outcomes);
        }
    }
}

/// Adds latencies to those of the same outcome.
pub(super) fn sum(sums: &mut Outcomes, own: &Outcomes) {
    sums.iter_mut().zip(own).for_each(|(sum, own)| sum.add(own));
}
