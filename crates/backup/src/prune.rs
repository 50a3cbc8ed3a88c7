//! Removing old backups and the objects that no backup needs any more.

use std::collections::HashSet;

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use crate::manifest::BackupName;
use crate::repository::{Repository, object_path};

/// Which backups are kept. The newest one always is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupRetention {
    /// The number of backups; `None`: all.
    pub count_max: Option<u32>,
    /// The age of a backup in days; `None`: any.
    pub days_max: Option<u32>,
}

impl BackupRetention {
    /// Returns the backups that are not kept. `names` are in the order of their times.
    fn expired<'a>(&self, names: &'a [BackupName], now_ms: i64) -> Vec<&'a BackupName> {
        let Some((_newest, older)) = names.split_last() else { return Vec::new() };
        let is_expired = |(age, name): (usize, &BackupName)| {
            let is_surplus = self.count_max.is_some_and(|max| age + 1 >= max.max(1) as usize);
            let oldest_ms = |days: u32| now_ms - i64::from(days) * 24 * 3_600_000;
            let created_ms = name.created_ms().unwrap_or(i64::MAX);
            is_surplus || self.days_max.is_some_and(|days| created_ms < oldest_ms(days))
        };
        let older = older.iter().rev().enumerate();
        older.filter(|(age, name)| is_expired((*age, name))).map(|(_, name)| name).collect()
    }
}

/// Removes the backups that are not kept, then the objects that none of the others needs. Returns the number of removed
/// backups.
///
/// The manifest of a backup is removed before its objects: an interruption leaves objects that the next call removes.
pub fn prune(repository: &Repository, retention: BackupRetention, now_ms: i64) -> anyhow::Result<usize> {
    let names = repository.backups()?;
    let expired = retention.expired(&names, now_ms);
    for name in &expired {
        repository.target.remove(&name.path())?;
    }
    remove_unused_objects(repository)?;
    Ok(expired.len())
}

/// Removes one backup and the objects that no other needs.
pub fn remove(repository: &Repository, name: &BackupName) -> anyhow::Result<()> {
    ensure!(repository.backups()?.contains(name), "there is no backup {name}");
    repository.target.remove(&name.path())?;
    remove_unused_objects(repository)
}

/// Removes what no backup refers to. Without a readable manifest of every backup nothing is removed.
fn remove_unused_objects(repository: &Repository) -> anyhow::Result<()> {
    let mut used = HashSet::new();
    for name in repository.backups()? {
        let manifest = repository.manifest(&name)?;
        used.extend(manifest.files.into_iter().flat_map(|file| file.objects).map(|object| object.id));
    }
    for id in repository.objects()?.into_keys().filter(|id| !used.contains(id)) {
        repository.target.remove(&object_path(&id))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backups_expire_by_number_and_by_age_but_never_the_newest() {
        let day_ms = 24 * 3_600_000;
        let names: Vec<BackupName> =
            (0..5).map(|day| BackupName::new(day * day_ms, [0, 0]).expect("a time")).collect();
        let expired = |count_max, days_max, now_days: i64| {
            let mut expired: Vec<usize> = BackupRetention { count_max, days_max }
                .expired(&names, now_days * day_ms)
                .into_iter()
                .map(|name| names.iter().position(|known| known == name).expect("it is one of them"))
                .collect();
            expired.sort_unstable();
            expired
        };
        assert_eq!(expired(None, None, 100), [0; 0]);
        assert_eq!(expired(Some(2), None, 4), [0, 1, 2]);
        assert_eq!(expired(Some(0), None, 4), [0, 1, 2, 3]);
        assert_eq!(expired(Some(1), None, 4), [0, 1, 2, 3]);
        assert_eq!(expired(None, Some(2), 4), [0, 1]);
        assert_eq!(expired(Some(4), Some(2), 4), [0, 1]);
        assert_eq!(expired(None, Some(2), 1_000), [0, 1, 2, 3]);
    }
}
