//! Opening the pipeline: from a log on disk to views that contain it.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::Context;
use wal::{OpenedWal, Wal};

use crate::applier::Applier;
use crate::catalog::Catalog;
use crate::engine::Engine;
use crate::ingest::{Claims, Deduplicator, IdMasks, RegisteredUntil, replay_ids};
use crate::views::Views;

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

/// Applies an opened log to the event ids and the views, and starts its writer.
pub fn open_pipeline(opened: OpenedWal, engine: Engine, catalog: &Catalog) -> anyhow::Result<Pipeline> {
    let secret = catalog.id_secret();
    let mut ids = (engine.ids)(opened.report().next)?;
    replay_ids(&opened, &mut *ids, &IdMasks::new(&secret)).context("replaying event ids")?;
    let registered_until: RegisteredUntil = Arc::new(AtomicU64::new(ids.registered_until()));
    let deduplicator = Deduplicator::new(ids, Arc::clone(&registered_until));
    let log = Wal::start(opened, Box::new(deduplicator)).context("starting the log")?;
    let views = Arc::new(Views::open(engine.counters, &secret).context("opening the views")?);
    let mut applier = Applier::new(log.clone(), Arc::clone(&views), Arc::clone(&registered_until));
    applier.catch_up();
    views.pending_answers.open();
    views.accounting.reset_since_start();
    Ok(Pipeline { log, views, applier, registered_until })
}
