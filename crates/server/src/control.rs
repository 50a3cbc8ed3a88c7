//! The control socket: a Unix socket in the data folder that only the folder's owner can open.
//!
//! A request is one line of JSON, and so is the response. `playmeter games`, `keys`, `backup`, `verify` and `rebuild` use it while a
//! server runs on the folder.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tracing::warn;

use crate::admin::{self, Admin, BackupContext, Command};
use http::AppState;
use pipeline::engine::ScratchCounters;
use pipeline::time::deletion_now_ms;

const NAME: &str = "control.sock";
/// The maximum size of a request.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// The response to a command.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// It was executed, with this result.
    Done(Value),
    /// It failed, with this message.
    Refused(String),
}

/// Returns the path of the socket in a data folder.
pub fn path(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

/// Creates the socket. If that fails, the server runs without it.
pub fn bind(folder: &Path) -> Option<std::os::unix::net::UnixListener> {
    let bound = try_bind(&path(folder));
    bound.inspect_err(|failure| warn!("the control socket is not available: {failure:#}")).ok()
}

fn try_bind(path: &Path) -> anyhow::Result<std::os::unix::net::UnixListener> {
    // This process holds the folder's lock, so an existing socket is a leftover.
    let _ = std::fs::remove_file(path);
    let listener = std::os::unix::net::UnixListener::bind(path);
    let listener = listener.with_context(|| format!("listening on {}", path.display()))?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))
        .context("restricting its permissions")?;
    listener.set_nonblocking(true).context("making it non-blocking")?;
    Ok(listener)
}

/// Serves the socket until the server stops.
pub fn start(listener: std::os::unix::net::UnixListener, state: &Arc<AppState>, scratch: ScratchCounters) {
    match UnixListener::from_std(listener) {
        Ok(listener) => drop(tokio::spawn(accept(listener, Arc::clone(state), scratch))),
        Err(failure) => warn!(%failure, "the control socket is not available"),
    }
}

async fn accept(listener: UnixListener, state: Arc<AppState>, scratch: ScratchCounters) {
    let mut stopping = state.stopping.clone();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(tokio::spawn(answer(stream, Arc::clone(&state), scratch))),
                Err(failure) => warn!(%failure, "accepting a control connection failed"),
            },
            _ = stopping.wait_for(|stopping| *stopping) => break,
        }
    }
    let _ = std::fs::remove_file(path(&state.settings.data));
}

async fn answer(stream: UnixStream, state: Arc<AppState>, scratch: ScratchCounters) {
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

fn reply(line: &str, state: &AppState, scratch: ScratchCounters) -> Reply {
    let command: Command = match serde_json::from_str(line) {
        Ok(command) => command,
        Err(failure) => return Reply::Refused(format!("the command is not valid: {failure}")),
    };
    if let Some(reply) = answer_from_server(&command, state) {
        return reply;
    }
    let is_stopping = || *state.stopping.borrow();
    match admin::run(&admin(state, scratch, &is_stopping), command) {
        Ok(done) => Reply::Done(done),
        Err(failure) => Reply::Refused(format!("{failure:#}")),
    }
}

/// Returns the parts of the running server that commands use.
pub(crate) fn admin<'a>(
    state: &'a AppState,
    scratch: ScratchCounters,
    is_stopping: &'a (dyn Fn() -> bool + Sync),
) -> Admin<'a> {
    Admin {
        folder: &state.settings.data,
        catalog: &state.catalog,
        views: &state.views,
        log: &state.log,
        scratch,
        archiver: Box::new(|| Ok(Arc::clone(&state.archiver))),
        backups: BackupContext {
            status: &state.backups,
            settings_file: state.settings.settings_file.clone(),
            is_stopping,
            deletion_clock: deletion_now_ms,
        },
    }
}

/// Answers a command that concerns the running server, not the folder.
fn answer_from_server(command: &Command, state: &AppState) -> Option<Reply> {
    let collectors = &state.collectors;
    Some(match command {
        Command::Monitor => Reply::Done(state.monitor.snapshot(state, None)),
        Command::ListCollectors => Reply::Done(collectors.list(&state.catalog, None).into()),
        Command::OrderCollector { name, order } => match collectors.apply(name, *order) {
            Ok(done) => Reply::Done(done),
            Err(failure) => Reply::Refused(format!("{failure:#}")),
        },
        _ => return None,
    })
}
