//! The two threads behind a set of ids: one writes what is full, one merges and forgets.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use model::ports::ids::IdsError;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::IdsOptions;
use super::folder::{self, Damaged};
use super::memtable::Memtable;
use super::merge;
use super::place::Kind;
use super::run::{Header, Run};
use super::writer::RunWriter;

/// After a failure of the disk, how long until the next try.
const RETRY: Duration = Duration::from_secs(1);

/// A full memtable on its way to disk.
pub(super) struct Frozen {
    pub(super) table: Memtable,
    pub(super) to: u64,
    /// Receipt of the first and the last claim, in milliseconds.
    pub(super) received_ms: (u64, u64),
}

/// What the claiming thread and the two others share.
pub(super) struct Shared {
    folder: PathBuf,
    options: IdsOptions,
    state: Mutex<State>,
    /// Something was frozen, a run was published, time has passed, or the end has come.
    work: Condvar,
    /// A run was published, or could not be.
    progress: Condvar,
    /// Grows whenever the runs change.
    pub(super) version: AtomicU64,
    stop: AtomicBool,
}

/// What is where. The runs are in log order.
pub(super) struct State {
    pub(super) frozen: VecDeque<Arc<Frozen>>,
    pub(super) runs: Arc<Vec<Run>>,
    pub(super) damaged: Vec<Damaged>,
    /// Why the last write failed.
    pub(super) trouble: Option<IdsError>,
    /// The time of the latest claim that could make runs expire.
    now_ms: u64,
}

impl Shared {
    pub(super) fn new(
        folder: PathBuf,
        options: IdsOptions,
        mut runs: Vec<Run>,
        damaged: Vec<Damaged>,
    ) -> Shared {
        keep_within(&mut runs, options.filter_bytes_max);
        let state =
            State { frozen: VecDeque::new(), runs: Arc::new(runs), damaged, trouble: None, now_ms: 0 };
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

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn freeze(&self, frozen: Arc<Frozen>) {
        self.state().frozen.push_back(frozen);
        self.work.notify_all();
    }

    pub(super) fn expire(&self, now_ms: u64) {
        self.state().now_ms = now_ms;
        self.work.notify_all();
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        // Taking the lock: nobody is between looking at `stop` and going to sleep.
        drop(self.state());
        self.work.notify_all();
    }

    /// Waits until at most `frozen_max` memtables are not on disk. Fails when the disk does.
    pub(super) fn wait_for_room(&self, frozen_max: usize) -> Result<(), IdsError> {
        let mut state = self.state();
        while state.frozen.len() > frozen_max {
            if let Some(trouble) = state.trouble.clone() {
                return Err(trouble);
            }
            self.progress.wait(&mut state);
        }
        Ok(())
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Body of the thread that writes memtables as runs.
    pub(super) fn write_runs(&self) {
        while let Some(frozen) = self.next_frozen() {
            match self.write_run(&frozen) {
                Ok(run) => self.publish_written(run),
                Err(error) => self.report(error),
            }
        }
    }

    fn next_frozen(&self) -> Option<Arc<Frozen>> {
        let mut state = self.state();
        while !self.stopping() {
            match state.frozen.front() {
                Some(frozen) => return Some(frozen.clone()),
                None => self.work.wait(&mut state),
            }
        }
        None
    }

    fn write_run(&self, frozen: &Frozen) -> Result<Run, IdsError> {
        let table = &frozen.table;
        let (oldest_ms, newest_ms) = frozen.received_ms;
        let mut header = Header {
            level: 0,
            from: table.from,
            to: frozen.to,
            oldest_ms,
            newest_ms,
            sections: Default::default(),
            times: table.times.clone(),
        };
        for kind in Kind::ALL {
            header.sections[kind as usize].keys = table.table(kind).len() as u64;
        }
        let mut writer = RunWriter::create(&self.folder, header)?;
        for kind in Kind::ALL {
            writer.section(kind, |section| {
                let mut result = Ok(());
                table.table(kind).for_each_sorted(|place| {
                    if result.is_ok() {
                        result = section.push(place);
                    }
                });
                result
            })?;
        }
        self.load(writer.publish()?)
    }

    /// Brings a new run's filters into memory, unless they alone would be too large.
    fn load(&self, mut run: Run) -> Result<Run, IdsError> {
        for kind in Kind::ALL {
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
            state.frozen.pop_front();
            state.trouble = None;
        });
    }

    fn report(&self, error: IdsError) {
        tracing::error!(%error, "event ids could not be written, trying again");
        let mut state = self.state();
        state.trouble = Some(error);
        self.progress.notify_all();
        self.pause(state);
    }

    fn pause(&self, mut state: MutexGuard<'_, State>) {
        if !self.stopping() {
            self.work.wait_for(&mut state, RETRY);
        }
    }

    /// Body of the thread that merges runs and removes expired ones.
    pub(super) fn tidy_runs(&self) {
        while let Some(inputs) = self.next_merge() {
            match merge::merge(&self.folder, &inputs, &self.stop) {
                Ok(Some(run)) => self.finish_merge(&inputs, run),
                Ok(None) => return,
                Err(error) => self.merge_failed(error, &inputs),
            }
        }
    }

    /// Removes what has expired while there is nothing to merge.
    fn next_merge(&self) -> Option<Vec<Run>> {
        let mut state = self.state();
        while !self.stopping() {
            if expired(&state.runs, state.now_ms, self.options.window_ms) > 0 {
                drop(state);
                self.remove_expired();
                state = self.state();
            } else if let Some(inputs) = merge::choose(&state.runs) {
                return Some(inputs.to_vec());
            } else {
                self.work.wait(&mut state);
            }
        }
        None
    }

    fn remove_expired(&self) {
        let mut gone = Vec::new();
        self.change_runs(|state, runs| {
            gone = runs.drain(..expired(runs, state.now_ms, self.options.window_ms)).collect();
        });
        self.remove_files(&gone);
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

    /// A file that stays is removed at the next start, when its range is found inside another's.
    fn remove_files(&self, runs: &[Run]) {
        for run in runs {
            if let Err(error) = folder::remove(run.path()) {
                tracing::warn!(%error, "a run of event ids stays until the next start");
            }
        }
    }

    fn merge_failed(&self, error: IdsError, inputs: &[Run]) {
        tracing::error!(%error, "runs of event ids could not be merged");
        folder::set_aside_if_corrupt(&error, inputs);
        self.pause(self.state());
    }

    /// Changes the runs for all readers at once.
    fn change_runs(&self, change: impl FnOnce(&mut State, &mut Vec<Run>)) {
        let mut state = self.state();
        let mut runs = state.runs.to_vec();
        change(&mut state, &mut runs);
        keep_within(&mut runs, self.options.filter_bytes_max);
        if let Err(error) = folder::remove_covered(&mut state.damaged, &runs) {
            tracing::warn!(%error, "a damaged run of event ids stays until the next start");
        }
        state.runs = Arc::new(runs);
        self.version.fetch_add(1, Ordering::Release);
        self.progress.notify_all();
        self.work.notify_all();
    }
}

/// How many of the runs, from the oldest on, are beyond the window.
///
/// A run was received before the runs after it, whatever a clock that was ahead for a while made of it.
pub(super) fn expired(runs: &[Run], now_ms: u64, window_ms: u64) -> usize {
    let mut newest_ms = u64::MAX;
    let mut kept = 0;
    for run in runs.iter().rev() {
        newest_ms = newest_ms.min(run.header.newest_ms);
        if newest_ms.saturating_add(window_ms) < now_ms {
            break;
        }
        kept += 1;
    }
    runs.len() - kept
}

/// Gives back the memory of the oldest runs' filters until the rest is within the budget.
fn keep_within(runs: &mut [Run], bytes_max: u64) {
    let mut used = 0;
    for run in runs.iter_mut().rev() {
        for kind in Kind::ALL {
            used += run.resident_bytes(kind);
            if used > bytes_max {
                used -= run.resident_bytes(kind);
                run.unload(kind);
            }
        }
    }
}
