//! Requests by route and outcome, and how long they took.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::{Method, StatusCode};
use parking_lot::Mutex;

use super::latency::Latency;

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

/// The requests of one thread: its lock is free whenever nobody looks.
#[derive(Default)]
pub struct Requests {
    methods: Mutex<BTreeMap<&'static str, BTreeMap<String, Outcomes>>>,
}

impl Requests {
    /// Counts a request that was answered. `path` is the template that matched; empty if none did.
    pub fn answered(&self, method: &Method, path: &str, status: StatusCode, took: Duration) {
        const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
        let method = METHODS.into_iter().find(|known| *known == method.as_str()).unwrap_or("other");
        let mut methods = self.methods.lock();
        let paths = methods.entry(method).or_default();
        let outcomes = match paths.get_mut(path) {
            Some(outcomes) => outcomes,
            None => paths.entry(path.to_owned()).or_default(),
        };
        outcomes[Answered::of(status) as usize].observe(took);
    }

    /// Adds what there is to the sums of other threads.
    pub(super) fn add_to(&self, all: &mut BTreeMap<Route, Outcomes>) {
        for (method, paths) in &*self.methods.lock() {
            for (path, outcomes) in paths {
                let sums = all.entry((method, path.clone())).or_default();
                sums.iter_mut().zip(outcomes).for_each(|(sum, own)| sum.add(own));
            }
        }
    }
}
