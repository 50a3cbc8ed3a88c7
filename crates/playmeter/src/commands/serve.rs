//! `playmeter serve`: runs the server on a data folder until a signal stops it.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use anyhow::Context;
use pipeline::catalog::{Catalog, FIRST_GAME};
use pipeline::time::now_s;
use server::bootstrap;
use server::{Server, Settings};
use tracing::warn;

use crate::admin::{FolderLock, exit_with};
use crate::cli::ServeArgs;
use crate::{engine, open_files, own_folder, private_folder, settings};

/// Open files besides connections: those of the log, the store, the ids and the catalog.
const OTHER_FILES: u64 = 1_024;
/// The threads without which a server does only half of its work. A panic on one of them ends the process; the applier
/// ends it, too, after it has recorded what it applied. Requests and collectors run on other threads, where a panic ends
/// only one of them.
const VITAL_THREADS: [&str; 10] = [
    "log-writer",
    "log-keeper",
    "checkpoint",
    "ids-write",
    "ids-tidy",
    "live",
    "flows",
    "load",
    "erasure",
    "fjall:worker",
];

/// Runs until the first signal, then drains requests and stops. A second signal exits at once.
pub(crate) fn run(args: ServeArgs) -> anyhow::Result<()> {
    let settings = settings::resolve(&args)?;
    init_logging();
    exit_on_panics();
    let stop = signals(settings.stop_timeout)?;
    if let Err(error) = open_files::raise_limit(settings.connections.total as u64 + OTHER_FILES) {
        warn!(%error, "the open file limit is too low for connections.total_max");
    }
    let folder = settings.data.clone();
    private_folder::restrict_new_files();
    own_folder::check(&folder)?;
    std::fs::create_dir_all(&folder).with_context(|| format!("creating the folder {}", folder.display()))?;
    let _lock = FolderLock::acquire(&folder)?;
    private_folder::restrict_existing_files(&folder);
    let first_game = if settings.demo { "Demo game" } else { FIRST_GAME };
    let opened = Catalog::open_with(&folder, now_s(), first_game);
    let (catalog, created) = opened.context("opening the catalog")?;
    let engine = engine::open(&folder)?;
    let on_fatal = Arc::new(|failure: &str| exit_with(failure));
    let server = Server::start(settings.clone(), Arc::new(catalog), created, engine, on_fatal)?;
    #[cfg(feature = "fault-injection")]
    panic_on_thread();
    std::fs::write(folder.join("server.pid"), std::process::id().to_string())
        .context("writing server.pid")?;
    print_ready(&settings, &server)?;
    stop.recv().context("waiting for a signal")?;
    let result = server.stop();
    let _ = std::fs::remove_file(folder.join("server.pid"));
    result
}

fn print_ready(settings: &Settings, server: &Server) -> anyhow::Result<()> {
    let bootstrap = bootstrap::read(&settings.data)?;
    let link = bootstrap.as_ref().and_then(|content| content["sign_in_url"].as_str().map(str::to_owned));
    let link = link.unwrap_or_else(|| server.url.clone());
    // A closed standard output must not stop the server.
    let _ = writeln!(std::io::stdout(), "Playmeter is ready. Open {link}");
    Ok(())
}

/// Ends the process after a panic on a thread that it cannot work without.
fn exit_on_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        let thread = std::thread::current();
        if let Some(name) = thread.name().filter(|name| VITAL_THREADS.contains(name)) {
            exit_with(&format!(
                "the thread {name} panicked; start the server again: everything acknowledged is in the log"
            ));
        }
    }));
}

/// Panics on a thread with the name that `PLAYMETER_INJECTED_FAULT` gives as `panic_on:NAME`.
#[cfg(feature = "fault-injection")]
fn panic_on_thread() {
    let Ok(fault) = std::env::var("PLAYMETER_INJECTED_FAULT") else { return };
    let Some(name) = fault.strip_prefix("panic_on:") else { return };
    let thread = std::thread::Builder::new().name(name.to_owned());
    let _ = thread.spawn(|| panic!("an injected fault")).map(std::thread::JoinHandle::join);
}

/// Writes log lines to standard error, filtered by `PLAYMETER_LOG_LEVEL`.
pub(super) fn init_logging() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("PLAYMETER_LOG_LEVEL")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr).init();
}

/// Returns a channel that gets a message at the first SIGINT or SIGTERM. From then on the process ends at a second signal,
/// or after `stop_timeout`, whatever it is doing.
fn signals(stop_timeout: Duration) -> anyhow::Result<std::sync::mpsc::Receiver<()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (sender, receiver) = std::sync::mpsc::channel();
    let (stop_sender, stop_receiver) = std::sync::mpsc::channel();
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
    let watch = move || {
        if receiver.recv().is_err() {
            return;
        }
        // Without a receiver the start has failed, and the process ends anyway.
        let _ = stop_sender.send(());
        match receiver.recv_timeout(stop_timeout) {
            Ok(()) => std::process::exit(130),
            Err(RecvTimeoutError::Timeout) => exit_with(&format!(
                "the stop took longer than {} s; everything acknowledged is in the log, and the next start applies the \
                 rest of it",
                stop_timeout.as_secs()
            )),
            Err(RecvTimeoutError::Disconnected) => {}
        }
    };
    let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().name(name.into()).spawn(work).context("starting a thread")
    };
    spawn("signals", Box::new(forward))?;
    spawn("stop", Box::new(watch))?;
    Ok(stop_receiver)
}
