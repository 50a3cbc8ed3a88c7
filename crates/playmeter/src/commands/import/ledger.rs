//! What was acknowledged of a file, kept on this machine, so that an import goes on where it was and counts nothing twice.
//!
//! One small file of JSON for each file, each way of reading it and each game that it goes to. A server remembers ids
//! for seven days; this is what says later that a file is in.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::sender::Receipt;
use super::source::Batch;

const VERSION: u32 = 1;
/// Refused lines that are named.
const EXAMPLES_MAX: usize = 10;
/// That an account is replaced is made durable at most so often, and in the end.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// What was acknowledged of one file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    version: u32,
    /// Where the file was.
    path: String,
    /// SHA-256 of its content, in hexadecimal digits.
    sha256: String,
    /// Lines or rows that were taken from it.
    pub received: u64,
    /// Of these, those that were sent: the number of the next event, from which its id may follow.
    pub sent: u64,
    /// Are new and durable.
    pub accepted: u64,
    /// Were there before.
    pub duplicate: u64,
    /// Were not taken, by reason.
    pub refused: BTreeMap<String, u64>,
    /// The first of these.
    pub examples: Vec<Example>,
    /// The whole file was taken.
    pub is_done: bool,
}

/// One line that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// The line of a text, the row of a table of columns; from 1 on.
    pub line: u64,
    /// Why.
    pub reason: String,
}

/// Where an account is kept.
pub struct Ledger {
    path: PathBuf,
    synced: Instant,
    /// Held as long as the import runs.
    _lock: File,
}

/// What is being imported, and how.
pub struct Subject<'a> {
    /// The file, as a path from the root.
    pub path: &'a str,
    /// SHA-256 of its content.
    pub sha256: &'a [u8; 32],
    /// What decides about how it is read, in one text.
    pub reading: &'a str,
}

impl Account {
    /// Of a file of which nothing was taken yet.
    pub fn new(path: &str, sha256: &[u8; 32]) -> Account {
        Account { version: VERSION, path: path.to_owned(), sha256: hex(sha256), ..Account::default() }
    }

    /// Adds what became of a batch.
    pub fn add(&mut self, batch: &Batch, receipt: &Receipt) {
        self.received += batch.rows() as u64;
        self.sent += batch.lines.len() as u64;
        self.accepted += receipt.accepted;
        self.duplicate += receipt.duplicate;
        let told = receipt.results.iter().filter(|result| result.outcome != "duplicate");
        let told = told.filter_map(|result| Some((*batch.lines.get(result.i)?, result.reason.clone())));
        let unread = batch.refused.iter().map(|(line, reject)| (*line, reject.label().to_owned()));
        let mut refused: Vec<(u64, String)> = told.chain(unread).collect();
        refused.sort_unstable();
        for (line, reason) in refused {
            *self.refused.entry(reason.clone()).or_default() += 1;
            if self.examples.len() < EXAMPLES_MAX {
                self.examples.push(Example { line, reason });
            }
        }
    }

    /// How many were not taken.
    pub fn refused_count(&self) -> u64 {
        self.refused.values().sum()
    }
}

impl Ledger {
    /// Finds the account of a file in the folder of its game, or begins one. Another process that works on it is an error.
    pub fn open(folder: &Path, subject: &Subject<'_>) -> anyhow::Result<(Ledger, Account)> {
        fs::create_dir_all(folder).with_context(|| format!("making the folder {}", folder.display()))?;
        let name = Sha256::new_with_prefix(subject.sha256).chain_update(subject.reading).finalize();
        let path = folder.join(format!("{}.json", hex(&name[..16])));
        let lock = lock(&path.with_extension("lock"))?;
        let mut account = read(&path)?.unwrap_or_else(|| Account::new(subject.path, subject.sha256));
        let mut ledger = Ledger { path, synced: Instant::now(), _lock: lock };
        if account.path != subject.path {
            // It was moved, and from now on it is there that it must not change.
            subject.path.clone_into(&mut account.path);
            ledger.keep(&account)?;
        }
        Ok((ledger, account))
    }

    /// Keeps the account: a process that is killed afterwards leaves it as it is now, a machine that loses power as it
    /// was up to a second ago.
    pub fn keep(&mut self, account: &Account) -> anyhow::Result<()> {
        let is_due = account.is_done || self.synced.elapsed() >= SYNC_EVERY;
        let text = serde_json::to_vec_pretty(account).context("encoding the account")?;
        let unfinished = self.path.with_extension("unfinished");
        let write = || -> io::Result<()> {
            let mut file = File::create(&unfinished)?;
            file.write_all(&text)?;
            // Before the name: a machine that loses power leaves the one or the other, but none that is empty or half.
            file.sync_data()?;
            fs::rename(&unfinished, &self.path)?;
            if is_due { sync_folder_of(&self.path) } else { Ok(()) }
        };
        write().with_context(|| format!("keeping {}", self.path.display()))?;
        if is_due {
            self.synced = Instant::now();
        }
        Ok(())
    }
}

/// An account of a file at the same path with another content: the file has changed since.
pub fn changed(folder: &Path, subject: &Subject<'_>) -> anyhow::Result<Option<Account>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(failure) if failure.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(failure) => return Err(failure).with_context(|| format!("reading {}", folder.display())),
    };
    let sha256 = hex(subject.sha256);
    let mut changed = None;
    for entry in entries {
        let path = entry.with_context(|| format!("reading {}", folder.display()))?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        match read(&path)?.filter(|account| account.path == subject.path) {
            Some(account) if account.sha256 == sha256 => return Ok(None),
            Some(account) if account.received > 0 => changed = Some(account),
            _ => {}
        }
    }
    Ok(changed)
}

/// Where accounts are kept unless a flag says it.
pub fn default_folder() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")));
    let state = state.context("there is no HOME to keep in what was imported; name a folder with --state")?;
    Ok(state.join("playmeter/imports"))
}

fn read(path: &Path) -> anyhow::Result<Option<Account>> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(failure) if failure.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(failure) => return Err(failure).with_context(|| format!("reading {}", path.display())),
    };
    let account: Account = serde_json::from_slice(&text)
        .with_context(|| format!("{} is no account of an import; move it away", path.display()))?;
    if account.version != VERSION {
        bail!("{} is of a newer playmeter", path.display());
    }
    Ok(Some(account))
}

/// Makes the name of a file durable.
fn sync_folder_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn lock(path: &Path) -> anyhow::Result<File> {
    let file = File::options().create(true).truncate(false).write(true).open(path);
    let file = file.with_context(|| format!("opening {}", path.display()))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => bail!("it is being imported by another process"),
        Err(failure) => Err(failure).with_context(|| format!("locking {}", path.display())),
    }
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
