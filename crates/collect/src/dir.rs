//! A folder into which others put files: a complete one is taken in, then moved away or deleted.
//!
//! Nothing outside of the folder is touched: it is held open, names are looked up in it alone, links are not followed. A
//! file that was interrupted is read again from its beginning; its events have the same ids then, so they count once.

mod folder;
mod intake;

use std::fs::File;
use std::sync::Arc;

use anyhow::Context;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::{info, warn};

use super::intake::Desk;
use super::settings::{After, DirSettings};
use super::supervise::Crew;
use super::{CollectContext, Collector, Places};
use folder::{Folder, Found};
use intake::{Taken, take_in};
use pipeline::shutdown::wait_for_stop;

/// Takes files in until `stop` says so.
pub(super) async fn run(
    settings: DirSettings,
    collector: Arc<Collector>,
    context: CollectContext,
    places: Arc<Places>,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let folder = Folder::open(&settings.path)?;
    let place = places.by_turns(collector.number);
    let desk = Desk::new(&context, place, &collector);
    let mut crew = Crew::new();
    crew.start(place, |end| watch_folder(Arc::new(folder), settings, desk, end));
    collector.is_running();
    crew.work(stop).await
}

async fn watch_folder(
    folder: Arc<Folder>,
    settings: DirSettings,
    desk: Desk,
    mut end: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    loop {
        let (scanned, settle) = (Arc::clone(&folder), settings.settle);
        let files = spawn_blocking(move || scanned.complete_files(settle)).await?;
        for found in files.context("looking through the folder")? {
            if *end.borrow() {
                return Ok(());
            }
            one_file(&folder, found, &settings, &desk, &end).await?;
        }
        tokio::select! {
            () = sleep(settings.scan_interval) => {}
            () = wait_for_stop(&mut end) => return Ok(()),
        }
    }
}

/// Takes in one file and puts it away.
async fn one_file(
    folder: &Arc<Folder>,
    found: Found,
    settings: &DirSettings,
    desk: &Desk,
    end: &watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let taken = match open(folder, &found, settings).await {
        Ok(None) => return Ok(()),
        Ok(Some(file)) => take_in(file, found.identity, desk, end).await,
        Err(reason) => Taken::Unreadable(reason),
    };
    let (folder, after, name) = (Arc::clone(folder), settings.after, found.name.clone());
    match taken {
        Taken::Interrupted => Ok(()),
        Taken::Whole => {
            let away = spawn_blocking(move || put_away(&folder, &found, after)).await?;
            desk.collector.counters.packets.add(1);
            away.with_context(|| format!("putting away {name:?}"))
        }
        Taken::Unreadable(reason) => {
            warn!(collector = desk.collector.settings.name, ?name, reason, "a file cannot be taken in");
            let aside = spawn_blocking(move || folder.put_aside(&found, &reason)).await?;
            aside.with_context(|| format!("putting aside {name:?}"))
        }
    }
}

/// The file, if it is still the same that was found; or why it cannot be taken.
async fn open(folder: &Arc<Folder>, found: &Found, settings: &DirSettings) -> Result<Option<File>, String> {
    if found.len > settings.file_bytes_max {
        return Err(format!("it has {} bytes; file_bytes_max is {}", found.len, settings.file_bytes_max));
    }
    let (folder, found) = (Arc::clone(folder), found.clone());
    let opened = spawn_blocking(move || folder.open_file(&found)).await;
    opened.map_err(|failure| failure.to_string())?.map_err(|failure| failure.to_string())
}

/// What has changed meanwhile was not complete; it stays and is read again, and what was taken counts once.
fn put_away(folder: &Folder, found: &Found, after: After) -> anyhow::Result<()> {
    if !folder.is_unchanged(found)? {
        info!(name = ?found.name, "a file has changed while it was read; it is read again");
        return Ok(());
    }
    match after {
        After::Archive => folder.archive(found),
        After::Delete => folder.delete(found),
    }
}
