//! The door for commands on this machine: a socket in the data folder that only the folder's owner can open.
//!
//! One line of JSON asks, one line answers. `playmeter games`, `keys`, `verify` and `rebuild` use it when a server runs
//! on the folder.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tracing::warn;

use crate::admin::{self, Admin, Command};
use http::AppState;
use model::ports::counters::Counters;

const NAME: &str = "control.sock";
/// A command's line.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// What came of a command.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// It was done; what there is to tell.
    Done(Value),
    /// It was not; why, as a sentence.
    Refused(String),
}

/// Where the socket of a data folder is.
pub fn path(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

/// Makes the socket. Without it the server works; only commands cannot reach it.
pub fn bind(folder: &Path) -> Option<std::os::unix::net::UnixListener> {
    let bound = try_bind(&path(folder));
    bound.inspect_err(|failure| warn!("commands cannot reach this server: {failure:#}")).ok()
}

fn try_bind(path: &Path) -> anyhow::Result<std::os::unix::net::UnixListener> {
    // The folder's lock is ours, so a socket that is there was left by a server that is gone.
    let _ = std::fs::remove_file(path);
    let listener = std::os::unix::net::UnixListener::bind(path);
    let listener = listener.with_context(|| format!("listening on {}", path.display()))?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).context("making it private")?;
    listener.set_nonblocking(true).context("making it wait for nobody")?;
    Ok(listener)
}

/// Answers on the socket until the server stops.
pub fn start(
    listener: std::os::unix::net::UnixListener,
    state: &Arc<AppState>,
    scratch: fn() -> Arc<dyn Counters>,
) {
    match UnixListener::from_std(listener) {
        Ok(listener) => drop(tokio::spawn(accept(listener, Arc::clone(state), scratch))),
        Err(failure) => warn!(%failure, "commands cannot reach this server"),
    }
}

async fn accept(listener: UnixListener, state: Arc<AppState>, scratch: fn() -> Arc<dyn Counters>) {
    let mut stopping = state.stopping.clone();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(tokio::spawn(answer(stream, Arc::clone(&state), scratch))),
                Err(failure) => warn!(%failure, "a command could not be accepted"),
            },
            _ = stopping.wait_for(|stopping| *stopping) => break,
        }
    }
    let _ = std::fs::remove_file(path(&state.settings.data));
}

async fn answer(stream: UnixStream, state: Arc<AppState>, scratch: fn() -> Arc<dyn Counters>) {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    if BufReader::new(read).take(LINE_BYTES_MAX).read_line(&mut line).await.is_err() {
        return;
    }
    let work = move || reply(&line, &state, scratch);
    let reply = tokio::task::spawn_blocking(work).await;
    let reply = reply.unwrap_or_else(|_| Reply::Refused("the command failed inside the server".into()));
    let mut text = serde_json::to_vec(&reply).unwrap_or_default();
    text.push(b'\n');
    let _ = write.write_all(&text).await;
}

fn reply(line: &str, state: &AppState, scratch: fn() -> Arc<dyn Counters>) -> Reply {
    let command: Command = match serde_json::from_str(line) {
        Ok(command) => command,
        Err(failure) => return Reply::Refused(format!("the command is not understood: {failure}")),
    };
    if let Some(reply) = of_running(&command, state) {
        return reply;
    }
    let admin = Admin {
        folder: &state.settings.data,
        catalog: &state.catalog,
        views: &state.views,
        log: &state.log,
        scratch,
    };
    match admin::run(&admin, command) {
        Ok(done) => Reply::Done(done),
        Err(failure) => Reply::Refused(format!("{failure:#}")),
    }
}

/// The answer to a command about what runs here and not about the folder.
fn of_running(command: &Command, state: &AppState) -> Option<Reply> {
    let collectors = &state.collectors;
    Some(match command {
        Command::Monitor => Reply::Done(state.monitor.look(state, None)),
        Command::ListCollectors => Reply::Done(collectors.list(&state.catalog, None).into()),
        Command::OrderCollector { name, order } => match collectors.order(name, *order) {
            Ok(done) => Reply::Done(done),
            Err(failure) => Reply::Refused(format!("{failure:#}")),
        },
        _ => return None,
    })
}
