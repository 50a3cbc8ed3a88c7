//! A watched folder: complete files are ingested, then archived or deleted.
//!
//! Nothing outside the folder is touched: the folder is held open, names are looked up only in it, and links are not
//! followed. An interrupted file is read again from its beginning; its events get the same ids again, so they count once.

mod folder;
mod ingest_file;

use std::fs::File;
use std::sync::Arc;

use anyhow::Context;
use pipeline::shutdown::wait_for_stop;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::CollectContext;
use crate::collector::Collector;
use crate::runtimes::Runtimes;
use crate::settings::{AfterProcessing, DirSettings};
use crate::sink::Sink;
use crate::supervise::Workers;
use folder::{FoundFile, WatchedFolder};
use ingest_file::{FileOutcome, ingest_file};

/// Ingests files until `stop` becomes true.
pub(crate) async fn run(
    settings: DirSettings,
    collector: Arc<Collector>,
    context: CollectContext,
    runtimes: Arc<Runtimes>,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let mut workers = Workers::new();
    start(settings, &collector, &context, &runtimes, &mut workers)?;
    collector.set_running();
    workers.run(stop).await
}

/// Starts a worker that ingests files.
pub(crate) fn start(
    settings: DirSettings,
    collector: &Arc<Collector>,
    context: &CollectContext,
    runtimes: &Runtimes,
    workers: &mut Workers,
) -> anyhow::Result<()> {
    let folder = Arc::new(WatchedFolder::open(&settings.path)?);
    let runtime = runtimes.assign(collector.number);
    let sink = Sink::new(context, runtime, collector);
    workers.start(runtime, |stop| watch_folder(folder, settings, sink, stop));
    Ok(())
}

async fn watch_folder(
    folder: Arc<WatchedFolder>,
    settings: DirSettings,
    sink: Sink,
    mut stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    loop {
        let (scanned, settle) = (Arc::clone(&folder), settings.settle);
        let files = spawn_blocking(move || scanned.complete_files(settle)).await?;
        for found in files.context("scanning the folder")? {
            if *stop.borrow() {
                return Ok(());
            }
            process_file(&folder, found, &settings, &sink, &stop).await?;
        }
        tokio::select! {
            () = sleep(settings.scan_interval) => {}
            () = wait_for_stop(&mut stop) => return Ok(()),
        }
    }
}

/// Ingests one file, then archives, deletes or sets it aside.
async fn process_file(
    folder: &Arc<WatchedFolder>,
    found: FoundFile,
    settings: &DirSettings,
    sink: &Sink,
    stop: &watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let outcome = match open(folder, &found, settings).await {
        Ok(None) => return Ok(()),
        Ok(Some(file)) => ingest_file(file, found.identity, sink, stop).await,
        Err(reason) => FileOutcome::Unreadable(reason),
    };
    let (folder, after, name) = (Arc::clone(folder), settings.after, found.name.clone());
    match outcome {
        FileOutcome::Interrupted => Ok(()),
        FileOutcome::Complete => {
            let removed = spawn_blocking(move || remove_ingested(&folder, &found, after)).await?;
            sink.collector.counters.packets.add(1);
            removed.with_context(|| format!("removing the ingested file {name:?}"))
        }
        FileOutcome::Unreadable(reason) => {
            warn!(collector = sink.collector.settings.name, ?name, reason, "cannot ingest file");
            let moved = spawn_blocking(move || folder.move_to_failed(&found, &reason)).await?;
            moved.with_context(|| format!("moving the unreadable file {name:?}"))
        }
    }
}

/// Opens the file. Returns `None` if it changed or was replaced since it was found. The error says why it cannot be
/// ingested.
async fn open(
    folder: &Arc<WatchedFolder>,
    found: &FoundFile,
    settings: &DirSettings,
) -> Result<Option<File>, String> {
    if found.len > settings.file_bytes_max {
        let max = settings.file_bytes_max;
        return Err(format!("the file has {} bytes, more than file_bytes_max = {max}", found.len));
    }
    let (folder, found) = (Arc::clone(folder), found.clone());
    let opened = spawn_blocking(move || folder.open_file(&found)).await;
    opened.map_err(|failure| failure.to_string())?.map_err(|failure| failure.to_string())
}

/// Archives or deletes an ingested file. A file that changed in the meantime was not complete: it stays and is read
/// again, and the events that were already ingested count once.
fn remove_ingested(folder: &WatchedFolder, found: &FoundFile, after: AfterProcessing) -> anyhow::Result<()> {
    if !folder.is_unchanged(found)? {
        info!(name = ?found.name, "file changed while it was read: reading it again");
        return Ok(());
    }
    match after {
        AfterProcessing::Archive => folder.archive(found),
        AfterProcessing::Delete => folder.delete(found),
    }
}
