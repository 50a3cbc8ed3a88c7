//! Statistics of the open subscriptions of a game.

use std::cmp::Reverse;
use std::time::Duration;

use pipeline::time::rfc3339;
use serde_json::{Value, json};

use crate::Live;
use crate::channel::Channel;

/// Subscriptions listed at once.
const LISTED_MAX: usize = 100;

impl Live {
    /// Returns the most expensive subscriptions of a game with their cost, and the total number of subscriptions and
    /// subscribers.
    pub fn subscription_stats(&self, game: u32) -> Value {
        let channels = self.channels.lock();
        let of_game = channels.open.values().filter(|channel| channel.game.number == game);
        let mut rows: Vec<StatsRow> = of_game.map(|channel| channel.stats_row()).collect();
        drop(channels);
        let open = rows.len();
        let (subscribers, with_documents) = rows.iter().fold((0, 0), |(subscribers, documents), row| {
            (subscribers + row.subscribers, documents + row.documents)
        });
        rows.sort_by_key(|row| Reverse(row.total));
        rows.truncate(LISTED_MAX);
        let subscriptions: Vec<Value> = rows.into_iter().map(|row| row.json).collect();
        let connections = json!({ "streamed": subscribers - with_documents, "as_documents": with_documents });
        json!({ "subscriptions": subscriptions, "open": open, "connections": connections })
    }
}

/// The statistics of one channel.
struct StatsRow {
    subscribers: usize,
    /// Subscribers that get documents.
    documents: usize,
    total: Duration,
    json: Value,
}

impl Channel {
    fn stats_row(&self) -> StatsRow {
        let ((subscribers, documents), interval) = {
            let subscribers = self.subscribers.lock();
            (subscribers.counts(), subscribers.min_interval())
        };
        let stats = self.stats();
        let cost = stats.cost;
        let us = |time: Duration| time.as_micros() as u64;
        let json = json!({
            "topic": self.topic.label(),
            "what": self.topic.description(),
            "mode": stats.mode.map(|mode| mode.label()),
            "watchers": subscribers,
            "min_interval_ms": interval.as_millis() as u64,
            "interval_ms": interval.max(cost.pause()).as_millis() as u64,
            "computations": cost.computations,
            "changes": stats.changes,
            "merged": stats.merged,
            "cost_us": { "last": us(cost.last), "mean": us(cost.mean()), "total": us(cost.total) },
            "bytes": stats.bytes,
            "opened_at": rfc3339(self.opened_at_ms),
        });
        StatsRow { subscribers, documents, total: cost.total, json }
    }
}
