//! Counts of what a collector received since the server started.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use model::Reject;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// The counts of one collector.
#[derive(Debug, Default)]
pub struct CollectorCounters {
    /// Samples or events that were written.
    pub accepted: AtomicCount,
    /// Bytes read.
    pub bytes: AtomicCount,
    /// Packets or files read.
    pub packets: AtomicCount,
    /// Packets that the kernel dropped because its receive buffer was full. They also count as rejected.
    pub kernel_drops: AtomicCount,
    /// Tags that are not dimensions of the game.
    pub ignored_tags: AtomicCount,
    /// Open connections.
    pub connections: AtomicCount,
    /// Connections accepted or opened.
    pub connections_total: AtomicCount,
    /// Connections refused because a connection limit was reached.
    pub connections_refused: AtomicCount,
    /// Failed TLS handshakes.
    pub handshakes_failed: AtomicCount,
    rejected: Mutex<BTreeMap<Reject, u64>>,
}

/// A number that several threads change.
#[derive(Debug, Default)]
pub struct AtomicCount(AtomicU64);

impl AtomicCount {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn decrement(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the current value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl CollectorCounters {
    pub(crate) fn add_rejected(&self, reject: Reject, count: u64) {
        *self.rejected.lock().entry(reject).or_default() += count;
    }

    /// Returns how much was received: everything accepted and everything rejected, including packets the kernel
    /// dropped.
    pub fn received(&self) -> u64 {
        self.accepted.get() + self.rejected.lock().values().sum::<u64>()
    }

    /// Returns the counts as JSON: `received = accepted + refused`, and `reasons` splits `refused` by reason.
    pub(crate) fn to_json(&self) -> Value {
        let reasons = self.rejected.lock().clone();
        let (accepted, rejected) = (self.accepted.get(), reasons.values().sum::<u64>());
        let reasons: BTreeMap<&str, u64> =
            reasons.iter().map(|(reject, count)| (reject.label(), *count)).collect();
        json!({
            "received": accepted + rejected,
            "accepted": accepted,
            "refused": rejected,
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
