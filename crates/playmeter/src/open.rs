//! The one place that knows which engines there are.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use embedded::ids::{EmbeddedIds, IdsOptions};
use model::ports::counters::Counters;
use model::ports::ids::Ids;
use server::server::Engine;
use tracing::warn;

/// Opens the engine of a data folder.
pub fn engine(folder: &Path) -> anyhow::Result<Engine> {
    let store = embedded::counters::Store::open(&folder.join("views")).context("opening the views")?;
    let counters = embedded::counters::Counters::open(store).context("opening the rollups")?;
    let ids = folder.join("ids");
    Ok(Engine {
        counters: Arc::new(counters),
        ids: Box::new(move |log_end| open_ids(&ids, log_end)),
        scratch,
    })
}

fn open_ids(folder: &Path, log_end: u64) -> anyhow::Result<Box<dyn Ids>> {
    let opened =
        EmbeddedIds::open(folder, IdsOptions::default(), log_end).context("opening the event ids")?;
    let (ids, report) = opened;
    for hole in &report.holes {
        warn!(from = hole.start, until = hole.end, "event ids are derived again from this part of the log");
    }
    Ok(Box::new(ids))
}

fn scratch() -> Arc<dyn Counters> {
    Arc::new(embedded::counters::Counters::in_memory())
}
