//! The state of the backups of a running server, for metrics and people.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde::Serialize;

use crate::create::CreatedBackup;

/// The state of the backups of this process.
#[derive(Debug, Default)]
pub struct BackupStatus {
    running: AtomicBool,
    report: Mutex<StatusReport>,
}

/// What the backups of a process have done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StatusReport {
    /// Backups are scheduled.
    pub is_scheduled: bool,
    /// When the newest complete backup was taken, in milliseconds since 1970; `None`: not known.
    pub last_success_ms: Option<i64>,
    /// The newest backup that this process has taken.
    pub last: Option<CreatedBackup>,
    /// Backups that have failed since the start.
    pub failures: u64,
    /// Backups that were completed since the start.
    pub completed: u64,
    /// Why the last attempt failed; `None` if it did not.
    pub failure: Option<String>,
}

/// Shows that a backup runs, until it is dropped.
pub struct RunningBackup<'a>(&'a BackupStatus);

impl Drop for RunningBackup<'_> {
    fn drop(&mut self) {
        self.0.running.store(false, Ordering::Release);
    }
}

impl BackupStatus {
    /// Begins a backup; `None` if one runs already.
    pub fn begin(&self) -> Option<RunningBackup<'_>> {
        (!self.running.swap(true, Ordering::AcqRel)).then_some(RunningBackup(self))
    }

    /// Returns true while a backup runs.
    pub fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire)
    }

    /// Records that backups are scheduled, and when the newest one in the target was taken.
    pub fn schedule(&self, last_success_ms: Option<i64>) {
        let mut report = self.report.lock();
        report.is_scheduled = true;
        report.last_success_ms = report.last_success_ms.max(last_success_ms);
    }

    /// Records a complete backup.
    pub fn succeeded(&self, created: &CreatedBackup, now_ms: i64) {
        let mut report = self.report.lock();
        report.last_success_ms = Some(now_ms);
        report.last = Some(created.clone());
        report.completed += 1;
        report.failure = None;
    }

    /// Records a failed backup.
    pub fn failed(&self, failure: String) {
        let mut report = self.report.lock();
        report.failures += 1;
        report.failure = Some(failure);
    }

    /// Returns the state.
    pub fn report(&self) -> StatusReport {
        self.report.lock().clone()
    }
}
