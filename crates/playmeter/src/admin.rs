//! Administration commands on a data folder: sent to the server that runs on it, or run here if there is none.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use backup::BackupStatus;
use pipeline::archiver::{ArchiveSettings, Archiver};
use pipeline::catalog::Catalog;
use pipeline::open::{Pipeline, PipelineOptions, open_pipeline};
use pipeline::open_log::open_log;
use pipeline::time::{now_ms, now_s};
use rustix::fs::{FlockOperation, flock};
use serde_json::Value;
use server::admin::{Admin, BackupContext, Command};
use server::control::{self, Reply};

use crate::cli::FolderArgs;
use crate::{engine, own_folder, private_folder};

/// An exclusive lock on a data folder, released when dropped.
pub(crate) struct FolderLock(
    #[allow(dead_code, reason = "the lock is released when the file is closed")] File,
);

impl FolderLock {
    /// Locks the folder. Fails if another process has locked it.
    pub(crate) fn acquire(folder: &Path) -> anyhow::Result<FolderLock> {
        match FolderLock::try_acquire(folder)? {
            Some(lock) => Ok(lock),
            None => bail!(
                "another playmeter runs on {}; stop it, or choose another folder with --data",
                folder.display()
            ),
        }
    }

    /// Returns `None` if another process has locked the folder.
    fn try_acquire(folder: &Path) -> anyhow::Result<Option<FolderLock>> {
        let path = folder.join("lock");
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.with_context(|| format!("opening {}", path.display()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(FolderLock(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error).with_context(|| format!("locking {}", path.display())),
        }
    }
}

/// Runs a command and prints its result: as JSON with `--json`, otherwise with `print` for each item.
pub(crate) fn run_and_print(folder: &FolderArgs, command: Command, print: fn(&Value)) -> anyhow::Result<()> {
    let result = run(&folder.data, command)?;
    match &result {
        _ if folder.json => println!("{result}"),
        Value::Array(items) => items.iter().for_each(print),
        item => print(item),
    }
    Ok(())
}

/// Runs a command on the folder and returns its result.
pub(crate) fn run(folder: &Path, command: Command) -> anyhow::Result<Value> {
    check_is_data_folder(folder)?;
    private_folder::restrict_new_files();
    match FolderLock::try_acquire(folder)? {
        None => send_to_server(folder, &command),
        Some(_lock) => run_without_server(folder, command),
    }
}

/// Checks that the folder has a catalog.
pub(crate) fn check_is_data_folder(folder: &Path) -> anyhow::Result<()> {
    let catalog = folder.join("catalog.json");
    ensure!(
        catalog.exists() || !folder.join("log").exists(),
        "{} is missing; restore it from a backup",
        catalog.display()
    );
    ensure!(catalog.exists(), "{} is not a data folder; name one with --data", folder.display());
    own_folder::check(folder)
}

fn send_to_server(folder: &Path, command: &Command) -> anyhow::Result<Value> {
    let path = control::path(folder);
    let mut stream = UnixStream::connect(&path).with_context(|| {
        format!("the server on {} does not accept commands at the moment; try again", folder.display())
    })?;
    let mut line = serde_json::to_vec(command)?;
    line.push(b'\n');
    stream.write_all(&line).context("sending the command to the server")?;
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).context("reading the server's reply")?;
    match serde_json::from_str(&reply).context("the server's reply is not valid")? {
        Reply::Done(value) => Ok(value),
        Reply::Refused(why) => bail!(why),
    }
}

/// Opens the folder as the server would, applies the rest of the log to the views, and runs the command.
fn run_without_server(folder: &Path, command: Command) -> anyhow::Result<Value> {
    let catalog = Arc::new(Catalog::open(folder, now_s())?.0);
    server::admin::remove_leftovers(folder)?;
    let engine = engine::open(folder)?;
    let scratch = engine.scratch;
    let opened = open_log(folder, wal::Options::default(), engine.counters.durable_until())?;
    let options = PipelineOptions {
        data: folder.to_owned(),
        free_bytes_min: 0,
        reserve_bytes: 0,
        on_fatal: Arc::new(|failure| exit_with(failure)),
    };
    let Pipeline { log, views, applier, .. } = open_pipeline(opened, engine, &catalog, options)?;
    drop(applier);
    let status = BackupStatus::default();
    let backups = BackupContext {
        status: &status,
        settings_file: None,
        is_stopping: &|| false,
        deletion_clock: || Some(now_ms().max(0) as u64),
    };
    // Its threads are not started.
    let archiver = Box::new(|| {
        let settings = ArchiveSettings::default();
        Archiver::open(folder, settings, Arc::clone(&catalog), log.clone(), Arc::clone(&views))
    });
    let admin = Admin { folder, catalog: &catalog, views: &views, log: &log, scratch, archiver, backups };
    let result = server::admin::run(&admin, command);
    log.close()?;
    result
}

/// Ends the process because it cannot continue.
pub(crate) fn exit_with(failure: &str) -> ! {
    tracing::error!("{failure}");
    eprintln!("playmeter: {failure}");
    std::process::exit(1);
}
