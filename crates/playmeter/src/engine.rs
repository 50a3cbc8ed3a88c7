//! The choice of the storage engine. No other module names one.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use embedded::counters::{Store, StoreOptions};
use embedded::ids::{EmbeddedIds, IdsOptions};
use model::ports::counters::Counters;
use model::ports::ids::Ids;
use pipeline::engine::Engine;
use pipeline::open_log::{advice_for_damaged_views, check_without_views};
use tracing::warn;

/// Opens the engine of a data folder, or creates it if the log is there from its start.
pub(crate) fn open(folder: &Path) -> anyhow::Result<Engine> {
    if !folder.join("views").exists() {
        check_without_views(folder)?;
    }
    open_or_create(folder)
}

/// Opens the engine of a data folder, or creates it, whatever log there is.
pub(crate) fn open_or_create(folder: &Path) -> anyhow::Result<Engine> {
    let views = folder.join("views");
    let store = Store::open(&views, &store_options()).map_err(|error| {
        let advice = advice_for_damaged_views(folder);
        anyhow!("{} cannot be opened: {}. {advice}", views.display(), error.0)
    })?;
    let counters = embedded::counters::EmbeddedCounters::open(store).context("opening the rollups")?;
    let ids = folder.join("ids");
    Ok(Engine {
        counters: Arc::new(counters),
        ids: Box::new(move |log_end| open_ids(&ids, log_end)),
        scratch,
    })
}

fn open_ids(folder: &Path, log_end: u64) -> anyhow::Result<Box<dyn Ids>> {
    let opened = EmbeddedIds::open(folder, ids_options(), log_end).context("opening the event ids")?;
    let (ids, report) = opened;
    for hole in &report.holes {
        warn!(from = hole.start, until = hole.end, "restoring event ids from this part of the log");
    }
    Ok(Box::new(ids))
}

#[cfg(not(feature = "fault-injection"))]
fn store_options() -> StoreOptions {
    StoreOptions::default()
}

#[cfg(not(feature = "fault-injection"))]
fn ids_options() -> IdsOptions {
    IdsOptions { deletion_clock: Some(pipeline::time::deletion_now_ms), ..IdsOptions::default() }
}

#[cfg(feature = "fault-injection")]
fn store_options() -> StoreOptions {
    let injected_fault =
        injected_fault::chosen("drop_checkpoint", embedded::InjectedFault::DropCheckpointPosition);
    StoreOptions { injected_fault, ..StoreOptions::default() }
}

#[cfg(feature = "fault-injection")]
fn ids_options() -> IdsOptions {
    let injected_fault = injected_fault::chosen("forget_id_insert", embedded::InjectedFault::DropIdInsert);
    let deletion_clock = Some(pipeline::time::deletion_now_ms as fn() -> Option<u64>);
    IdsOptions { injected_fault, deletion_clock, ..IdsOptions::default() }
}

/// Faults injected on purpose, to show that the crash tests find them. Not in release builds.
#[cfg(feature = "fault-injection")]
pub(crate) mod injected_fault {
    /// Returns the fault if `PLAYMETER_INJECTED_FAULT` names it.
    pub(crate) fn chosen<P>(name: &str, injected_fault: P) -> Option<P> {
        let is_chosen = std::env::var("PLAYMETER_INJECTED_FAULT").is_ok_and(|chosen| chosen == name);
        if is_chosen {
            tracing::warn!(name, "this test build fails on purpose; `make build` makes one that does not");
        }
        is_chosen.then_some(injected_fault)
    }
}

/// Memory of a recount's store: it is written once and read once, in order.
const SCRATCH_BYTES: u64 = 16 << 20;

fn scratch(folder: &Path) -> anyhow::Result<Arc<dyn Counters>> {
    let options = StoreOptions {
        memtable_bytes: SCRATCH_BYTES,
        cache_bytes: SCRATCH_BYTES,
        is_scratch: true,
        ..StoreOptions::default()
    };
    let store = Store::open(folder, &options).context("creating a store for the recount")?;
    Ok(Arc::new(embedded::counters::EmbeddedCounters::open(store)?))
}
