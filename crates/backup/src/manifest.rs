//! The manifest of a backup: which files it has and of which objects they consist.

use std::fmt::{self, Display, Formatter};
use std::path::{Component, Path};

use anyhow::{Context, bail, ensure};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The version of the manifest that this program writes, and the newest that it reads.
pub(crate) const FORMAT: u32 = 1;
/// The largest size of a manifest: that of a backup of about 20 TB.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 512 << 20;
/// The folder of the manifests.
pub(crate) const BACKUPS: &str = "backups/";

/// The name of a backup: its time and four random digits. Names sort by time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BackupName(String);

impl BackupName {
    /// Creates the name of a backup taken now.
    pub(crate) fn new(created_ms: i64, random: [u8; 2]) -> anyhow::Result<BackupName> {
        let time = Timestamp::from_millisecond(created_ms).context("the clock is wrong")?;
        let time = time.strftime("%Y%m%dT%H%M%S%3fZ");
        Ok(BackupName(format!("{time}-{}", crate::installation::hex(&random))))
    }

    /// Returns the name in the path of a manifest.
    pub(crate) fn of_path(path: &str) -> Option<BackupName> {
        let name = path.strip_prefix(BACKUPS)?;
        let is_name = name.len() == 24
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && name.as_bytes()[19] == b'-';
        is_name.then(|| BackupName(name.to_owned()))
    }

    pub(crate) fn path(&self) -> String {
        format!("{BACKUPS}{}", self.0)
    }

    /// Returns true if the backup has this name or was taken at or before this time in RFC 3339 format.
    pub(crate) fn is_at(&self, at: &str) -> anyhow::Result<bool> {
        if self.0 == at {
            return Ok(true);
        }
        if BackupName::of_path(&format!("{BACKUPS}{at}")).is_some() {
            return Ok(false);
        }
        let Ok(time) = at.parse::<Timestamp>() else {
            bail!("--at: `{at}` is neither the name of a backup nor a time in RFC 3339 format")
        };
        Ok(self.created_ms().is_some_and(|created_ms| created_ms <= time.as_millisecond()))
    }

    /// Returns the time at which the backup was taken, in milliseconds since 1970.
    pub fn created_ms(&self) -> Option<i64> {
        let digits = |range: std::ops::Range<usize>| self.0.get(range);
        let date = [digits(0..4)?, digits(4..6)?, digits(6..8)?].join("-");
        let time = [digits(9..11)?, digits(11..13)?, digits(13..15)?].join(":");
        let text = format!("{date}T{time}.{}Z", digits(15..18)?);
        Some(text.parse::<Timestamp>().ok()?.as_millisecond())
    }
}

impl Display for BackupName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the format.
    pub(crate) format: u32,
    /// When it was taken, in milliseconds since 1970.
    pub created_ms: i64,
    /// The version of the program that took it.
    pub program: String,
    /// The installation that it is of.
    pub installation: String,
    /// The log position up to which everything is in it.
    pub position: u64,
    /// The files, in the order in which they are restored.
    pub(crate) files: Vec<BackupFile>,
}

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BackupFile {
    /// The path in the data folder.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// The identity of the file that was read. While a file keeps it and its size, its content is the same.
    pub(crate) inode: u64,
    pub(crate) modified_ns: i64,
    pub(crate) objects: Vec<ObjectRef>,
}

/// A reference to an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ObjectRef {
    /// 64 hexadecimal digits.
    pub(crate) id: String,
    /// The size of its content.
    pub(crate) bytes: u32,
}

impl Manifest {
    /// Returns the size of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Returns the number of files.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn decode(text: &[u8]) -> anyhow::Result<Manifest> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let Version { format } = serde_json::from_slice(text).context("the manifest is not valid")?;
        ensure!(format <= FORMAT, "the backup has format {format}, which needs a newer program");
        let manifest: Manifest = serde_json::from_slice(text).context("the manifest is not valid")?;
        for file in &manifest.files {
            ensure!(is_inside(&file.name), "the manifest names the file `{}`", file.name.escape_debug());
            let bytes: u64 = file.objects.iter().map(|object| u64::from(object.bytes)).sum();
            ensure!(bytes == file.bytes, "the objects of {} do not add up to its size", file.name);
        }
        Ok(manifest)
    }
}

/// Returns true if a path leads to a file inside the folder that it is relative to.
fn is_inside(name: &str) -> bool {
    let is_normal = |part: Component<'_>| matches!(part, Component::Normal(_));
    !name.is_empty() && !name.contains('\0') && Path::new(name).components().all(is_normal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_time_and_are_found_by_name_and_time() {
        let name = BackupName::new(1_700_000_000_123, [1, 0xfe]).expect("a time");
        assert_eq!(name.to_string(), "20231114T221320123Z-01fe");
        assert_eq!(BackupName::of_path(&name.path()), Some(name.clone()));
        assert_eq!(name.created_ms(), Some(1_700_000_000_123));
        let is_at = |at: &str| name.is_at(at).ok();
        assert_eq!(is_at("20231114T221320123Z-01fe"), Some(true));
        assert_eq!(is_at("20231114T221320123Z-01ff"), Some(false));
        assert_eq!(is_at("2023-11-14T22:13:20.123Z"), Some(true));
        assert_eq!(is_at("2023-11-14T22:13:20Z"), Some(false));
        assert_eq!(is_at("yesterday"), None);
    }

    #[test]
    fn a_manifest_names_only_files_inside_the_folder() {
        for (name, expected) in
            [("log/1.log", true), ("/etc/passwd", false), ("../x", false), ("a/../b", false), ("", false)]
        {
            assert_eq!(is_inside(name), expected, "{name}");
        }
    }
}
