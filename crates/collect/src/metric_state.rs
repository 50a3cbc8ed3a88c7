//! State of one game's metrics received over HTTP.

use std::sync::Arc;

use decode::otlp::CumulativeSeries;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::samples::Gauges;

/// Memory for the cumulative series of one game.
const SERIES_BYTES_MAX: usize = 16 << 20;
/// Exports of one game that are decoded and written at the same time.
const CONCURRENT_WRITES_MAX: usize = 16;

/// State needed between requests to read a game's metrics: the values of gauges, which requests change by a difference,
/// and of cumulative series.
pub struct MetricState {
    /// The last values of gauges.
    pub gauges: Arc<Gauges>,
    /// The last values of cumulative series.
    pub series: Mutex<CumulativeSeries>,
    write_permits: Arc<Semaphore>,
}

impl MetricState {
    /// Returns an empty state. Series that started before `since_ms` were counted by an earlier run of the server.
    pub(crate) fn new(since_ms: i64) -> MetricState {
        let series = Mutex::new(CumulativeSeries::new(since_ms, SERIES_BYTES_MAX));
        let write_permits = Arc::new(Semaphore::new(CONCURRENT_WRITES_MAX));
        MetricState { gauges: Arc::default(), series, write_permits }
    }

    /// Returns a permit to decode and write one export, or `None` if too many are being written.
    pub fn try_write_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.write_permits).try_acquire_owned().ok()
    }
}
