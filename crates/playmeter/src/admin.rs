//! Commands on a data folder: through the server that runs on it, or on the folder itself when none does.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use pipeline::catalog::Catalog;
use pipeline::ingest::Claims;
use pipeline::open::{Followed, follow};
use pipeline::time::now_s;
use rustix::fs::{FlockOperation, flock};
use serde_json::Value;
use server::admin::{Admin, Command};
use server::control::{self, Reply};
use wal::{RealDisk, Wal};

use crate::cli::FolderArgs;
use crate::open;

/// Holds the folder: one process at a time.
pub struct Lock(#[allow(dead_code, reason = "the lock lives as long as the file is open")] File);

impl Lock {
    /// Takes the folder or says who has it.
    pub fn take(folder: &Path) -> anyhow::Result<Lock> {
        match Lock::try_take(folder)? {
            Some(lock) => Ok(lock),
            None => bail!(
                "another playmeter runs on {}; stop it, or choose another folder with --data",
                folder.display()
            ),
        }
    }

    fn try_take(folder: &Path) -> anyhow::Result<Option<Lock>> {
        let path = folder.join("lock");
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.with_context(|| format!("opening {}", path.display()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(failure) => Err(failure).with_context(|| format!("locking {}", path.display())),
        }
    }
}

/// Has a command done and prints what came of it: as JSON if that is asked for, else each thing as `print` tells of it.
pub fn show(folder: &FolderArgs, command: Command, print: fn(&Value)) -> anyhow::Result<()> {
    let done = run(&folder.data, command)?;
    match &done {
        _ if folder.json => println!("{done}"),
        Value::Array(all) => all.iter().for_each(print),
        one => print(one),
    }
    Ok(())
}

/// Has a command done on the folder.
pub fn run(folder: &Path, command: Command) -> anyhow::Result<Value> {
    ensure!(
        folder.join("catalog.json").exists(),
        "{} is no data folder; name it with --data",
        folder.display()
    );
    match Lock::try_take(folder)? {
        None => ask(folder, &command),
        Some(_lock) => alone(folder, command),
    }
}

fn ask(folder: &Path, command: &Command) -> anyhow::Result<Value> {
    let path = control::path(folder);
    let mut stream = UnixStream::connect(&path)
        .with_context(|| format!("the server on {} takes no commands at this moment", folder.display()))?;
    let mut line = serde_json::to_vec(command)?;
    line.push(b'\n');
    stream.write_all(&line).context("asking the server")?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).context("reading the server's answer")?;
    match serde_json::from_str(&answer).context("the server answered something else")? {
        Reply::Done(value) => Ok(value),
        Reply::Refused(why) => bail!(why),
    }
}

/// Opens what the server would open, brings the views up to the log, and does the command.
fn alone(folder: &Path, command: Command) -> anyhow::Result<Value> {
    let (catalog, _) = Catalog::open(folder, now_s())?;
    let engine = open::engine(folder)?;
    let scratch = engine.scratch;
    let opened = Wal::<Claims>::open(Arc::new(RealDisk), &folder.join("log"), wal::Options::default())?;
    let Followed { log, views, processor, .. } = follow(opened, engine, &catalog)?;
    drop(processor);
    let admin = Admin { folder, catalog: &catalog, views: &views, log: &log, scratch };
    let done = server::admin::run(&admin, command);
    log.close()?;
    done
}
