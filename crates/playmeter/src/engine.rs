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

/// The memory for the filters of event ids takes two bytes per id of the last seven days. Without it, each new id costs a
/// read from disk per run, while all commits wait.
const FILTER_BYTES: std::ops::RangeInclusive<u64> = 64 << 20..=1 << 30;
/// The share of the machine's memory for filters, as a divisor.
const FILTER_SHARE: u64 = 32;

fn filter_bytes_max() -> u64 {
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    memory_bytes(&read("/proc/meminfo"), &read("/sys/fs/cgroup/memory.max"))
        .map_or(*FILTER_BYTES.start(), |bytes| {
            (bytes / FILTER_SHARE).clamp(*FILTER_BYTES.start(), *FILTER_BYTES.end())
        })
}

/// Returns the memory of the machine or, if that is less, of the container.
fn memory_bytes(meminfo: &str, cgroup_max: &str) -> Option<u64> {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
    let total = total.and_then(|total| total.parse::<u64>().ok()).map(|total| total << 10);
    let limit = cgroup_max.trim().parse().ok();
    total.into_iter().chain(limit).min()
}

#[cfg(not(feature = "fault-injection"))]
fn store_options() -> StoreOptions {
    StoreOptions::default()
}

#[cfg(not(feature = "fault-injection"))]
fn ids_options() -> IdsOptions {
    IdsOptions {
        deletion_clock: Some(pipeline::time::deletion_now_ms),
        filter_bytes_max: filter_bytes_max(),
        ..IdsOptions::default()
    }
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
    IdsOptions {
        injected_fault,
        deletion_clock,
        filter_bytes_max: filter_bytes_max(),
        ..IdsOptions::default()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_that_of_the_machine_or_of_its_container() {
        let meminfo = "MemFree: 1 kB\nMemTotal:       8192 kB\n";
        assert_eq!(memory_bytes(meminfo, ""), Some(8 << 20));
        assert_eq!(memory_bytes(meminfo, "max\n"), Some(8 << 20));
        assert_eq!(memory_bytes(meminfo, "4096\n"), Some(4096));
        assert_eq!(memory_bytes("", ""), None);
        assert!(FILTER_BYTES.contains(&filter_bytes_max()));
    }
}
