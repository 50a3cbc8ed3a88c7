//! The archive: events of all games in files by day, and the newest ones in memory.
//!
//! The log is the source: entries are appended in log order, and what was not yet cut when the process ends is appended
//! again after the next start. The manifest of a game names its parts and the position up to which the game's events
//! are in them. It is replaced as a whole, so that after a crash each event is either in one part or below no position.

mod changes;
mod deletion;
mod inventory;
mod open;
mod parts;
mod tail;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use model::batch::{EventBatch, InvalidBatch};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use wal::Disk;

pub(crate) use changes::erase_rows;
pub use changes::{Erased, Maintained};
pub use inventory::{FileInventory, GameInventory};
pub use open::OpenReport;

pub(crate) use parts::Part;
pub(crate) use tail::{OpenTail, Segment};

use crate::builder::Day;
use crate::files::{self, ReplaceError};
use crate::part::PartInfo;
use crate::snapshot::Snapshot;
use tail::Tail;

const FORMAT: u32 = 1;

/// How much the archive keeps in memory and puts into one file.
#[derive(Clone, Copy, Debug)]
pub struct ArchiveOptions {
    /// Memory for events that are not in a file yet, of all games together.
    pub memory_bytes_max: usize,
    /// A game's events are cut when there are this many.
    pub part_rows: usize,
}

impl Default for ArchiveOptions {
    fn default() -> ArchiveOptions {
        ArchiveOptions { memory_bytes_max: 64 << 20, part_rows: 262_144 }
    }
}

/// Why the archive cannot do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The disk failed or is full. Nothing has changed; the caller may try again.
    #[error("{path}: {error}")]
    Disk {
        /// The file, below the folder of the archive.
        path: String,
        /// What the system says.
        error: io::Error,
    },
    /// A file is missing or damaged.
    #[error("{path} {problem}; {advice}")]
    Damaged {
        /// The file, below the folder of the archive.
        path: String,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        advice: &'static str,
    },
    /// A file could not be replaced durably, so that its content after a power cut is unknown. The archive changes no
    /// files before it is opened again; it still takes events within its memory and answers questions.
    #[error("the archive changes no files any more since a write failed; restart the server")]
    Stopped,
}

/// The memory that events outside of files use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveMemory {
    /// Bytes in use, estimated.
    pub bytes: usize,
    /// The budget.
    pub bytes_max: usize,
}

/// Raw events of all games.
///
/// One thread appends; any threads take snapshots; [`Archive::maintain`] and the other methods that write files run one
/// at a time and block neither of them.
pub struct Archive {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    options: ArchiveOptions,
    state: Mutex<State>,
    /// Held while files are written.
    writing: Mutex<()>,
    is_stopped: AtomicBool,
    /// Parts whose files are removed when they are no longer used.
    replaced: Mutex<Vec<Weak<Part>>>,
}

struct State {
    games: HashMap<u32, Game>,
    /// The durable position.
    position: u64,
    tail_bytes: usize,
}

#[derive(Default)]
struct Game {
    seed: u64,
    /// Events before this position of the log are in parts.
    until: u64,
    /// True if `archive.json` and a manifest on the disk name the game.
    is_listed: bool,
    tail: Tail,
    /// Files of earlier days were deleted because of their age.
    deleted_before: Option<Day>,
    /// By day, then in the order of the log.
    parts: BTreeMap<Day, Vec<Arc<Part>>>,
}

/// `archive.json`
#[derive(Debug, Default, Serialize, Deserialize)]
struct Index {
    format: u32,
    /// Every event before this position of the log is in a part.
    position: u64,
    games: Vec<u32>,
}

/// `<game>/manifest.json`
#[derive(Debug, Default, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    game: u32,
    until: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deleted_before: Option<Day>,
    parts: Vec<PartInfo>,
}

impl Archive {
    /// Appends the events of one entry of the log, which takes the offsets `log`. `seed` is that of the batch's game.
    ///
    /// Entries come in log order. Returns false, and changes nothing, if the entry was appended before or is in a part.
    pub fn append(&self, seed: u64, log: Range<u64>, batch: &[u8]) -> Result<bool, InvalidBatch> {
        let header = EventBatch::read(batch)?;
        let number = header.game;
        let is_sample = |event: model::batch::StoredEvent<'_>| event.samples.is_some();
        let has_events = !header.endpoint.accepts_samples() || !header.events().all(is_sample);
        let is_full = {
            let mut state = self.state.lock();
            let state = &mut *state;
            let is_known = |game: &Game| log.end <= game.until.max(game.tail.until());
            if state.games.get(&number).is_some_and(is_known) {
                return Ok(false);
            }
            if !has_events || log.is_empty() {
                return Ok(true);
            }
            let game = state.games.entry(number).or_default();
            game.seed = seed;
            let before = game.tail.bytes();
            game.tail.push(log, header.received_ms, batch);
            state.tail_bytes += game.tail.bytes() - before;
            game.tail.is_open_full()
        };
        if is_full {
            self.seal(number)?;
        }
        Ok(true)
    }

    /// Turns the newest entries of a game into columns.
    fn seal(&self, number: u32) -> Result<(), InvalidBatch> {
        let Some((seed, open)) = self.with_game(number, |game| (game.seed, game.tail.open())) else {
            return Ok(());
        };
        // Outside of the lock, since it takes some milliseconds. Only the appending thread and those that write files,
        // which hold `writing`, come here; entries appended meanwhile stay open.
        open.tables(seed)?;
        let mut state = self.state.lock();
        let state = &mut *state;
        if let Some(game) = state.games.get_mut(&number) {
            let before = game.tail.bytes();
            game.tail.seal(&open);
            state.tail_bytes = (state.tail_bytes + game.tail.bytes()).saturating_sub(before);
        }
        Ok(())
    }

    /// Returns the position of the log from which entries have to be appended after a start: every event before it is
    /// in a part, durably. The log may be trimmed up to here.
    pub fn position(&self) -> u64 {
        self.state.lock().position
    }

    /// Makes the position durable that follows from what was cut. `appended_until` is the end of the log whose entries
    /// were all offered to [`Archive::append`]. Returns the new position.
    ///
    /// Writes one small file if the position has changed; meant to be called with each checkpoint.
    pub fn advance(&self, appended_until: u64) -> Result<u64, ArchiveError> {
        let _writing = self.start_writing()?;
        let (games, position) = {
            let state = self.state.lock();
            let oldest = state.games.values().filter_map(|game| game.tail.from()).min();
            let position = oldest.unwrap_or(appended_until).min(appended_until);
            if position <= state.position {
                return Ok(state.position);
            }
            (state.listed(), position)
        };
        self.write_index(games, position)?;
        self.state.lock().position = position;
        Ok(position)
    }

    /// Returns the memory of events that are not in a file yet.
    pub fn memory(&self) -> ArchiveMemory {
        ArchiveMemory { bytes: self.state.lock().tail_bytes, bytes_max: self.options.memory_bytes_max }
    }

    /// Returns true if the memory exceeds its budget: nothing more should be appended before [`Archive::maintain`] has
    /// cut something.
    pub fn is_over_budget(&self) -> bool {
        let memory = self.memory();
        memory.bytes > memory.bytes_max
    }

    /// Returns all events of a game that were appended before the call. Files that are replaced later stay readable
    /// until the snapshot is dropped.
    pub fn snapshot(&self, game: u32) -> Snapshot {
        let state = self.state.lock();
        let Some(game) = state.games.get(&game) else {
            return Snapshot::empty();
        };
        let parts = game.parts.values().flatten().cloned().collect();
        let segments = game.tail.segments().to_vec();
        Snapshot::new(game.seed, parts, segments, game.tail.open(), game.deleted_before)
    }

    /// Returns the games that have events.
    pub fn games(&self) -> Vec<u32> {
        let mut games: Vec<u32> = self.state.lock().games.keys().copied().collect();
        games.sort_unstable();
        games
    }

    fn with_game<T>(&self, game: u32, read: impl FnOnce(&Game) -> T) -> Option<T> {
        self.state.lock().games.get(&game).map(read)
    }

    fn start_writing(&self) -> Result<parking_lot::MutexGuard<'_, ()>, ArchiveError> {
        let guard = self.writing.lock();
        if self.is_stopped.load(Ordering::Acquire) { Err(ArchiveError::Stopped) } else { Ok(guard) }
    }

    fn game_folder(&self, game: u32) -> PathBuf {
        self.folder.join(game.to_string())
    }

    fn write_index(&self, games: Vec<u32>, position: u64) -> Result<(), ArchiveError> {
        let index = Index { format: FORMAT, position, games };
        let written = files::replace(&*self.disk, &self.folder.join("archive.json"), &index);
        self.check_replaced("archive.json", written)
    }

    fn check_replaced(&self, path: &str, result: Result<(), ReplaceError>) -> Result<(), ArchiveError> {
        match result {
            Ok(()) => Ok(()),
            Err(ReplaceError::Unchanged(error)) => Err(ArchiveError::Disk { path: path.to_owned(), error }),
            Err(ReplaceError::Unknown(error)) => {
                tracing::error!(path, %error, "archive stops changing files");
                self.is_stopped.store(true, Ordering::Release);
                Err(ArchiveError::Stopped)
            }
        }
    }
}

impl State {
    fn listed(&self) -> Vec<u32> {
        let listed = self.games.iter().filter(|(_, game)| game.is_listed);
        let mut games: Vec<u32> = listed.map(|(number, _)| *number).collect();
        games.sort_unstable();
        games
    }
}
