//! Opening the pipeline: from a log on disk to views that contain it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, anyhow};
use wal::{OpenedWal, Wal};

use crate::applier::{Applier, Quarantine};
use crate::catalog::Catalog;
use crate::deleted_games::DeletedGames;
use crate::disk_space::DiskSpace;
use crate::engine::Engine;
use crate::ingest::{Claims, Deduplicator, IdMasks, RegisteredUntil, replay_ids};
use crate::open_log::advice_for_damaged_views;
use crate::views::{OnFatal, Views};

/// A running log and the views that contain it.
pub struct Pipeline {
    /// Accepts entries.
    pub log: Wal<Claims>,
    /// Contain everything that was in the log.
    pub views: Arc<Views>,
    /// Not started yet. Drop it if nothing will be appended.
    pub applier: Applier,
    /// The log position up to which event ids need no replay from the log.
    pub registered_until: RegisteredUntil,
}

/// The data folder of a pipeline, and what happens when it fails.
pub struct PipelineOptions {
    /// The data folder.
    pub data: PathBuf,
    /// With less free disk space than this, no entry is accepted.
    pub free_bytes_min: u64,
    /// Size of the file that is deleted so that a checkpoint can finish on a full disk; 0 for none.
    pub reserve_bytes: u64,
    /// Called when the process cannot continue.
    pub on_fatal: OnFatal,
}

/// Applies an opened log to the event ids and the views, and starts its writer.
pub fn open_pipeline(
    opened: OpenedWal,
    engine: Engine,
    catalog: &Catalog,
    options: PipelineOptions,
) -> anyhow::Result<Pipeline> {
    let PipelineOptions { data, free_bytes_min, reserve_bytes, on_fatal } = options;
    let space = Arc::new(DiskSpace::new(&data, free_bytes_min, reserve_bytes));
    space.restore_reserve();
    let secret = catalog.id_secret();
    let mut ids = (engine.ids)(opened.report().next)?;
    replay_ids(&opened, &mut *ids, &IdMasks::new(&secret)).context("replaying event ids")?;
    let registered_until: RegisteredUntil = Arc::new(AtomicU64::new(ids.registered_until()));
    let deleted_games = Arc::new(DeletedGames::default());
    catalog.deleted_games().iter().for_each(|game| deleted_games.insert(game.number));
    let deduplicator =
        Deduplicator::new(ids, Arc::clone(&registered_until), Arc::clone(&space), Arc::clone(&deleted_games));
    let log = Wal::start(opened, Box::new(deduplicator)).context("starting the log")?;
    let mut views = Views::open(engine.counters, &secret).map_err(|error| {
        anyhow!("the views cannot be opened: {}. {}", error.0, advice_for_damaged_views(&data))
    })?;
    views.quarantine = Quarantine::open(&data, views.counters.durable_until())?;
    views.deleted_games = deleted_games;
    views.space = space;
    views.set_on_fatal(on_fatal);
    let views = Arc::new(views);
    let mut applier = Applier::new(&data, log.clone(), Arc::clone(&views), Arc::clone(&registered_until));
    applier.catch_up().context("applying the log to the views")?;
    views.pending_answers.open();
    views.accounting.reset_since_start();
    Ok(Pipeline { log, views, applier, registered_until })
}
