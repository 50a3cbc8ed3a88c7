//! Where backups are stored.

mod folder;
mod s3;

use std::fmt::{self, Debug, Formatter};
use std::fs::File;
use std::path::PathBuf;

use anyhow::{bail, ensure};
use serde::{Deserialize, Serialize};

/// A folder or a bucket. Names are relative paths with `/`.
pub trait Target: Send {
    /// Prepares writing. Fails if another process writes to the target, as far as that can be found out. The result is
    /// kept while writing goes on.
    fn begin_writing(&self) -> anyhow::Result<Option<File>>;

    /// Returns the names that begin with `prefix`, which is empty or ends with `/`, and the sizes.
    fn list(&self, prefix: &str) -> anyhow::Result<Vec<(String, u64)>>;

    /// Returns the bytes stored under a name, or `None` if there are none.
    ///
    /// # Errors
    ///
    /// If they cannot be read, or are more than `bytes_max`.
    fn read(&self, name: &str, bytes_max: u64) -> anyhow::Result<Option<Vec<u8>>>;

    /// Stores bytes under a name, durably. Readers see all of them or what was there before.
    fn write(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()>;

    /// Removes a name. One that does not exist is no error.
    fn remove(&self, name: &str) -> anyhow::Result<()>;

    /// Returns the name of the target for people.
    fn description(&self) -> String;
}

/// A target as named by the user, with what is needed to reach it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetSettings {
    /// A folder with this absolute path.
    Folder(PathBuf),
    /// A prefix in a bucket.
    S3 {
        /// The bucket.
        bucket: String,
        /// The beginning of all names: empty, or ends with `/`.
        prefix: String,
        /// How to reach the bucket.
        credentials: S3Credentials,
    },
}

/// Where a bucket is and who asks.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct S3Credentials {
    /// The URL of the service; `None`: that of AWS in the region.
    pub endpoint: Option<String>,
    /// The region.
    pub region: String,
    /// The id of the access key.
    pub key: String,
    /// The secret of the access key.
    pub secret: String,
    /// The token of a temporary access key.
    pub token: Option<String>,
}

impl Debug for S3Credentials {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Credentials").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl S3Credentials {
    /// Reads the variables that the tools of AWS read from an environment.
    ///
    /// # Errors
    ///
    /// If there is no access key.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<S3Credentials> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let (Some(key), Some(secret)) = (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"))
        else {
            bail!("a bucket needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment")
        };
        Ok(S3Credentials {
            endpoint: variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL")),
            region: variable("AWS_REGION")
                .or_else(|| variable("AWS_DEFAULT_REGION"))
                .unwrap_or_else(|| "us-east-1".to_owned()),
            key,
            secret,
            token: variable("AWS_SESSION_TOKEN"),
        })
    }
}

impl TargetSettings {
    /// Reads `s3://BUCKET/PREFIX` or the path of a folder.
    ///
    /// # Errors
    ///
    /// If it is neither, or the bucket's credentials are missing.
    pub fn parse(text: &str, variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<TargetSettings> {
        let Some(rest) = text.strip_prefix("s3://") else {
            ensure!(!text.is_empty(), "must be a folder or s3://BUCKET/PREFIX");
            let scheme = text.split_once("://").map(|(scheme, _)| scheme);
            ensure!(scheme.is_none(), "`{text}` is neither a folder nor s3://BUCKET/PREFIX");
            return Ok(TargetSettings::Folder(std::path::absolute(text)?));
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        ensure!(!bucket.is_empty(), "`{text}` names no bucket; write s3://BUCKET/PREFIX");
        let prefix = prefix.trim_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let credentials = S3Credentials::from_variables(variable)?;
        Ok(TargetSettings::S3 { bucket: bucket.to_owned(), prefix, credentials })
    }

    /// Opens the target.
    ///
    /// # Errors
    ///
    /// If the address of the bucket is not valid.
    pub fn open(&self) -> anyhow::Result<Box<dyn Target>> {
        Ok(match self {
            TargetSettings::Folder(path) => Box::new(folder::FolderTarget::new(path)),
            TargetSettings::S3 { bucket, prefix, credentials } => {
                Box::new(s3::S3Target::new(bucket, prefix, credentials)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str) -> Option<String> {
        let value = match name {
            "AWS_ACCESS_KEY_ID" => "key",
            "AWS_SECRET_ACCESS_KEY" => "secret",
            _ => return None,
        };
        Some(value.to_owned())
    }

    #[test]
    fn targets_are_folders_or_buckets() {
        let parsed = |text: &str| TargetSettings::parse(text, variable);
        let s3 = |bucket: &str, prefix: &str| TargetSettings::S3 {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
            credentials: S3Credentials::from_variables(variable).expect("there is a key"),
        };
        assert_eq!(parsed("/a/b").ok(), Some(TargetSettings::Folder("/a/b".into())));
        assert_eq!(parsed("s3://games").ok(), Some(s3("games", "")));
        assert_eq!(parsed("s3://games/a/b/").ok(), Some(s3("games", "a/b/")));
        for wrong in ["", "s3://", "s3:///a", "ftp://host/a"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
        assert!(TargetSettings::parse("s3://games", |_| None).is_err());
        assert!(!format!("{:?}", s3("games", "")).contains("secret\""));
    }
}
