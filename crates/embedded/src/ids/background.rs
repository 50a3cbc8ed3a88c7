//! The two background threads: one writes sealed memtables, one merges and removes runs.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use model::ports::ids::IdsError;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::IdsOptions;
use super::filter::Precision;
use super::folder::{self, DamagedFile};
use super::hash::IdKind;
use super::memtable::Memtable;
use super::merge;
use super::run::{Run, RunHeader};
use super::writer::RunWriter;

/// Delay before the next attempt after a disk failure.
const RETRY: Duration = Duration::from_secs(1);

/// A full memtable that waits to be written.
pub(super) struct SealedMemtable {
    pub(super) table: Memtable,
    pub(super) to: u64,
    /// Receipt times of the first and the last claim, in milliseconds.
    pub(super) received_ms: (u64, u64),
}

/// SharedState shared by the claiming thread and the two background threads.
pub(super) struct Shared {
    folder: PathBuf,
    options: IdsOptions,
    state: Mutex<SharedState>,
    /// Held while the runs are changed: only then is what was read of them still what is replaced.
    changing: Mutex<()>,
    /// Notified when a memtable is sealed, a run is published, runs may have expired, or the threads must stop.
    work: Condvar,
    /// Notified when a run was published or could not be written.
    progress: Condvar,
    /// Incremented whenever the runs change.
    pub(super) version: AtomicU64,
    stop: AtomicBool,
}

/// The sealed memtables and the runs. The runs are in log order.
pub(super) struct SharedState {
    pub(super) sealed: VecDeque<Arc<SealedMemtable>>,
    pub(super) runs: Arc<Vec<Run>>,
    pub(super) damaged: Vec<DamagedFile>,
    /// The error of the last write, if it failed.
    pub(super) last_error: Option<IdsError>,
    /// The time of the latest claim that could make runs expire.
    now_ms: u64,
}

impl Shared {
    pub(super) fn new(
        folder: PathBuf,
        options: IdsOptions,
        mut runs: Vec<Run>,
        damaged: Vec<DamagedFile>,
    ) -> Shared {
        enforce_filter_budget(&mut runs, options.filter_bytes_max);
        let state = SharedState {
            sealed: VecDeque::new(),
            runs: Arc::new(runs),
            damaged,
            last_error: None,
            now_ms: 0,
        };
        Shared {
            folder,
            options,
            state: Mutex::new(state),
            changing: Mutex::new(()),
            work: Condvar::new(),
            progress: Condvar::new(),
            version: AtomicU64::new(1),
            stop: AtomicBool::new(false),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, SharedState> {
        self.state.lock()
    }

    pub(super) fn enqueue(&self, sealed: Arc<SealedMemtable>) {
        self.state().sealed.push_back(sealed);
        self.work.notify_all();
    }

    pub(super) fn expire(&self, now_ms: u64) {
        self.state().now_ms = now_ms;
        self.work.notify_all();
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        // Taking the lock ensures that no thread is between its check of `stop` and its wait.
        drop(self.state());
        self.work.notify_all();
    }

    /// Waits until at most `sealed_max` memtables are unwritten. Fails if the disk does.
    pub(super) fn wait_for_sealed(&self, sealed_max: usize) -> Result<(), IdsError> {
        let mut state = self.state();
        while state.sealed.len() > sealed_max {
            if let Some(last_error) = state.last_error.clone() {
                return Err(last_error);
            }
            self.progress.wait(&mut state);
        }
        Ok(())
    }

    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Body of the thread that writes memtables as runs.
    pub(super) fn write_runs(&self) {
        while let Some(sealed) = self.next_sealed() {
            match self.write_run(&sealed) {
                Ok(run) => self.publish_written(run),
                Err(error) => self.report_write_error(error),
            }
        }
    }

    fn next_sealed(&self) -> Option<Arc<SealedMemtable>> {
        let mut state = self.state();
        while !self.is_stopping() {
            match state.sealed.front() {
                Some(sealed) => return Some(sealed.clone()),
                None => self.work.wait(&mut state),
            }
        }
        None
    }

    fn write_run(&self, sealed: &SealedMemtable) -> Result<Run, IdsError> {
        let table = &sealed.table;
        let (oldest_ms, newest_ms) = sealed.received_ms;
        let mut header = RunHeader {
            level: 0,
            from: table.from,
            to: sealed.to,
            oldest_ms,
            newest_ms,
            sections: Default::default(),
            times: table.times.clone(),
        };
        for kind in IdKind::ALL {
            header.sections[kind as usize].keys = table.table(kind).len() as u64;
        }
        let mut writer = RunWriter::create(&self.folder, header)?;
        for kind in IdKind::ALL {
            writer.section(kind, |section| {
                let mut result = Ok(());
                table.table(kind).for_each_sorted(|hash| {
                    if result.is_ok() {
                        result = section.push(hash);
                    }
                });
                result
            })?;
        }
        self.load(writer.publish()?)
    }

    /// Loads a new run's filters into memory, unless they alone exceed the budget.
    fn load(&self, run: Run) -> Result<Run, IdsError> {
        let mut runs = [run];
        load_filters(&mut runs, self.options.filter_bytes_max)?;
        let [run] = runs;
        Ok(run)
    }

    fn publish_written(&self, run: Run) {
        let insert = |runs: &mut Vec<Run>| {
            let at = runs.partition_point(|other| other.header.from < run.header.from);
            runs.insert(at, run);
        };
        self.change_runs(insert, |state| {
            state.sealed.pop_front();
            state.last_error = None;
        });
    }

    fn report_write_error(&self, error: IdsError) {
        tracing::error!(%error, "cannot write event ids, retrying");
        let mut state = self.state();
        state.last_error = Some(error);
        self.progress.notify_all();
        self.wait_before_retry(state);
    }

    fn wait_before_retry(&self, mut state: MutexGuard<'_, SharedState>) {
        if !self.is_stopping() {
            self.work.wait_for(&mut state, RETRY);
        }
    }

    /// Body of the thread that merges runs and removes expired ones.
    pub(super) fn maintain_runs(&self) {
        while let Some(inputs) = self.next_merge() {
            match merge::merge(&self.folder, &inputs, &self.stop) {
                Ok(Some(run)) => self.finish_merge(&inputs, run),
                Ok(None) => return,
                Err(error) => self.report_merge_error(error, &inputs),
            }
        }
    }

    /// Waits for runs to merge; removes expired runs while there are none.
    fn next_merge(&self) -> Option<Vec<Run>> {
        let mut state = self.state();
        while !self.is_stopping() {
            if expired(&state.runs, state.now_ms, self.options.window_ms) > 0 {
                drop(state);
                self.remove_expired();
                state = self.state();
            } else if let Some(inputs) = merge::choose_merge(&state.runs) {
                return Some(inputs.to_vec());
            } else {
                self.work.wait(&mut state);
            }
        }
        None
    }

    fn remove_expired(&self) {
        let (mut expired_runs, now_ms) = (Vec::new(), self.state().now_ms);
        let remove = |runs: &mut Vec<Run>| {
            expired_runs = runs.drain(..expired(runs, now_ms, self.options.window_ms)).collect();
        };
        self.change_runs(remove, |_| {});
        self.remove_files(&expired_runs);
    }

    fn finish_merge(&self, inputs: &[Run], merged: Run) {
        let replaced = merged.header.from..merged.header.to;
        let merged = self.load(merged.clone()).unwrap_or(merged);
        let replace = |runs: &mut Vec<Run>| {
            let first = runs.partition_point(|run| run.header.from < replaced.start);
            let end = runs.partition_point(|run| run.header.to <= replaced.end);
            runs.splice(first..end, [merged]);
        };
        self.change_runs(replace, |_| {});
        self.remove_files(inputs);
    }

    /// A file that cannot be removed is removed at the next start, when its range is found inside another's.
    fn remove_files(&self, runs: &[Run]) {
        for run in runs {
            if let Err(error) = folder::remove(run.path()) {
                tracing::warn!(%error, "cannot remove a run of event ids; it is removed at the next start");
            }
        }
    }

    fn report_merge_error(&self, error: IdsError, inputs: &[Run]) {
        tracing::error!(%error, "cannot merge runs of event ids");
        folder::quarantine_if_corrupt(&error, inputs);
        self.wait_before_retry(self.state());
    }

    /// Changes the runs atomically for all readers. Halving filters takes a while, so claims go on meanwhile.
    fn change_runs(&self, change: impl FnOnce(&mut Vec<Run>), publish: impl FnOnce(&mut SharedState)) {
        let _alone = self.changing.lock();
        let mut runs = self.state().runs.to_vec();
        change(&mut runs);
        enforce_filter_budget(&mut runs, self.options.filter_bytes_max);
        let mut state = self.state();
        publish(&mut state);
        if let Err(error) = folder::remove_covered(&mut state.damaged, &runs) {
            tracing::warn!(%error, "cannot remove a damaged run of event ids; it is removed at the next start");
        }
        state.runs = Arc::new(runs);
        self.version.fetch_add(1, Ordering::Release);
        self.progress.notify_all();
        self.work.notify_all();
    }
}

/// Returns how many of the oldest runs are beyond the window.
///
/// The clock may have been wrong for a while: a run is not older than one before it, and one from the future is as old
/// as the next.
pub(super) fn expired(runs: &[Run], now_ms: u64, window_ms: u64) -> usize {
    let (mut expired, mut newest_ms) = (0, 0);
    for (at, run) in runs.iter().enumerate().filter(|(_, run)| run.header.newest_ms <= now_ms) {
        newest_ms = run.header.newest_ms.max(newest_ms);
        if newest_ms.saturating_add(window_ms) >= now_ms {
            break;
        }
        expired = at + 1;
    }
    expired
}

/// Chooses what is kept in memory of each run, newest first: all filters as halves as far as they fit, then whole ones as
/// far as memory is left.
fn choose_precisions(runs: &[Run], bytes_max: u64) -> Vec<(usize, IdKind, Option<Precision>)> {
    let newest_first = (0..runs.len()).rev().flat_map(|at| IdKind::ALL.map(|kind| (at, kind)));
    let mut chosen: Vec<_> = newest_first.map(|(at, kind)| (at, kind, None)).collect();
    let mut left = bytes_max;
    for (from, to) in [(None, Precision::Half), (Some(Precision::Half), Precision::Whole)] {
        for (at, kind, precision) in chosen.iter_mut().filter(|(_, _, precision)| *precision == from) {
            let bytes = |precision| runs[*at].section(*kind).resident_bytes(precision);
            let more = bytes(to) - from.map_or(0, bytes);
            if more <= left {
                left -= more;
                *precision = Some(to);
            }
        }
    }
    chosen
}

/// Loads filters up to the memory budget.
pub(super) fn load_filters(runs: &mut [Run], bytes_max: u64) -> Result<(), IdsError> {
    for (at, kind, precision) in choose_precisions(runs, bytes_max) {
        if let Some(precision) = precision {
            runs[at].load(kind, precision)?;
        }
    }
    Ok(())
}

/// Halves and unloads filters until the rest is within the budget.
fn enforce_filter_budget(runs: &mut [Run], bytes_max: u64) {
    for (at, kind, precision) in choose_precisions(runs, bytes_max) {
        runs[at].reduce(kind, precision);
    }
}
