//! `playmeter serve`: runs the server on a data folder until a signal stops it.

use std::io::{IsTerminal, Write};
use std::sync::Arc;

use anyhow::Context;
use pipeline::catalog::Catalog;
use pipeline::time::now_s;
use server::bootstrap;
use server::{Server, Settings};
use tracing::{error, warn};

use crate::admin::FolderLock;
use crate::cli::ServeArgs;
use crate::{engine, open_files, private_folder, settings};

/// Open files besides connections: those of the log, the store, the ids and the catalog.
const OTHER_FILES: u64 = 1_024;

/// Runs until the first signal, then drains requests and stops. A second signal exits at once.
pub(crate) fn run(args: ServeArgs) -> anyhow::Result<()> {
    let settings = settings::resolve(&args)?;
    init_logging();
    if let Err(error) = open_files::raise_limit(settings.connections.total as u64 + OTHER_FILES) {
        warn!(%error, "the open file limit is too low for connections.total_max");
    }
    let folder = settings.data.clone();
    private_folder::restrict_new_files();
    std::fs::create_dir_all(&folder).with_context(|| format!("creating the folder {}", folder.display()))?;
    let _lock = FolderLock::acquire(&folder)?;
    private_folder::restrict_existing_files(&folder);
    let (catalog, created) = Catalog::open(&folder, now_s()).context("opening the catalog")?;
    let engine = engine::open(&folder)?;
    let signals = signals()?;
    let server =
        Server::start(settings.clone(), Arc::new(catalog), created, engine, Arc::new(exit_on_disk_failure))?;
    std::fs::write(folder.join("server.pid"), std::process::id().to_string())
        .context("writing server.pid")?;
    print_ready(&settings, &server)?;
    signals.recv().context("waiting for a signal")?;
    let second_signal = std::thread::spawn(move || {
        if signals.recv().is_ok() {
            std::process::exit(130);
        }
    });
    let result = server.stop();
    drop(second_signal);
    let _ = std::fs::remove_file(folder.join("server.pid"));
    result
}

fn print_ready(settings: &Settings, server: &Server) -> anyhow::Result<()> {
    let bootstrap = bootstrap::read(&settings.data)?;
    let link = bootstrap.as_ref().and_then(|content| content["sign_in_url"].as_str().map(str::to_owned));
    let link = link.unwrap_or_else(|| format!("http://{}", server.address));
    // A closed standard output must not stop the server.
    let _ = writeln!(std::io::stdout(), "Playmeter is ready. Open {link}");
    Ok(())
}

/// Exits. Every acknowledged event is on disk, but after a failed write no further one can be acknowledged safely.
fn exit_on_disk_failure(failure: &wal::WalError) {
    error!(%failure, "the disk failed; stopping, because further events could not be stored safely");
    eprintln!("playmeter: the disk failed ({failure}); check the disk, then start the server again");
    std::process::exit(1);
}

/// Writes log lines to standard error, filtered by `PLAYMETER_LOG_LEVEL`.
pub(super) fn init_logging() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("PLAYMETER_LOG_LEVEL")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr).init();
}

/// Returns a channel that gets a message for each SIGINT and SIGTERM.
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
    let forward = move || {
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
    std::thread::Builder::new().name("signals".into()).spawn(forward).context("starting a thread")?;
    Ok(receiver)
}
