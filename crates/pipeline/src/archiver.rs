//! Follows the log and keeps raw events in the archive.
//!
//! Two threads: `archive` appends the events of the log in its order; `archive-files` writes them to files, merges files,
//! and tells the log what it may remove. The archive is behind the log by a second at most, or by nothing when a reader
//! waits.

mod game_files;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use archive::{Archive, ArchiveError, ArchiveOptions, Snapshot};
use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;
use tracing::{error, info, warn};
use wal::{RealDisk, Wal, WalError};

use crate::applier::lower_priority;
use crate::catalog::Catalog;
use crate::ingest::{BATCH, Claims};
use crate::time::{deletion_now_ms, now_ms};
use crate::views::{Views, ViewsBehind};

pub use game_files::{GameFiles, GameFilesFailure, GameRows, Reader};

/// The folder of the archive in a data folder.
const FOLDER: &str = "archive";
/// The time for which events gather before they are appended, unless a reader waits.
const CYCLE: Duration = Duration::from_secs(1);
/// Bytes of the log that are read at once.
const READ_BYTES: usize = 1 << 20;
/// The interval at which files are written and merged.
const FILES_INTERVAL: Duration = Duration::from_secs(5);
/// The pause after a failure.
const RETRY: Duration = Duration::from_secs(2);
/// Closed segments of the log that may wait for events of quiet games to be written to files.
const SEGMENTS_MAX: usize = 4;
/// The time that a reader waits for the archive at most.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// The interval at which a full memory is looked at again.
const MEMORY_POLL: Duration = Duration::from_millis(20);
const DAY_MS: i64 = 86_400_000;

/// How raw events are kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArchiveSettings {
    /// The memory and the size of files.
    pub options: ArchiveOptions,
    /// The days for which events are kept, for games that do not set them; 0 for ever.
    pub events_days: u32,
}

/// The archive and the position of the log that it contains.
pub struct Archiver {
    archive: Archive,
    events_days: u32,
    catalog: Arc<Catalog>,
    log: Wal<Claims>,
    views: Arc<Views>,
    /// The end of the log that was offered to the archive.
    appended: watch::Sender<u64>,
    signal: Mutex<Signal>,
    changed: Condvar,
    /// The folder of temporary files.
    temporary: PathBuf,
    /// Those who read what an erasure may have removed since.
    readers: Mutex<Vec<Weak<()>>>,
}

#[derive(Default)]
struct Signal {
    /// A reader waits for this position.
    wanted: u64,
    /// The memory is full.
    is_full: bool,
    is_stopped: bool,
}

impl Archiver {
    /// Opens the archive of a data folder, without starting its threads.
    ///
    /// # Errors
    /// If the disk fails, or a manifest cannot be read; the error names it and says what to do.
    pub fn open(
        data: &Path,
        settings: ArchiveSettings,
        catalog: Arc<Catalog>,
        log: Wal<Claims>,
        views: Arc<Views>,
    ) -> anyhow::Result<Arc<Archiver>> {
        let temporary = game_files::prepare_folder(data).context("removing temporary files")?;
        let ArchiveSettings { options, events_days } = settings;
        let (archive, report) =
            Archive::open(Arc::new(RealDisk), &data.join(FOLDER), options).context("opening the archive")?;
        for problem in report.problems {
            error!(problem, "a file of the archive is damaged; questions that need it fail");
        }
        if report.removed > 0 {
            info!(files = report.removed, "removed files of the archive that a crash had left behind");
        }
        let (appended, _) = watch::channel(archive.position());
        views.archived_until.store(archive.position(), Ordering::Release);
        let (signal, changed) = (Mutex::default(), Condvar::new());
        let readers = Mutex::default();
        Ok(Arc::new(Archiver {
            archive,
            events_days,
            catalog,
            log,
            views,
            appended,
            signal,
            changed,
            temporary,
            readers,
        }))
    }

    /// Starts the threads. They end after [`Archiver::stop`]; if one panics, the process must end.
    pub fn start(self: &Arc<Archiver>) -> std::io::Result<[JoinHandle<()>; 2]> {
        let start = |name: &'static str, run: fn(&Archiver)| {
            let archiver = Arc::clone(self);
            let run = move || {
                lower_priority();
                if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&archiver))).is_err() {
                    archiver.views.fail(&format!("the thread {name} panicked; start the server again"));
                }
            };
            std::thread::Builder::new().name(name.into()).spawn(run)
        };
        Ok([start("archive", Archiver::follow)?, start("archive-files", Archiver::write_files)?])
    }

    /// Ends the threads. What is not in a file is appended again after the next start.
    pub fn stop(&self) {
        self.set(|signal| signal.is_stopped = true);
    }

    /// Returns all events of a game up to `position` of the log, as soon as the archive contains them.
    ///
    /// # Errors
    /// If it does not in time.
    pub async fn snapshot(&self, game: u32, position: u64) -> Result<Snapshot, ViewsBehind> {
        self.caught_up(position).await?;
        Ok(self.archive.snapshot(game))
    }

    async fn caught_up(&self, position: u64) -> Result<(), ViewsBehind> {
        if *self.appended.borrow() >= position {
            return Ok(());
        }
        self.want(position);
        let mut appended = self.appended.subscribe();
        // The sender lives in `self`, so it cannot be gone.
        let wait = appended.wait_for(|until| *until >= position);
        tokio::time::timeout(WAIT_MAX, wait).await.map(|_| ()).map_err(|_| ViewsBehind)
    }

    /// Removes what identifies players from the events of a game up to `position`; see [`Archive::erase`]. Blocks until no
    /// file contains it any more. Returns early, with false, if `is_stopping` says so.
    pub fn erase(
        &self,
        game: u32,
        players: &[u64],
        position: u64,
        is_stopping: impl Fn() -> bool,
    ) -> anyhow::Result<bool> {
        if !self.wait_appended(position, &is_stopping) {
            return Ok(false);
        }
        let files = self.views.archive_files.lock();
        let erased = self.archive.erase(game, self.views.seeds.of(game), players)?;
        drop(files);
        if erased.events > 0 {
            info!(events = erased.events, files = erased.files, "events of erased players in the archive");
        }
        Ok(self.wait_unread(&is_stopping))
    }

    /// Removes everything of deleted games, of which nothing is appended to the log since `position`. Blocks until no file
    /// is left, or `is_stopping`.
    pub fn remove_games(
        &self,
        games: &BTreeSet<u32>,
        position: u64,
        is_stopping: impl Fn() -> bool,
    ) -> anyhow::Result<()> {
        // What the thread that appends has read of the log may contain them.
        if !self.wait_appended(position, &is_stopping) {
            return Ok(());
        }
        let files = self.views.archive_files.lock();
        for game in games {
            self.archive.remove_game(*game).context("removing a game from the archive")?;
        }
        drop(files);
        self.wait_unread(&is_stopping);
        Ok(())
    }

    /// Waits until no question reads replaced files, or temporary ones with the same rows: they end within their deadline.
    /// Returns false if the server stops before that.
    fn wait_unread(&self, is_stopping: &dyn Fn() -> bool) -> bool {
        let readers = self.readers.lock().clone();
        let is_unread = || readers.iter().all(|reader| reader.strong_count() == 0);
        wait_for(|| self.archive.replaced_files() == 0 && is_unread(), is_stopping)
    }

    /// Returns true once everything before `position` was offered to the archive, false if it stops.
    fn wait_appended(&self, position: u64, is_stopping: &dyn Fn() -> bool) -> bool {
        self.want(position);
        wait_for(|| *self.appended.borrow() >= position, is_stopping)
    }

    /// Returns the files of the archive.
    pub fn archive(&self) -> &Archive {
        &self.archive
    }

    fn want(&self, position: u64) {
        self.set(|signal| signal.wanted = signal.wanted.max(position));
    }

    fn set(&self, change: impl FnOnce(&mut Signal)) {
        change(&mut self.signal.lock());
        self.changed.notify_all();
    }

    /// Waits until `is_due` or for `pause`. Returns false if the thread is to end.
    fn wait(&self, pause: Duration, is_due: impl Fn(&Signal) -> bool) -> bool {
        let until = Instant::now() + pause;
        let mut signal = self.signal.lock();
        while !signal.is_stopped && !is_due(&signal) {
            if self.changed.wait_until(&mut signal, until).timed_out() {
                break;
            }
        }
        !signal.is_stopped
    }

    /// Body of the thread that appends.
    fn follow(&self) {
        let mut at = self.archive.position();
        while self.wait(CYCLE, |signal| signal.wanted > at) {
            while at < self.log.durable_until() && !self.signal.lock().is_stopped {
                at = match self.append_from(at) {
                    Ok(next) => next,
                    Err(WalError::Stopped | WalError::Closed) => return,
                    Err(failure) => {
                        error!(%failure, at, "the log cannot be read for the archive; trying again");
                        std::thread::sleep(RETRY);
                        at
                    }
                };
                self.appended.send_replace(at);
                self.wait_for_memory();
            }
        }
    }

    /// Appends a part of the log. Returns where the next part starts.
    fn append_from(&self, at: u64) -> Result<u64, WalError> {
        let batch = match self.log.read(at, READ_BYTES) {
            Err(WalError::Trimmed { first }) => {
                warn!(
                    from = at,
                    until = first,
                    "a part of the log was removed before the archive contained it"
                );
                return Ok(first);
            }
            batch => batch?,
        };
        for entry in batch.chunks.iter().flat_map(|chunk| chunk.entries_from(at)) {
            let is_deleted = || self.views.deleted_games.contains_entry(entry.kind, entry.bytes);
            let is_skipped = || self.views.quarantine.is_skipped(entry.offset) || is_deleted();
            if entry.kind != BATCH || entry.events == 0 || is_skipped() {
                continue;
            }
            let game = model::batch::EventBatch::read(entry.bytes).map(|batch| batch.game);
            let seed = |game| self.views.seeds.of(game);
            let appended = game
                .and_then(|game| self.archive.append(seed(game), entry.offset..entry.until(), entry.bytes));
            if let Err(failure) = appended {
                error!(%failure, offset = entry.offset, "an invalid batch in the log is not archived");
            }
        }
        Ok(batch.next)
    }

    /// Waits while events outside of files take too much memory. What is not appended yet waits in the log.
    fn wait_for_memory(&self) {
        while self.archive.is_over_budget() && !self.signal.lock().is_stopped {
            self.set(|signal| signal.is_full = true);
            std::thread::sleep(MEMORY_POLL);
        }
    }

    /// Body of the thread that writes files.
    fn write_files(&self) {
        while self.wait(FILES_INTERVAL, |signal| signal.is_full) {
            self.signal.lock().is_full = false;
            match self.maintain() {
                Ok(()) => {}
                Err(failure @ ArchiveError::Stopped) => return self.views.fail(&failure.to_string()),
                Err(failure) => {
                    error!(%failure, "files of the archive cannot be written; trying again");
                    self.wait(RETRY, |_| false);
                }
            }
        }
    }

    fn maintain(&self) -> Result<(), ArchiveError> {
        // Before the position is taken, so that it is behind everything that was offered.
        let appended = *self.appended.borrow();
        let _files = self.views.archive_files.lock();
        // Before files are written: it may make the room for them.
        self.delete_old()?;
        self.archive.maintain(now_ms())?;
        let waiting = self.log.closed_segments();
        let position = self.archive.position();
        if waiting.iter().filter(|segment| segment.end > position).count() > SEGMENTS_MAX {
            self.archive.games().into_iter().try_for_each(|game| self.archive.flush(game))?;
        }
        let position = self.archive.advance(appended)?;
        self.views.archived_until.store(position, Ordering::Release);
        Ok(())
    }

    /// Deletes the events that are older than their game keeps them.
    fn delete_old(&self) -> Result<(), ArchiveError> {
        let Some(now_ms) = deletion_now_ms() else { return Ok(()) };
        for game in self.archive.games() {
            let own = self.catalog.game_by_number(game).and_then(|game| game.settings.events_days);
            let days = own.unwrap_or(self.events_days);
            if days == 0 {
                continue;
            }
            let first_kept_ms = now_ms as i64 - i64::from(days) * DAY_MS;
            let events = self.archive.delete_before(game, first_kept_ms)?;
            if events > 0 {
                info!(game, events, days, "raw events were deleted because of their age");
            }
        }
        Ok(())
    }
}

/// Waits until `is_done`. Returns false if the server stops before that.
fn wait_for(is_done: impl Fn() -> bool, is_stopping: &dyn Fn() -> bool) -> bool {
    while !is_done() {
        if is_stopping() {
            return false;
        }
        std::thread::sleep(MEMORY_POLL);
    }
    true
}
