//! Opening the pipeline: from a log on disk to views that contain it.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::Context;
use wal::{OpenedWal, Wal};

use crate::applier::Processor;
use crate::catalog::Catalog;
use crate::engine::Engine;
use crate::ingest::{Claims, Deduplicator, IdMasks, Remembered, remember};
use crate::views::Views;

/// A log that runs and the views brought up to it.
pub struct Followed {
    /// Takes entries.
    pub log: Wal<Claims>,
    /// Contain everything that was in the log.
    pub views: Arc<Views>,
    /// To be started, or dropped when nothing will be appended.
    pub processor: Processor,
    /// How far the event ids need no log.
    pub remembered: Remembered,
}

/// Brings ids and views up to an opened log and starts its writer.
pub fn follow(opened: OpenedWal, engine: Engine, catalog: &Catalog) -> anyhow::Result<Followed> {
    let secret = catalog.id_secret();
    let mut ids = (engine.ids)(opened.report().next)?;
    remember(&opened, &mut *ids, &IdMasks::new(&secret)).context("remembering event ids")?;
    let remembered: Remembered = Arc::new(AtomicU64::new(ids.registered_until()));
    let duplicates = Deduplicator::new(ids, Arc::clone(&remembered));
    let log = Wal::start(opened, Box::new(duplicates)).context("starting the log")?;
    let views = Arc::new(Views::open(engine.counters, &secret).context("opening the views")?);
    let mut processor = Processor::new(log.clone(), Arc::clone(&views), Arc::clone(&remembered));
    processor.catch_up();
    views.answers.open();
    views.meter.begin();
    Ok(Followed { log, views, processor, remembered })
}
