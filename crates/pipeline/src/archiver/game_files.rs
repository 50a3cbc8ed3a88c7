//! Files with all rows of a game, for programs that read files: those of the archive, and temporary ones with what is in
//! no file yet.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use archive::scan::ScanFailure;
use archive::{Snapshot, WriteFailure};
use liveops::ExportCursor;
use liveops::boards::BoardRow;
use liveops::players::ErasureStage;
use model::query::QueryControl;
use model::rollup::hash_player;
use serde::Serialize;

use super::Archiver;
use crate::random;
use crate::time::{now_ms, rfc3339};
use crate::views::{Views, ViewsBehind};

/// The folder of temporary files in a data folder.
const FOLDER: &str = "sql";
/// Players of a board that are read at once, while commands of the game wait.
const PLAYERS_AT_ONCE: u32 = 200;
/// The largest file of scores.
const SCORES_BYTES_MAX: usize = 256 << 20;

/// The files of a game. Temporary ones are removed when this is dropped, and after a crash at the next start.
pub struct GameFiles {
    /// Parquet, with the columns of the archive.
    pub events: Vec<PathBuf>,
    /// JSON lines.
    pub scores: Vec<PathBuf>,
    /// The hashes of players whose erasure is in progress; their rows may still be in the files.
    pub hidden_players: Vec<u64>,
    folder: Option<PathBuf>,
    /// Keeps the files of the archive.
    _snapshot: Snapshot,
    _reader: Reader,
}

/// Keeps an erasure from being reported as done while it lives.
pub struct Reader(#[expect(dead_code, reason = "only its lifetime matters")] Arc<()>);

/// The rows of a game at one position of the log, not yet in files.
pub struct GameRows {
    game: u32,
    hidden_players: Vec<u64>,
    snapshot: Snapshot,
    reader: Reader,
    folder: PathBuf,
    views: Arc<Views>,
}

/// Why there are no files.
#[derive(Debug, thiserror::Error)]
pub enum GameFilesFailure {
    /// The disk is full.
    #[error("the disk is full; the newest events cannot be written to a temporary file")]
    DiskFull,
    /// The file of scores would be larger than it may be.
    #[error("the scores of the game take more than {SCORES_BYTES_MAX} bytes")]
    TooManyScores,
    /// Reading the events failed or was stopped.
    #[error(transparent)]
    Scan(ScanFailure),
    /// The disk failed.
    #[error("temporary files cannot be written: {0}")]
    Disk(io::Error),
}

impl From<io::Error> for GameFilesFailure {
    fn from(error: io::Error) -> GameFilesFailure {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => GameFilesFailure::DiskFull,
            _ => GameFilesFailure::Disk(error),
        }
    }
}

impl From<WriteFailure> for GameFilesFailure {
    fn from(failure: WriteFailure) -> GameFilesFailure {
        match failure {
            WriteFailure::Scan(failure) => GameFilesFailure::Scan(failure),
            WriteFailure::Disk(error) => error.into(),
        }
    }
}

/// Removes what a crash has left behind, and returns the folder of temporary files.
pub(super) fn prepare_folder(data: &Path) -> io::Result<PathBuf> {
    let folder = data.join(FOLDER);
    match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(folder),
    }
}

impl Archiver {
    /// Returns all rows of a game up to `position` of the log, as soon as the archive contains them.
    ///
    /// # Errors
    /// If it does not in time.
    pub async fn rows(&self, game: u32, position: u64) -> Result<GameRows, ViewsBehind> {
        let reader = self.reader();
        // Before the snapshot: an erasure that ends in between has changed what the snapshot reads.
        let hidden_players = self.players_in_erasure(game);
        let snapshot = self.snapshot(game, position).await?;
        let (folder, views) = (self.temporary.clone(), Arc::clone(&self.views));
        Ok(GameRows { game, hidden_players, snapshot, reader, folder, views })
    }

    /// Returns what keeps an erasure from being reported as done. Taken before a snapshot that outlives a question.
    pub fn reader(&self) -> Reader {
        let reader = Arc::new(());
        let mut readers = self.readers.lock();
        readers.retain(|reader| reader.strong_count() > 0);
        readers.push(Arc::downgrade(&reader));
        Reader(reader)
    }

    /// Returns the hashes of the players of a game whose erasure is in progress.
    pub fn players_in_erasure(&self, game: u32) -> Vec<u64> {
        let seed = self.views.seeds.of(game);
        let game = self.views.liveops.game(game);
        let game = game.read();
        let erasures = game.players.erasures().map(|(_, erasure)| erasure);
        let requested = erasures.filter(|erasure| erasure.stage == ErasureStage::Requested);
        requested.flat_map(|erasure| &erasure.ids).map(|id| hash_player(seed, id.as_bytes())).collect()
    }
}

impl GameRows {
    /// Writes what is in no file yet to temporary files: the newest events, and with `with_scores` the scores.
    pub fn write(self, with_scores: bool, control: &dyn QueryControl) -> Result<GameFiles, GameFilesFailure> {
        let GameRows { game, hidden_players, snapshot, reader, folder, views } = self;
        let folder = folder.join(random::token(16));
        let mut files = GameFiles {
            events: snapshot.files(),
            scores: Vec::new(),
            hidden_players,
            folder: None,
            _snapshot: snapshot,
            _reader: reader,
        };
        if !with_scores && files._snapshot.newest_bytes() == 0 {
            return Ok(files);
        }
        if !views.space.has_room_to_spare() {
            return Err(GameFilesFailure::DiskFull);
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        // From here on it is removed, whatever happens.
        files.folder = Some(folder.clone());
        let newest = folder.join("newest.parquet");
        if files._snapshot.write_newest(&newest, control)? {
            files.events.push(newest);
        }
        if with_scores {
            let path = folder.join("scores.ndjson");
            write_scores(&views, game, &path, control)?;
            files.scores.push(path);
        }
        Ok(files)
    }
}

impl Drop for GameFiles {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder
            && let Err(error) = std::fs::remove_dir_all(folder)
        {
            tracing::warn!(%error, "temporary files cannot be removed; the next start will");
        }
    }
}

/// A line of the file of scores.
#[derive(Serialize)]
struct ScoreLine<'a> {
    board: &'a str,
    rank: usize,
    player: &'a str,
    name: &'a str,
    score: liveops::boards::ScoreDecimal,
    subscore: Option<liveops::boards::ScoreDecimal>,
    ts: String,
    source: Option<&'a str>,
    verified: bool,
    /// JSON.
    fields: Option<String>,
}

impl<'a> ScoreLine<'a> {
    fn new(board: &'a str, row: &'a BoardRow) -> ScoreLine<'a> {
        let fields = (!row.fields.is_empty()).then(|| serde_json::json!(row.fields).to_string());
        ScoreLine {
            board,
            rank: row.rank,
            player: &row.player,
            name: &row.name,
            score: row.score,
            subscore: row.subscore,
            ts: rfc3339(row.at),
            source: row.source.as_deref(),
            verified: row.verified,
            fields,
        }
    }
}

/// Counts what is written.
struct Counted {
    file: BufWriter<File>,
    bytes: usize,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn write_scores(
    views: &Views,
    game: u32,
    path: &Path,
    control: &dyn QueryControl,
) -> Result<(), GameFilesFailure> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let mut out = Counted { file: BufWriter::new(file), bytes: 0 };
    let (game, now_ms) = (views.liveops.game(game), now_ms());
    let mut from = ExportCursor::default();
    loop {
        control.check(0).map_err(|stopped| GameFilesFailure::Scan(stopped.into()))?;
        let standings = game.read().boards.standings(&from, PLAYERS_AT_ONCE, now_ms);
        let Some(standings) = standings else { break };
        for row in &standings.rows {
            serde_json::to_writer(&mut out, &ScoreLine::new(&standings.table, row))
                .map_err(io::Error::from)?;
            out.write_all(b"\n")?;
        }
        if out.bytes > SCORES_BYTES_MAX {
            return Err(GameFilesFailure::TooManyScores);
        }
        from = standings.next;
    }
    Ok(out.flush()?)
}
