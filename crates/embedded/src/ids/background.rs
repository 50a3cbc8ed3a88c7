//! The two background threads: one writes sealed memtables, one merges and removes runs.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use model::ports::ids::IdsError;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::IdsOptions;
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
    fn load(&self, mut run: Run) -> Result<Run, IdsError> {
        for kind in IdKind::ALL {
            if run.section(kind).resident_bytes() <= self.options.filter_bytes_max {
                run.load(kind)?;
            }
        }
        Ok(run)
    }

    fn publish_written(&self, run: Run) {
        self.change_runs(|state, runs| {
            let at = runs.partition_point(|other| other.header.from < run.header.from);
            runs.insert(at, run);
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
        let mut expired_runs = Vec::new();
        self.change_runs(|state, runs| {
            expired_runs = runs.drain(..expired(runs, state.now_ms, self.options.window_ms)).collect();
        });
        self.remove_files(&expired_runs);
    }

    fn finish_merge(&self, inputs: &[Run], merged: Run) {
        let replaced = merged.header.from..merged.header.to;
        let merged = self.load(merged.clone()).unwrap_or(merged);
        self.change_runs(|_, runs| {
            let first = runs.partition_point(|run| run.header.from < replaced.start);
            let end = runs.partition_point(|run| run.header.to <= replaced.end);
            runs.splice(first..end, [merged]);
        });
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

    /// Changes the runs atomically for all readers.
    fn change_runs(&self, change: impl FnOnce(&mut SharedState, &mut Vec<Run>)) {
        let mut state = self.state();
        let mut runs = state.runs.to_vec();
        change(&mut state, &mut runs);
        enforce_filter_budget(&mut runs, self.options.filter_bytes_max);
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

/// Unloads the filters of the oldest runs until the rest is within the budget.
fn enforce_filter_budget(runs: &mut [Run], bytes_max: u64) {
    let mut used = 0;
    for run in runs.iter_mut().rev() {
        for kind in IdKind::ALL {
            used += run.resident_bytes(kind);
            if used > bytes_max {
                used -= run.resident_bytes(kind);
                run.unload(kind);
            }
        }
    }
}
