//! Backups of the data folder while the server runs, or without one.
//!
//! A backup is consistent at one position of the log: at a checkpoint, with the applier paused for moments, the files of
//! log, event ids and views are linked into folders beside them. From then on nothing that happens to the originals
//! changes what is copied. Erasures wait meanwhile, because a link would keep what they remove.

mod linked;

pub(crate) use linked::remove_leftover;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use backup::{BackupRetention, CreatedBackup, Repository, Secret, TargetSettings};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::{error, info};

use self::linked::LinkedSnapshot;
use super::Admin;
use pipeline::applier::lower_priority;
use pipeline::time::now_ms;

/// How long a backup waits for an erasure to end.
const ERASURE_WAIT: Duration = Duration::from_secs(600);

/// A backup to be taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupRequest {
    /// Where it is stored.
    pub to: TargetSettings,
    /// What encrypts it.
    pub secret: Option<Secret>,
    /// Which earlier backups are kept.
    pub retention: BackupRetention,
    /// The file with the settings, if no server runs that knows its own.
    pub settings_file: Option<PathBuf>,
}

/// What backups of a process have in common.
pub struct BackupContext<'a> {
    /// Their state.
    pub status: &'a backup::BackupStatus,
    /// The file with the settings of the server, which becomes a part of them.
    pub settings_file: Option<PathBuf>,
    /// Returns true once the process is about to end.
    pub is_stopping: &'a (dyn Fn() -> bool + Sync),
    /// Returns the time by which old backups are removed; `None` while it is not known.
    pub deletion_clock: fn() -> Option<u64>,
}

/// Takes a backup and returns its name and size.
pub(super) fn run(admin: &Admin<'_>, request: &BackupRequest) -> anyhow::Result<Value> {
    take(admin, request).map(|created| json!(created))
}

/// Takes a backup on a thread of low priority and records the outcome.
pub(crate) fn take(admin: &Admin<'_>, request: &BackupRequest) -> anyhow::Result<CreatedBackup> {
    let status = admin.backups.status;
    let Some(_running) = status.begin() else { bail!("another backup is running; try again later") };
    let taken = std::thread::scope(|scope| {
        let work = || {
            lower_priority();
            try_take(admin, request)
        };
        let thread = std::thread::Builder::new().name("backup".into()).spawn_scoped(scope, work);
        let taken = thread.context("starting a thread")?.join();
        taken.map_err(|_| anyhow!("the backup failed inside the server"))?
    });
    match &taken {
        Ok(created) => {
            info!(name = %created.name, bytes = created.bytes, new_bytes = created.new_bytes, ms = created.took_ms, "a backup was taken");
            status.succeeded(created, now_ms());
        }
        Err(failure) => {
            error!(
                failure = format!("{failure:#}"),
                "a backup FAILED; the newest one is older than it should be"
            );
            status.failed(format!("{failure:#}"));
        }
    }
    taken
}

fn try_take(admin: &Admin<'_>, request: &BackupRequest) -> anyhow::Result<CreatedBackup> {
    let repository = Repository::open_or_create(request.to.open()?, request.secret.as_ref())?;
    let Some(_files) = admin.views.files.try_lock_for(ERASURE_WAIT) else {
        bail!("erased players are being removed from the files; try again later")
    };
    let linked = LinkedSnapshot::create(admin, request.settings_file.as_deref())
        .context("linking the files of the data folder")?;
    let created = backup::create(&repository, linked.snapshot(), &|| check(admin))?;
    drop(linked);
    let BackupRetention { count_max, days_max } = request.retention;
    if count_max.is_some() || days_max.is_some() {
        let now_ms = (admin.backups.deletion_clock)().unwrap_or(0) as i64;
        backup::prune(&repository, request.retention, now_ms).with_context(|| {
            format!("the backup {} is complete, but removing old ones failed", created.name)
        })?;
    }
    Ok(created)
}

/// Returns an error if the backup has to end: the links keep space that retention would free.
fn check(admin: &Admin<'_>) -> anyhow::Result<()> {
    if (admin.backups.is_stopping)() {
        bail!("the server is stopping");
    }
    if admin.log.stats().full || admin.views.space.is_full() {
        bail!("the disk of the data folder is full; the backup has ended so that it keeps no space");
    }
    Ok(())
}
