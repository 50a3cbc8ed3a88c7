//! The import ledger: what the server has acknowledged of each file, so that an import resumes and counts nothing twice.
//!
//! One small JSON file on this machine per imported file, read options and game. The server deduplicates ids for seven
//! days; afterwards only the ledger knows that a file was imported.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::batch_sender::ImportReceipt;
use super::source::EventBatch;

const VERSION: u32 = 1;
/// Limit of the rejected lines that are listed.
const EXAMPLES_MAX: usize = 10;
/// The folder is synced at most once per interval, and at the end.
const FOLDER_SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// The acknowledged part of an imported file. The names of the fields are stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LedgerEntry {
    version: u32,
    /// The path of the file when it was last imported.
    path: String,
    /// SHA-256 of the content in hexadecimal digits.
    sha256: String,
    /// Lines or rows that were read.
    pub(crate) received: u64,
    /// Events that were sent. This is the number of the next event, from which its id may be derived.
    pub(crate) sent: u64,
    /// New events.
    pub(crate) accepted: u64,
    pub(crate) duplicate: u64,
    /// Events that were not accepted, by reason.
    #[serde(rename = "refused")]
    pub(crate) rejected: BTreeMap<String, u64>,
    /// The first rejected lines.
    pub(crate) examples: Vec<RejectedLine>,
    /// True if the whole file was imported.
    pub(crate) is_done: bool,
}

/// A line that was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RejectedLine {
    /// Number of the line of a text file or of the row of a Parquet file, starting at 1.
    pub(crate) line: u64,
    pub(crate) reason: String,
}

/// The stored entry of one import, locked against other processes.
pub(crate) struct ImportLedger {
    path: PathBuf,
    synced: Instant,
    _lock: File,
}

/// The identity of an import: a file and the options that change how it is read.
pub(crate) struct ImportIdentity<'a> {
    /// The absolute path.
    pub(crate) path: &'a str,
    /// SHA-256 of the content.
    pub(crate) sha256: &'a [u8; 32],
    /// The read options as a text.
    pub(crate) options: &'a str,
}

impl LedgerEntry {
    /// Creates the entry of a file of which nothing was imported yet.
    pub(crate) fn new(path: &str, sha256: &[u8; 32]) -> LedgerEntry {
        LedgerEntry { version: VERSION, path: path.to_owned(), sha256: hex(sha256), ..LedgerEntry::default() }
    }

    /// Adds the receipt of a batch, and the lines of the batch that could not be parsed.
    pub(crate) fn add(&mut self, batch: &EventBatch, receipt: &ImportReceipt) {
        self.received += batch.rows() as u64;
        self.sent += batch.lines.len() as u64;
        self.accepted += receipt.accepted;
        self.duplicate += receipt.duplicate;
        let by_server = receipt.results.iter().filter(|result| result.outcome != "duplicate");
        let by_server =
            by_server.filter_map(|result| Some((*batch.lines.get(result.i)?, result.reason.clone())));
        let unparsed = batch.rejected.iter().map(|(line, reject)| (*line, reject.label().to_owned()));
        let mut rejected: Vec<(u64, String)> = by_server.chain(unparsed).collect();
        rejected.sort_unstable();
        for (line, reason) in rejected {
            *self.rejected.entry(reason.clone()).or_default() += 1;
            if self.examples.len() < EXAMPLES_MAX {
                self.examples.push(RejectedLine { line, reason });
            }
        }
    }

    /// Returns the number of events that were not accepted.
    pub(crate) fn rejected_count(&self) -> u64 {
        self.rejected.values().sum()
    }
}

impl ImportLedger {
    /// Opens or creates the entry of an import in the folder of its game. Fails if another process imports the same file.
    pub(crate) fn open(
        folder: &Path,
        identity: &ImportIdentity<'_>,
    ) -> anyhow::Result<(ImportLedger, LedgerEntry)> {
        fs::create_dir_all(folder).with_context(|| format!("creating the folder {}", folder.display()))?;
        let name = Sha256::new_with_prefix(identity.sha256).chain_update(identity.options).finalize();
        let path = folder.join(format!("{}.json", hex(&name[..16])));
        let lock = lock(&path.with_extension("lock"))?;
        let mut entry = read(&path)?.unwrap_or_else(|| LedgerEntry::new(identity.path, identity.sha256));
        let mut ledger = ImportLedger { path, synced: Instant::now(), _lock: lock };
        if entry.path != identity.path {
            // The file was moved. From now on, changes are detected at the new path.
            identity.path.clone_into(&mut entry.path);
            ledger.write(&entry)?;
        }
        Ok((ledger, entry))
    }

    /// Replaces the stored entry. It survives a kill of the process; after a power loss, the entry of up to a second ago
    /// may be back.
    pub(crate) fn write(&mut self, entry: &LedgerEntry) -> anyhow::Result<()> {
        let sync_is_due = entry.is_done || self.synced.elapsed() >= FOLDER_SYNC_INTERVAL;
        let text = serde_json::to_vec_pretty(entry).context("encoding the ledger entry")?;
        let unfinished = self.path.with_extension("unfinished");
        let write = || -> io::Result<()> {
            let mut file = File::create(&unfinished)?;
            file.write_all(&text)?;
            // Before the rename, so that a power loss leaves the old or the new file, but never an empty or partial one.
            file.sync_data()?;
            fs::rename(&unfinished, &self.path)?;
            if sync_is_due { sync_folder_of(&self.path) } else { Ok(()) }
        };
        write().with_context(|| format!("writing {}", self.path.display()))?;
        if sync_is_due {
            self.synced = Instant::now();
        }
        Ok(())
    }
}

/// Returns the entry of an import from the same path with different content: the file has changed since.
pub(crate) fn find_changed(
    folder: &Path,
    identity: &ImportIdentity<'_>,
) -> anyhow::Result<Option<LedgerEntry>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("reading {}", folder.display())),
    };
    let sha256 = hex(identity.sha256);
    let mut changed = None;
    for entry in entries {
        let path = entry.with_context(|| format!("reading {}", folder.display()))?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        match read(&path)?.filter(|entry| entry.path == identity.path) {
            Some(entry) if entry.sha256 == sha256 => return Ok(None),
            Some(entry) if entry.received > 0 => changed = Some(entry),
            _ => {}
        }
    }
    Ok(changed)
}

/// Returns the folder of the ledger if `--state` is not given.
pub(crate) fn default_folder() -> anyhow::Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")));
    let state = state.context("HOME is not set; name a folder for the import ledger with --state")?;
    Ok(state.join("playmeter/imports"))
}

fn read(path: &Path) -> anyhow::Result<Option<LedgerEntry>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    };
    let entry: LedgerEntry = serde_json::from_slice(&text)
        .with_context(|| format!("{} is not an entry of the import ledger; move it away", path.display()))?;
    if entry.version != VERSION {
        bail!("{} was written by a newer version of playmeter; update this one", path.display());
    }
    Ok(Some(entry))
}

/// Makes the rename of a file durable.
fn sync_folder_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn lock(path: &Path) -> anyhow::Result<File> {
    let file = File::options().create(true).truncate(false).write(true).open(path);
    let file = file.with_context(|| format!("opening {}", path.display()))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => bail!("another process is importing this file"),
        Err(error) => Err(error).with_context(|| format!("locking {}", path.display())),
    }
}

/// Formats bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
