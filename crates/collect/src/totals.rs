//! What is remembered of the metrics of one game that come over HTTP: gauges that are changed, and totals that grow.

use std::sync::Arc;

use decode::otlp::CumulativeSeries;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::samples::Gauges;

/// Memory for the totals of one game.
const SERIES_BYTES_MAX: usize = 16 << 20;
/// Exports of one game that are written at the same time.
const WRITING_MAX: usize = 16;

/// See above.
pub struct Totals {
    /// What gauges show.
    pub gauges: Arc<Gauges>,
    /// The totals that were sent last.
    pub series: Mutex<CumulativeSeries>,
    turns: Arc<Semaphore>,
}

impl Totals {
    /// Nothing is known yet; what began before this time was counted before.
    pub(super) fn new(since_ms: i64) -> Totals {
        let series = Mutex::new(CumulativeSeries::new(since_ms, SERIES_BYTES_MAX));
        Totals { gauges: Arc::default(), series, turns: Arc::new(Semaphore::new(WRITING_MAX)) }
    }

    /// The right to decode one export and write it. Nothing: too many are being written.
    pub fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.turns).try_acquire_owned().ok()
    }
}
