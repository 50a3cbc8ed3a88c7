//! What a collector has received since the start, and what became of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use model::Reject;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// The counts of one collector.
#[derive(Debug, Default)]
pub struct Counters {
    /// Samples or events that were written.
    pub accepted: Count,
    /// Bytes that were read.
    pub bytes: Count,
    /// Packets, or files that were taken in.
    pub packets: Count,
    /// Packets that the kernel had no room for. They are among the refused as well.
    pub kernel_drops: Count,
    /// Tags that are no dimensions of the game.
    pub ignored_tags: Count,
    /// Connections that are open.
    pub connections: Count,
    /// Connections there were.
    pub connections_total: Count,
    /// Connections that were one too many.
    pub connections_refused: Count,
    /// Connections that did not agree on TLS.
    pub handshakes_failed: Count,
    refused: Mutex<BTreeMap<Reject, u64>>,
}

/// A number that many threads add to.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to it.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Takes one back.
    pub fn one_less(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// What it is now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    /// Counts what was not written.
    pub fn refused(&self, reject: Reject, count: u64) {
        *self.refused.lock().entry(reject).or_default() += count;
    }

    /// What was not written, by reason.
    pub fn refusals(&self) -> BTreeMap<Reject, u64> {
        self.refused.lock().clone()
    }

    /// Everything that came, what was lost included.
    pub fn received(&self) -> u64 {
        self.accepted.get() + self.refused.lock().values().sum::<u64>()
    }

    /// `received = accepted + refused`; `reasons` says why.
    pub fn json(&self) -> Value {
        let reasons = self.refusals();
        let (accepted, refused) = (self.accepted.get(), reasons.values().sum::<u64>());
        let reasons: BTreeMap<&str, u64> =
            reasons.iter().map(|(reject, count)| (reject.label(), *count)).collect();
        json!({
            "received": accepted + refused,
            "accepted": accepted,
            "refused": refused,
            "reasons": reasons,
            "bytes": self.bytes.get(),
            "packets": self.packets.get(),
            "kernel_drops": self.kernel_drops.get(),
            "ignored_tags": self.ignored_tags.get(),
            "connections": self.connections.get(),
            "connections_total": self.connections_total.get(),
            "connections_refused": self.connections_refused.get(),
            "handshakes_failed": self.handshakes_failed.get(),
        })
    }
}
