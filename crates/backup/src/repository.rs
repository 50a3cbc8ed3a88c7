//! The backups of one target.

use std::collections::HashMap;
use std::fs::File;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::installation::hex;
use crate::keys::{Encryption, Keys, Secret};
use crate::manifest::{BACKUPS, BackupName, MANIFEST_BYTES_MAX, Manifest};
use crate::sealed::{seal, unseal};
use crate::target::Target;

/// The file that makes a folder or a bucket a target.
const CONFIG: &str = "playmeter-backup.json";
/// The version of the target's layout.
const FORMAT: u32 = 1;
/// The folder of the objects.
pub(crate) const OBJECTS: &str = "objects/";
/// The size of the content of an object. The last one of a file is smaller.
pub(crate) const CHUNK_BYTES: usize = 4 << 20;

/// A target with its keys.
pub struct Repository {
    pub(crate) target: Box<dyn Target>,
    keys: Option<Keys>,
    /// Keeps the target locked while this process may write to it.
    _writing: Option<File>,
}

#[derive(Serialize, Deserialize)]
struct Config {
    format: u32,
    encryption: Option<Encryption>,
}

impl Repository {
    /// Opens a target to read from it.
    ///
    /// # Errors
    ///
    /// If it is not a target, cannot be read, or is encrypted with another secret.
    pub fn open(target: Box<dyn Target>, secret: Option<&Secret>) -> anyhow::Result<Repository> {
        match Repository::read_config(&*target)? {
            Some(config) => Repository::with(target, &config, secret, None),
            None => bail!("{} has no backups", target.description()),
        }
    }

    /// Opens a target with backups to change it.
    ///
    /// # Errors
    ///
    /// If it is not a target, another process writes to it, or it is encrypted with another secret.
    pub fn open_existing_to_write(
        target: Box<dyn Target>,
        secret: Option<&Secret>,
    ) -> anyhow::Result<Repository> {
        match Repository::read_config(&*target)? {
            Some(config) => {
                let writing = target.begin_writing()?;
                Repository::with(target, &config, secret, writing)
            }
            None => bail!("{} has no backups", target.description()),
        }
    }

    /// Opens a target to write to it. One without backups becomes a target, encrypted if there is a secret.
    ///
    /// # Errors
    ///
    /// If it contains something else, cannot be written to, or is encrypted with another secret.
    pub fn open_or_create(target: Box<dyn Target>, secret: Option<&Secret>) -> anyhow::Result<Repository> {
        let writing = target.begin_writing()?;
        if let Some(config) = Repository::read_config(&*target)? {
            return Repository::with(target, &config, secret, writing);
        }
        ensure!(
            target.list("")?.is_empty(),
            "{} is not empty and has no backups; choose a folder or prefix of its own",
            target.description()
        );
        let config = Config { format: FORMAT, encryption: secret.map(Encryption::new).transpose()? };
        let text = serde_json::to_vec_pretty(&config)?;
        target.write(CONFIG, &text).with_context(|| format!("creating {}", target.description()))?;
        Repository::with(target, &config, secret, writing)
    }

    fn read_config(target: &dyn Target) -> anyhow::Result<Option<Config>> {
        let Some(text) = target.read(CONFIG, 1 << 20)? else { return Ok(None) };
        let config: Config = serde_json::from_slice(&text)
            .with_context(|| format!("{CONFIG} in {} is damaged", target.description()))?;
        ensure!(
            config.format <= FORMAT,
            "{} has format {}, which needs a newer program",
            target.description(),
            config.format
        );
        Ok(Some(config))
    }

    fn with(
        target: Box<dyn Target>,
        config: &Config,
        secret: Option<&Secret>,
        writing: Option<File>,
    ) -> anyhow::Result<Repository> {
        let keys = match (&config.encryption, secret) {
            (None, None) => None,
            (Some(encryption), Some(secret)) => Some(encryption.keys(secret)?),
            (Some(_), None) => bail!(
                "the backups in {} are encrypted: name the passphrase or the key file",
                target.description()
            ),
            (None, Some(_)) => bail!(
                "the backups in {} are not encrypted: choose another target for encrypted ones",
                target.description()
            ),
        };
        Ok(Repository { target, keys, _writing: writing })
    }

    /// Returns the names of the backups, oldest first.
    pub fn backups(&self) -> anyhow::Result<Vec<BackupName>> {
        let listed = self.target.list(BACKUPS)?;
        let mut names: Vec<BackupName> =
            listed.iter().filter_map(|(name, _)| BackupName::of_path(name)).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the newest backup, or the newest that has this name or was taken at or before this time.
    pub fn find(&self, at: Option<&str>) -> anyhow::Result<BackupName> {
        let mut found = None;
        for name in self.backups()? {
            if at.map_or(Ok(true), |at| name.is_at(at))? {
                found = Some(name);
            }
        }
        let Some(found) = found else {
            let target = self.target.description();
            bail!("{target} has no {}backup", at.map_or(String::new(), |at| format!("such ({at}) ")))
        };
        Ok(found)
    }

    /// Reads a manifest.
    pub fn manifest(&self, name: &BackupName) -> anyhow::Result<Manifest> {
        let path = name.path();
        let read = || {
            let bytes = self.target.read(&path, MANIFEST_BYTES_MAX)?.context("it is missing")?;
            Manifest::decode(&unseal(self.keys.as_ref(), &path, &bytes, MANIFEST_BYTES_MAX)?)
        };
        read().with_context(|| format!("{path} in {} is damaged", self.target.description()))
    }

    pub(crate) fn write_manifest(&self, name: &BackupName, manifest: &Manifest) -> anyhow::Result<()> {
        let path = name.path();
        let sealed = seal(self.keys.as_ref(), &path, &serde_json::to_vec(manifest)?)?;
        self.target.write(&path, &sealed).context("writing the manifest")
    }

    /// Returns the id of an object with this content.
    pub(crate) fn id_of(&self, content: &[u8]) -> String {
        match &self.keys {
            Some(keys) => hex(&keys.name(content)),
            None => hex(&Sha256::digest(content)),
        }
    }

    /// Returns the objects in the target by id, with their stored sizes.
    pub(crate) fn objects(&self) -> anyhow::Result<HashMap<String, u64>> {
        let listed = self.target.list(OBJECTS)?.into_iter();
        Ok(listed.filter_map(|(name, bytes)| Some((id_of_path(&name)?.to_owned(), bytes))).collect())
    }

    /// Stores an object and returns its stored size.
    pub(crate) fn write_object(&self, id: &str, content: &[u8]) -> anyhow::Result<u64> {
        let path = object_path(id);
        let sealed = seal(self.keys.as_ref(), &path, content)?;
        self.target.write(&path, &sealed).with_context(|| format!("writing {path}"))?;
        Ok(sealed.len() as u64)
    }

    /// Reads an object and checks its content.
    pub(crate) fn read_object(&self, id: &str) -> anyhow::Result<Vec<u8>> {
        let path = object_path(id);
        let bytes = self.target.read(&path, 2 * CHUNK_BYTES as u64);
        let bytes = bytes.with_context(|| format!("reading {path}"))?;
        let open = || {
            let bytes = bytes.context("it is missing")?;
            let content = unseal(self.keys.as_ref(), &path, &bytes, CHUNK_BYTES as u64)?;
            ensure!(self.id_of(&content) == id, "its content is not that of its name");
            Ok(content)
        };
        open().with_context(|| format!("the object {path} is damaged"))
    }
}

/// Returns the path of an object. Folders of 256 keep listings of file systems short.
pub(crate) fn object_path(id: &str) -> String {
    format!("{OBJECTS}{}/{id}", id.get(..2).unwrap_or("00"))
}

/// Returns the id in the path of an object.
fn id_of_path(path: &str) -> Option<&str> {
    let (folder, id) = path.strip_prefix(OBJECTS)?.split_once('/')?;
    let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) && id.starts_with(folder);
    is_id.then_some(id)
}
