//! The engine below the views, as the binary chose it.

use std::sync::Arc;

use model::ports::counters::Counters;
use model::ports::ids::Ids;

/// Opens the event ids of a log that ends at this offset.
pub type OpenIds = Box<dyn FnOnce(u64) -> anyhow::Result<Box<dyn Ids>>>;

/// Where the views are kept. What is inside is nobody's business here.
pub struct Engine {
    /// Rollups.
    pub counters: Arc<dyn Counters>,
    /// Opens the event ids, given where the log ends.
    pub ids: OpenIds,
    /// Makes empty rollups in memory, to derive them again and compare.
    pub scratch: fn() -> Arc<dyn Counters>,
}
