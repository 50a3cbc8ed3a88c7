//! Backups of a data folder: content-addressed objects in a folder or a bucket, and one manifest for each backup.
//!
//! A backup reads files that do not change while it runs; who calls it provides such a snapshot. Files are cut into
//! chunks, each stored once under the hash of its content, so a backup copies only what is new. The manifest is written
//! last: a backup without one does not exist. `docs/backup_format.md` describes every byte.

mod agent;
mod create;
mod installation;
mod keys;
mod manifest;
mod prune;
mod repository;
mod restore;
mod sealed;
mod status;
mod target;

pub use agent::agent;
pub use create::{CreatedBackup, Snapshot, SnapshotFile, create};
pub use installation::installation_id;
pub use keys::Secret;
pub use manifest::{BackupName, Manifest};
pub use prune::{BackupRetention, prune, remove};
pub use repository::Repository;
pub use restore::{CheckedBackup, RestoredBackup, check, is_empty_folder, restore};
pub use status::{BackupStatus, RunningBackup, StatusReport};
pub use target::{S3Credentials, Target, TargetSettings};
