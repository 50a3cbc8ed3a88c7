//! The folder of runs: names, and what to make of the files found at start.

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

/// What a start found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Runs that are in use.
    pub runs: usize,
    /// Ids in them.
    pub keys: u64,
    /// Files that a crash had left over, removed: unfinished, or merged into another before.
    pub left_over: usize,
    /// Runs that reached beyond the end of the log, removed: the log's last writes did not survive a crash.
    pub ahead_of_log: usize,
    /// Ranges of the log without a sound run. They are claimed again; where the log no longer has them, ids accepted
    /// there are forgotten.
    pub holes: Vec<Range<u64>>,
}

/// The sound runs in log order, and the damaged files whose ranges are not covered by them.
pub(super) struct Found {
    pub(super) runs: Vec<Run>,
    pub(super) damaged: Vec<Damaged>,
    pub(super) report: OpenReport,
}

/// A damaged file, kept as the mark of its range until that is covered again.
pub(super) struct Damaged {
    pub(super) range: Range<u64>,
    pub(super) path: PathBuf,
}

/// Sorts out the folder: afterwards it holds the runs in use and the damaged files.
pub(super) fn recover(folder: &Path, log_end: u64) -> Result<Found, IdsError> {
    let failed = |error| write_failed(folder, error);
    fs::create_dir_all(folder).map_err(failed)?;
    let mut found = Found { runs: Vec::new(), damaged: Vec::new(), report: OpenReport::default() };
    for (range, extension, path) in list(folder).map_err(failed)? {
        match extension.as_str() {
            TEMPORARY => found.remove_left_over(&path)?,
            _ if range.end > log_end => found.remove_ahead(&path)?,
            DAMAGED => found.damaged.push(Damaged { range, path }),
            _ => found.take(range, path)?,
        }
    }
    found.drop_superseded()?;
    found.report_holes();
    sync(folder).map_err(failed)?;
    Ok(found)
}

impl Found {
    fn take(&mut self, range: Range<u64>, path: PathBuf) -> Result<(), IdsError> {
        match Run::open(&path) {
            Ok(run) if run.header.from == range.start && run.header.to == range.end => self.runs.push(run),
            Ok(_) | Err(IdsError::Corrupt(_)) => self.damaged.push(Damaged { range, path }),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn remove_left_over(&mut self, path: &Path) -> Result<(), IdsError> {
        self.report.left_over += 1;
        remove(path)
    }

    fn remove_ahead(&mut self, path: &Path) -> Result<(), IdsError> {
        self.report.ahead_of_log += 1;
        remove(path)
    }

    /// A merged run comes before those it is made of: it starts where the first of them does, and ends later.
    fn drop_superseded(&mut self) -> Result<(), IdsError> {
        self.runs.sort_by_key(|run| (run.header.from, std::cmp::Reverse(run.header.to)));
        let mut covered_until = 0;
        for run in std::mem::take(&mut self.runs) {
            if run.header.to <= covered_until {
                self.remove_left_over(run.path())?;
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
pub(super) fn remove_covered(damaged: &mut Vec<Damaged>, runs: &[Run]) -> Result<(), IdsError> {
    for file in damaged.extract_if(.., |file| first_gap(runs, &file.range).is_none()) {
        // A new run of the same range has replaced the file under its name.
        if runs.iter().all(|run| run.path() != file.path) {
            remove(&file.path)?;
        }
    }
    Ok(())
}

/// The ranges between the first and the last file that no run covers.
fn holes(runs: &[Run], damaged: &[Damaged]) -> Vec<Range<u64>> {
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

/// The first part of the range that no run covers. The runs are in log order.
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

/// When the error says that one of these runs is damaged, gives its file the name of a damaged one, so that the next
/// start claims its range again. Until then it stays open. Whether this was done.
pub(super) fn set_aside_if_corrupt(error: &IdsError, runs: &[Run]) -> bool {
    let IdsError::Corrupt(path) = error else { return false };
    let Some(run) = runs.iter().find(|run| run.path().display().to_string() == *path) else { return false };
    let renamed = fs::rename(run.path(), run.path().with_extension(DAMAGED));
    if let Err(error) = &renamed {
        tracing::error!(%error, path, "a damaged run of event ids could not be set aside");
    }
    renamed.is_ok()
}

/// Removes a file that may be gone already.
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

/// Our files: range, extension, path. Others are not touched.
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
    let ours = [FINISHED, TEMPORARY, DAMAGED].contains(&extension) && range.start < range.end;
    ours.then(|| (range, extension.to_owned()))
}
