//! What is watched, and what it costs.

use std::time::Duration;

use serde_json::{Value, json};

use super::Live;
use super::channel::Channel;
use pipeline::time::rfc3339;

/// Subscriptions told at once.
const TOLD_MAX: usize = 100;

impl Live {
    /// What is watched of a game: the dearest subscriptions, and how many there are.
    pub fn census(&self, game: u32) -> Value {
        let channels = self.channels.lock();
        let of_game = channels.open.values().filter(|channel| channel.game.number == game);
        let mut counted: Vec<Counted> = of_game.map(|channel| channel.count()).collect();
        drop(channels);
        let open = counted.len();
        let (watchers, watches) = counted.iter().fold((0, 0), |(all, documents), counted| {
            (all + counted.watchers, documents + counted.documents)
        });
        counted.sort_by_key(|counted| std::cmp::Reverse(counted.total));
        counted.truncate(TOLD_MAX);
        let subscriptions: Vec<Value> = counted.into_iter().map(|counted| counted.json).collect();
        let connections = json!({ "streamed": watchers - watches, "as_documents": watches });
        json!({ "subscriptions": subscriptions, "open": open, "connections": connections })
    }
}

/// One channel.
struct Counted {
    watchers: usize,
    documents: usize,
    total: Duration,
    json: Value,
}

impl Channel {
    fn count(&self) -> Counted {
        let ((watchers, documents), interval) = {
            let listeners = self.listeners.lock();
            (listeners.count(), listeners.interval())
        };
        let tally = self.tally();
        let cost = tally.cost;
        let us = |time: Duration| time.as_micros() as u64;
        let json = json!({
            "topic": self.topic.label(),
            "what": self.topic.what(),
            "mode": tally.mode.map(|mode| mode.label()),
            "watchers": watchers,
            "min_interval_ms": interval.as_millis() as u64,
            "interval_ms": interval.max(cost.pause()).as_millis() as u64,
            "computations": cost.computations,
            "changes": tally.changes,
            "merged": tally.merged,
            "cost_us": { "last": us(cost.last), "mean": us(cost.mean()), "total": us(cost.total) },
            "bytes": tally.bytes,
            "opened_at": rfc3339(self.opened_at_ms),
        });
        Counted { watchers, documents, total: cost.total, json }
    }
}
