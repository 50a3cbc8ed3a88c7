//! Scheduled backups.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use backup::Repository;
use http::AppState;
use pipeline::engine::ScratchCounters;
use pipeline::time::now_ms;
use tokio::runtime::Builder;
use tracing::error;

use crate::admin::{BackupRequest, take_backup};
use crate::control;

/// The pause after a failed backup, unless the interval is shorter.
const RETRY: Duration = Duration::from_secs(600);

/// When to take which backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupSchedule {
    /// The backup.
    pub request: BackupRequest,
    /// The time from one backup to the next.
    pub every: Duration,
}

/// Starts the thread that takes backups until the server stops.
pub(crate) fn start(
    schedule: BackupSchedule,
    state: &Arc<AppState>,
    scratch: ScratchCounters,
) -> anyhow::Result<JoinHandle<()>> {
    let state = Arc::clone(state);
    state.backups.schedule(None);
    let runtime = Builder::new_current_thread().enable_time().build().context("starting a runtime")?;
    let run = move || {
        let mut pause = first_pause(&schedule, &state);
        let mut stopping = state.stopping.clone();
        loop {
            let stop = stopping.wait_for(|stopping| *stopping);
            if runtime.block_on(async { tokio::time::timeout(pause, stop).await.is_ok() }) {
                return;
            }
            let is_stopping = || *state.stopping.borrow();
            let admin = control::admin(&state, scratch, &is_stopping);
            pause = match take_backup(&admin, &schedule.request) {
                Ok(_) => schedule.every,
                Err(_) => schedule.every.min(RETRY),
            };
        }
    };
    std::thread::Builder::new().name("backup-timer".into()).spawn(run).context("starting a thread")
}

/// Returns the time until the next backup is due: that follows from the newest one in the target, so that restarts
/// neither skip nor repeat one.
fn first_pause(schedule: &BackupSchedule, state: &AppState) -> Duration {
    let newest = || {
        let repository =
            Repository::open_or_create(schedule.request.to.open()?, schedule.request.secret.as_ref())?;
        anyhow::Ok(repository.backups()?.last().and_then(backup::BackupName::created_ms))
    };
    match newest() {
        Ok(newest_ms) => {
            state.backups.schedule(newest_ms);
            let Some(newest_ms) = newest_ms else { return Duration::ZERO };
            // A backup from the future, after the clock was wrong, does not put off the next one for longer.
            let age = Duration::from_millis(now_ms().saturating_sub(newest_ms).max(0) as u64);
            schedule.every.saturating_sub(age)
        }
        Err(failure) => {
            error!(failure = format!("{failure:#}"), "scheduled backups cannot reach their target");
            state.backups.failed(format!("{failure:#}"));
            schedule.every.min(RETRY)
        }
    }
}
