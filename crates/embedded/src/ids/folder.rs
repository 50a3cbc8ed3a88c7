//! The folder of runs: file names and recovery at start.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use model::ports::ids::IdsError;

use super::run::Run;
use super::writer::write_failed;

const FINISHED: &str = "ids";
const TEMPORARY: &str = "tmp";
const DAMAGED: &str = "bad";

/// The result of opening the folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Runs in use.
    pub runs: usize,
    /// Ids in them.
    pub keys: u64,
    /// Leftover files of a crash that were removed: unfinished ones, and inputs of a finished merge.
    pub leftover: usize,
    /// Runs that reached beyond the end of the log and were removed: the last writes of the log did not survive a crash.
    pub ahead_of_log: usize,
    /// Ranges of the log without a valid run. They are replayed; ids accepted in parts that the log no longer has are lost.
    pub holes: Vec<Range<u64>>,
}

/// The valid runs in log order, and the damaged files whose ranges they do not cover.
pub(super) struct RecoveredFolder {
    pub(super) runs: Vec<Run>,
    pub(super) damaged: Vec<DamagedFile>,
    pub(super) report: OpenReport,
}

/// A damaged file, kept to mark its range until that is covered again.
pub(super) struct DamagedFile {
    pub(super) range: Range<u64>,
    pub(super) path: PathBuf,
}

/// Recovers the folder: afterwards it contains the runs in use and the damaged files.
pub(super) fn recover(folder: &Path, log_end: u64) -> Result<RecoveredFolder, IdsError> {
    let failed = |error| write_failed(folder, error);
    fs::create_dir_all(folder).map_err(failed)?;
    let mut found = RecoveredFolder { runs: Vec::new(), damaged: Vec::new(), report: OpenReport::default() };
    for (range, extension, path) in list(folder).map_err(failed)? {
        match extension.as_str() {
            TEMPORARY => found.remove_leftover(&path)?,
            _ if range.end > log_end => found.remove_ahead(&path)?,
            DAMAGED => found.damaged.push(DamagedFile { range, path }),
            _ => found.add_run(range, path)?,
        }
    }
    found.drop_superseded()?;
    found.report_holes();
    sync(folder).map_err(failed)?;
    Ok(found)
}

impl RecoveredFolder {
    fn add_run(&mut self, range: Range<u64>, path: PathBuf) -> Result<(), IdsError> {
        match Run::open(&path) {
            Ok(run) if run.header.from == range.start && run.header.to == range.end => self.runs.push(run),
            Ok(_) | Err(IdsError::Corrupt(_)) => self.damaged.push(DamagedFile { range, path }),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn remove_leftover(&mut self, path: &Path) -> Result<(), IdsError> {
        self.report.leftover += 1;
        remove(path)
    }

    fn remove_ahead(&mut self, path: &Path) -> Result<(), IdsError> {
        self.report.ahead_of_log += 1;
        remove(path)
    }

    /// Removes runs inside another's range. A merged run sorts before its inputs: it starts with the first and ends later.
    fn drop_superseded(&mut self) -> Result<(), IdsError> {
        self.runs.sort_by_key(|run| (run.header.from, std::cmp::Reverse(run.header.to)));
        let mut covered_until = 0;
        for run in std::mem::take(&mut self.runs) {
            if run.header.to <= covered_until {
                self.remove_leftover(run.path())?;
            } else {
                covered_until = run.header.to;
                self.runs.push(run);
            }
        }
        remove_covered(&mut self.damaged, &self.runs)
    }

    fn report_holes(&mut self) {
        self.report.runs = self.runs.len();
        self.report.keys = self.runs.iter().map(Run::keys).sum();
        self.report.holes = holes(&self.runs, &self.damaged);
    }
}

/// Removes the damaged files whose ranges are covered by runs.
pub(super) fn remove_covered(damaged: &mut Vec<DamagedFile>, runs: &[Run]) -> Result<(), IdsError> {
    for file in damaged.extract_if(.., |file| first_gap(runs, &file.range).is_none()) {
        // A new run of the same range has replaced the file under its name.
        if runs.iter().all(|run| run.path() != file.path) {
            remove(&file.path)?;
        }
    }
    Ok(())
}

/// Returns the ranges between the first and the last file that no run covers.
fn holes(runs: &[Run], damaged: &[DamagedFile]) -> Vec<Range<u64>> {
    let ranges = || {
        let of_runs = runs.iter().map(|run| run.header.from..run.header.to);
        of_runs.chain(damaged.iter().map(|file| file.range.clone()))
    };
    let Some(first) = ranges().map(|range| range.start).min() else { return Vec::new() };
    let end = ranges().map(|range| range.end).max().unwrap_or(first);
    let mut holes = Vec::new();
    let mut rest = first..end;
    while let Some(gap) = first_gap(runs, &rest) {
        rest.start = gap.end;
        holes.push(gap);
    }
    holes
}

/// Returns the first part of the range that no run covers. The runs are in log order.
fn first_gap(runs: &[Run], range: &Range<u64>) -> Option<Range<u64>> {
    let mut at = range.start;
    for run in runs {
        if run.header.from > at {
            break;
        }
        at = at.max(run.header.to);
    }
    let end = runs.iter().map(|run| run.header.from).find(|&from| from > at).unwrap_or(range.end);
    (at < range.end).then(|| at..end.min(range.end))
}

/// If the error says that one of these runs is damaged, renames its file to mark it, so that the next start replays its
/// range; until then the file stays open. Returns true if it was renamed.
pub(super) fn quarantine_if_corrupt(error: &IdsError, runs: &[Run]) -> bool {
    let IdsError::Corrupt(path) = error else { return false };
    let Some(run) = runs.iter().find(|run| run.path().display().to_string() == *path) else { return false };
    if !run.path().exists() {
        // It was renamed when the damage was found for the first time.
        return false;
    }
    let renamed = fs::rename(run.path(), run.path().with_extension(DAMAGED));
    if let Err(error) = &renamed {
        tracing::error!(%error, path, "cannot quarantine a damaged run of event ids");
    }
    renamed.is_ok()
}

/// Removes a file; a missing file is not an error.
pub(super) fn remove(path: &Path) -> Result<(), IdsError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(write_failed(path, error)),
        _ => Ok(()),
    }
}

pub(super) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

pub(super) fn run_name(from: u64, to: u64) -> String {
    format!("{from:020}-{to:020}.{FINISHED}")
}

pub(super) fn temporary_name(from: u64, to: u64) -> String {
    format!("{from:020}-{to:020}.{TEMPORARY}")
}

/// Lists the files of the engine as (range, extension, path). Other files are ignored.
fn list(folder: &Path) -> io::Result<Vec<(Range<u64>, String, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if let Some((range, extension)) = read_name(&path) {
            files.push((range, extension, path));
        }
    }
    Ok(files)
}

fn read_name(path: &Path) -> Option<(Range<u64>, String)> {
    let extension = path.extension()?.to_str()?;
    let (from, to) = path.file_stem()?.to_str()?.split_once('-')?;
    let range = from.parse().ok()?..to.parse().ok()?;
    let is_own = [FINISHED, TEMPORARY, DAMAGED].contains(&extension) && range.start < range.end;
    is_own.then(|| (range, extension.to_owned()))
}
