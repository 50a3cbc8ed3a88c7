//! The storage engine below the views, as the binary chose it.

use std::path::Path;
use std::sync::Arc;

use model::ports::counters::Counters;
use model::ports::ids::Ids;

/// A function that opens the event ids of a log with this end.
pub type OpenIds = Box<dyn FnOnce(u64) -> anyhow::Result<Box<dyn Ids>>>;

/// Creates empty rollups in a new folder, which is removed after use.
pub type ScratchCounters = fn(&Path) -> anyhow::Result<Arc<dyn Counters>>;

/// The stores of the views. The pipeline knows them only as ports.
pub struct Engine {
    /// Rollups, records and side state.
    pub counters: Arc<dyn Counters>,
    /// Opens the event ids, given the end of the log.
    pub ids: OpenIds,
    /// Creates empty rollups, for a recount.
    pub scratch: ScratchCounters,
}
