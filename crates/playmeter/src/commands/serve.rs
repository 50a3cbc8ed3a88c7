//! `playmeter serve`: one process on one data folder, until a signal ends it.

use std::io::{IsTerminal, Write};
use std::sync::Arc;

use anyhow::Context;
use pipeline::catalog::Catalog;
use pipeline::time::now_s;
use server::bootstrap;
use server::{Server, Settings};
use tracing::{error, warn};

use crate::admin::Lock;
use crate::cli::ServeArgs;
use crate::{files, open, settings};

/// Files that are no connections: segments of the log, those of the store, of the ids, of the catalog.
const OTHER_FILES: u64 = 1_024;

/// Runs until the first signal, drains and ends; a second signal ends at once.
pub fn run(args: ServeArgs) -> anyhow::Result<()> {
    let settings = settings::resolve(&args)?;
    log_lines();
    if let Err(few) = files::allow(settings.connections.total as u64 + OTHER_FILES) {
        warn!(%few, "not all connections that the settings allow can be had");
    }
    let folder = settings.data.clone();
    std::fs::create_dir_all(&folder).with_context(|| format!("making the folder {}", folder.display()))?;
    let _lock = Lock::take(&folder)?;
    let (catalog, made) = Catalog::open(&folder, now_s()).context("opening the catalog")?;
    let engine = open::engine(&folder)?;
    let signals = signals()?;
    let server = Server::start(settings.clone(), Arc::new(catalog), made, engine, Arc::new(fatal))?;
    std::fs::write(folder.join("server.pid"), std::process::id().to_string())
        .context("writing server.pid")?;
    greet(&settings, &server)?;
    signals.recv().context("waiting for a signal")?;
    let second = std::thread::spawn(move || {
        if signals.recv().is_ok() {
            std::process::exit(130);
        }
    });
    let stopped = server.stop();
    drop(second);
    let _ = std::fs::remove_file(folder.join("server.pid"));
    stopped
}

fn greet(settings: &Settings, server: &Server) -> anyhow::Result<()> {
    let bootstrap = bootstrap::read(&settings.data)?;
    let link = bootstrap.as_ref().and_then(|content| content["sign_in_url"].as_str().map(str::to_owned));
    let link = link.unwrap_or_else(|| format!("http://{}", server.address));
    // One line for people; a closed pipe is no reason to stop.
    let _ = writeln!(std::io::stdout(), "Playmeter is ready. Open {link}");
    Ok(())
}

/// Every event that was acknowledged is on disk; nothing more can be promised.
fn fatal(failure: &wal::WalError) {
    error!(%failure, "the disk failed; stopping so that nothing is acknowledged that is not safe");
    eprintln!("playmeter: the disk failed ({failure}); check it, then start again");
    std::process::exit(1);
}

/// Says what happens on standard error, as `PLAYMETER_LOG_LEVEL` wants it.
pub(super) fn log_lines() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("PLAYMETER_LOG_LEVEL")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr).init();
}

/// Interrupt and terminate, as messages.
fn signals() -> anyhow::Result<std::sync::mpsc::Receiver<()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (sender, receiver) = std::sync::mpsc::channel();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting a runtime")?;
    let (mut interrupt, mut terminate) = runtime
        .block_on(async {
            Ok::<_, std::io::Error>((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
        })
        .context("listening for signals")?;
    let work = move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if sender.send(()).is_err() {
                    return;
                }
            }
        });
    };
    std::thread::Builder::new().name("signals".into()).spawn(work).context("starting a thread")?;
    Ok(receiver)
}
