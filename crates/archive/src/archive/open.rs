//! Opens the archive: reads the manifests and removes what a crash left behind.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use wal::Disk;

use super::{Archive, ArchiveError, ArchiveOptions, FORMAT, Game, Index, Manifest, Part, State};
use crate::files::{self, UNFINISHED};

const INDEX: &str = "archive.json";
const MANIFEST: &str = "manifest.json";

/// What opening has found.
#[derive(Debug, Default)]
pub struct OpenReport {
    /// Files that are missing or have another size than they should, with the problem. Questions that need one of them
    /// fail and name it; everything else works.
    pub problems: Vec<String>,
    /// Files that a crash had left behind and that were removed.
    pub removed: usize,
}

impl Archive {
    /// Opens the archive in `folder`, or creates one in an empty folder. Only one process may have it open.
    pub fn open(
        disk: Arc<dyn Disk>,
        folder: &Path,
        options: ArchiveOptions,
    ) -> Result<(Archive, OpenReport), ArchiveError> {
        let mut report = OpenReport::default();
        disk.create_folder(folder).map_err(|error| disk_error(".", error))?;
        let index = read_index(&*disk, folder)?;
        let is_new = index.is_none();
        let index = index.unwrap_or(Index { format: FORMAT, position: 0, games: Vec::new() });
        let mut state = State { games: Default::default(), position: index.position, tail_bytes: 0 };
        for number in &index.games {
            let game = open_game(&disk, folder, *number, &mut report)?;
            state.games.insert(*number, game);
        }
        for name in list(&*disk, folder)? {
            let number = name.parse::<u32>().ok().filter(|number| number.to_string() == name);
            if let Some(number) = number
                && !index.games.contains(&number)
            {
                // A game that was being created or removed.
                report.removed += remove_leftovers(&*disk, folder, number, &BTreeSet::new(), true)?;
            }
            if name.ends_with(UNFINISHED) {
                report.removed += remove(&*disk, &folder.join(&name))?;
            }
        }
        let archive = Archive {
            disk,
            folder: folder.to_owned(),
            options,
            state: Mutex::new(state),
            writing: Mutex::new(()),
            is_stopped: AtomicBool::new(false),
            replaced: Mutex::default(),
        };
        if is_new {
            archive.write_index(Vec::new(), 0)?;
        }
        Ok((archive, report))
    }
}

fn read_index(disk: &dyn Disk, folder: &Path) -> Result<Option<Index>, ArchiveError> {
    let damaged = |problem: String| ArchiveError::Damaged {
        path: INDEX.to_owned(),
        problem,
        advice: "restore it from a backup, or move the folder `archive` away: events that are still in the log are \
                 archived again",
    };
    let index: Option<Index> = files::read(disk, &folder.join(INDEX)).map_err(damaged)?;
    match index {
        Some(index) if index.format > FORMAT => Err(damaged(newer(index.format))),
        Some(index) => Ok(Some(index)),
        None => {
            let names = list(disk, folder)?;
            let is_game = |name: &String| {
                name.parse::<u32>().is_ok() && disk.open(&folder.join(name).join(MANIFEST)).is_ok()
            };
            if names.iter().any(is_game) { Err(damaged("is missing".to_owned())) } else { Ok(None) }
        }
    }
}

fn open_game(
    disk: &Arc<dyn Disk>,
    folder: &Path,
    number: u32,
    report: &mut OpenReport,
) -> Result<Game, ArchiveError> {
    let path = folder.join(number.to_string()).join(MANIFEST);
    let damaged = |problem: String| ArchiveError::Damaged {
        path: format!("{number}/{MANIFEST}"),
        problem,
        advice: "restore it from a backup together with the files beside it, or move the folder of the game away: \
                 events that are still in the log are not archived again below the position of the archive",
    };
    let manifest: Option<Manifest> = files::read(&**disk, &path).map_err(damaged)?;
    let manifest = match manifest {
        Some(manifest) if manifest.format > FORMAT => return Err(damaged(newer(manifest.format))),
        Some(manifest) => manifest,
        // A game is listed just before its first manifest is written.
        None if day_files(&**disk, folder, number)?.iter().any(|name| !name.ends_with(UNFINISHED)) => {
            return Err(damaged("is missing".to_owned()));
        }
        None => Manifest { format: FORMAT, game: number, ..Manifest::default() },
    };
    let Manifest { until, deleted_before, .. } = manifest;
    let mut game = Game { until, deleted_before, is_listed: true, ..Game::default() };
    let mut names = BTreeSet::new();
    for info in manifest.parts {
        names.insert(info.path());
        let day = info.day;
        let part = Part::new(disk.clone(), folder, number, info);
        if let Some(problem) = part.problem() {
            report.problems.push(format!("{} {problem}; restore it from a backup", part.name()));
        }
        game.parts.entry(day).or_default().push(Arc::new(part));
    }
    report.removed += remove_leftovers(&**disk, folder, number, &names, false)?;
    Ok(game)
}

/// Returns the files of the days of a game: `2026-11-19/<name>`.
fn day_files(disk: &dyn Disk, folder: &Path, game: u32) -> Result<Vec<String>, ArchiveError> {
    let folder = folder.join(game.to_string());
    let mut files = Vec::new();
    for day in list(disk, &folder)? {
        if day.ends_with(".json") || day.ends_with(UNFINISHED) {
            continue;
        }
        for name in list(disk, &folder.join(&day))? {
            if name.ends_with(".parquet") || name.ends_with(UNFINISHED) {
                files.push(format!("{day}/{name}"));
            }
        }
    }
    Ok(files)
}

/// Removes files that no manifest names, and with `is_whole` the manifest.
fn remove_leftovers(
    disk: &dyn Disk,
    folder: &Path,
    game: u32,
    known: &BTreeSet<String>,
    is_whole: bool,
) -> Result<usize, ArchiveError> {
    let mut removed = 0;
    let game_folder = folder.join(game.to_string());
    for name in day_files(disk, folder, game)? {
        if !known.contains(&name) {
            let path = game_folder.join(&name);
            removed += remove(disk, &path)?;
            let _ = path.parent().map(std::fs::remove_dir);
        }
    }
    removed += remove(disk, &game_folder.join(format!("{MANIFEST}{UNFINISHED}")))?;
    if is_whole {
        removed += remove(disk, &game_folder.join(MANIFEST))?;
        let _ = std::fs::remove_dir(&game_folder);
    }
    Ok(removed)
}

fn remove(disk: &dyn Disk, path: &Path) -> Result<usize, ArchiveError> {
    match disk.remove(path) {
        Ok(()) => Ok(1),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(disk_error(&path.display().to_string(), error)),
    }
}

fn list(disk: &dyn Disk, folder: &Path) -> Result<Vec<String>, ArchiveError> {
    match disk.list(folder) {
        Ok(names) => Ok(names),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        Err(error) => Err(disk_error(&folder.display().to_string(), error)),
    }
}

fn disk_error(path: &str, error: io::Error) -> ArchiveError {
    ArchiveError::Disk { path: path.to_owned(), error }
}

fn newer(format: u32) -> String {
    format!("has format {format}, but this program reads up to {FORMAT}")
}
