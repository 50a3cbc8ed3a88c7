//! All collectors of a server: opened, started, listed and controlled.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use model::Dimension;
use parking_lot::Mutex;
use pipeline::catalog::{Catalog, SettingsChange};
use pipeline::shutdown::wait_for_stop;
use pipeline::time::now_ms;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::backoff::Backoff;
use crate::collector::Collector;
use crate::metric_state::MetricState;
use crate::runtimes::Runtimes;
use crate::settings::{CollectorSettings, Transport};
use crate::supervise::supervise;
use crate::{CollectContext, dir, tcp, udp, unixgram};

/// How long [`Collectors::apply`] waits for a collector to reach the requested state.
const APPLY_TIMEOUT: Duration = Duration::from_secs(15);

/// The interval at which a running collector notices that its game was archived.
const ARCHIVED_POLL: Duration = Duration::from_secs(1);
/// Why a collector with the transport `sftp` cannot run.
#[cfg(not(feature = "sftp"))]
pub(crate) const NO_SFTP: &str =
    "this program was built without SFTP; build it with `cargo build --release --features playmeter/sftp`";

/// All collectors of a server.
pub struct Collectors {
    all: Vec<Arc<Collector>>,
    since_ms: i64,
    /// State of metrics received over HTTP, by game.
    metric_states: Mutex<HashMap<u32, Arc<MetricState>>>,
    /// Supervisors that have not stopped.
    supervisors: watch::Sender<usize>,
}

/// An action that an operator can request of a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CollectorAction {
    /// Start it, if it is stopped or has failed.
    Start,
    /// Stop it until it is started again.
    Stop,
    /// Stop it and start it again.
    Restart,
}

impl Collectors {
    /// Opens all collectors and binds their sockets. A port that another program uses is a failure of its collector, which
    /// is tried again once it runs. The error names the first collector whose settings are wrong.
    pub fn open(
        settings: &[CollectorSettings],
        catalog: &Catalog,
        sockets: usize,
    ) -> anyhow::Result<Collectors> {
        let mut all = Vec::new();
        for (number, settings) in settings.iter().enumerate() {
            check_place(settings, &all)?;
            let opened = Collector::open(settings.clone(), number, catalog, sockets);
            all.push(Arc::new(opened.with_context(|| format!("collectors.{}", settings.name))?));
        }
        let (metric_states, supervisors) = (Mutex::default(), watch::channel(0).0);
        Ok(Collectors { all, since_ms: now_ms(), metric_states, supervisors })
    }

    /// Returns the state of a game's metrics received over HTTP.
    pub fn metric_state(&self, game: u32) -> Arc<MetricState> {
        let mut states = self.metric_states.lock();
        Arc::clone(states.entry(game).or_insert_with(|| Arc::new(MetricState::new(self.since_ms))))
    }

    /// Declares the tags of each collector as dimensions of its game. Fails if a game has no room for another dimension;
    /// the error names the collector.
    pub fn declare_tags(&self, catalog: &Catalog) -> anyhow::Result<()> {
        for Collector { settings, game, .. } in self.all.iter().map(|collector| &**collector) {
            let declared = settings.tags.iter().filter(|tag| Dimension::from_label(tag).is_none());
            let change = SettingsChange { declare: declared.cloned().collect(), ..SettingsChange::default() };
            let game = catalog.game_by_number(*game).filter(|_| !change.declare.is_empty());
            if let Some(game) = game {
                let changed = catalog.set_game(&game.id, change);
                changed.with_context(|| format!("collectors.{}: tags", settings.name))?;
            }
        }
        Ok(())
    }

    /// Runs all collectors until the server stops.
    pub fn start(&self, context: &CollectContext, runtimes: &Arc<Runtimes>) {
        self.supervisors.send_replace(self.all.len());
        for collector in &self.all {
            let work = run(Arc::clone(collector), context.clone(), Arc::clone(runtimes));
            let guard = SupervisorGuard(self.supervisors.clone());
            runtimes.assign(collector.number).runtime.spawn(async move {
                work.await;
                drop(guard);
            });
        }
    }

    /// Returns when all collectors have stopped after the server began to stop.
    pub async fn wait_stopped(&self) {
        let _ = self.supervisors.subscribe().wait_for(|running| *running == 0).await;
    }

    /// Returns the collectors of one game, or all of them, as `{name, transport, decoder, state, counters, ...}`.
    pub fn list(&self, catalog: &Catalog, game: Option<u32>) -> Vec<Value> {
        let selected = self.all.iter().filter(|collector| game.is_none_or(|game| game == collector.game));
        let row = |collector: &Arc<Collector>| {
            let mut row = collector.to_json();
            row["game"] = json!(catalog.game_by_number(collector.game).map(|game| game.id.clone()));
            row
        };
        selected.map(row).collect()
    }

    /// Returns the number of collectors that have failed and will be started again.
    pub fn failed(&self) -> usize {
        self.all.iter().filter(|collector| collector.is_failed()).count()
    }

    /// Returns all collectors.
    pub fn all(&self) -> &[Arc<Collector>] {
        &self.all
    }

    /// Applies an action to a collector and blocks until the collector has followed it. Returns the collector as in
    /// [`Collectors::list`]. Fails if there is no such collector, or if it has not followed after 15 seconds.
    pub fn apply(&self, name: &str, action: CollectorAction) -> anyhow::Result<Value> {
        let collector = self.all.iter().find(|collector| collector.settings.name == name);
        let collector = collector.with_context(|| format!("there is no collector `{name}`"))?;
        let starts = collector.status.lock().starts();
        collector.desired.send_modify(|desired| {
            desired.running = action != CollectorAction::Stop;
            desired.generation += 1;
        });
        let deadline = Instant::now() + APPLY_TIMEOUT;
        while !collector.status.lock().has_followed(action, starts) {
            if Instant::now() > deadline {
                let timeout_s = APPLY_TIMEOUT.as_secs();
                bail!(
                    "collector `{name}` did not reach the requested state within {timeout_s} s: \
                     check it with `playmeter collectors list`"
                );
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(collector.to_json())
    }
}

/// Fails if an earlier collector listens on the same address or file: that is a mistake in the settings, and waiting would
/// not mend it.
fn check_place(settings: &CollectorSettings, earlier: &[Arc<Collector>]) -> anyhow::Result<()> {
    let Some((key, place)) = settings.transport.place() else { return Ok(()) };
    let same = |other: &&Arc<Collector>| {
        other.settings.transport.label() == settings.transport.label()
            && other.settings.transport.place().is_some_and(|(_, other)| other == place)
    };
    if let Some(other) = earlier.iter().find(same) {
        bail!(
            "collectors.{}: {key}: {place} is also that of collectors.{}",
            settings.name,
            other.settings.name
        );
    }
    Ok(())
}

/// Counts a running supervisor. The count also decreases if the supervisor panics.
struct SupervisorGuard(watch::Sender<usize>);

impl Drop for SupervisorGuard {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

async fn run(collector: Arc<Collector>, context: CollectContext, runtimes: Arc<Runtimes>) {
    let stopping = context.stopping.clone();
    let attempt = |stop| attempt(Arc::clone(&collector), context.clone(), Arc::clone(&runtimes), stop);
    supervise(Arc::clone(&collector), Backoff::default(), stopping, attempt).await;
}

/// Runs a collector once, until it fails or `stop` becomes true. That its game is archived is a failure, too: it is tried
/// again and runs once the game is restored.
async fn attempt(
    collector: Arc<Collector>,
    context: CollectContext,
    runtimes: Arc<Runtimes>,
    mut stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let (catalog, game) = (Arc::clone(&context.catalog), collector.game);
    check_writable(&catalog, game)?;
    let (stop_run, stop_receiver) = watch::channel(false);
    let mut running = std::pin::pin!(run_once(collector, context, runtimes, stop_receiver));
    let archived = tokio::select! {
        ended = &mut running => return ended,
        archived = wait_archived(&catalog, game) => Err(archived),
        () = wait_for_stop(&mut stop) => Ok(()),
    };
    stop_run.send_replace(true);
    running.await.and(archived)
}

fn check_writable(catalog: &Catalog, game: u32) -> anyhow::Result<()> {
    catalog.game_by_number(game).context("its game does not exist any more")?.check_writable()?;
    Ok(())
}

/// Returns when the game accepts no writes any more, with the reason.
async fn wait_archived(catalog: &Catalog, game: u32) -> anyhow::Error {
    let mut revision = None;
    loop {
        // The catalog rarely changes: nothing is looked up while it stays the same.
        if revision.replace(catalog.revision()) != Some(catalog.revision())
            && let Err(archived) = check_writable(catalog, game)
        {
            return archived;
        }
        tokio::time::sleep(ARCHIVED_POLL).await;
    }
}

async fn run_once(
    collector: Arc<Collector>,
    context: CollectContext,
    runtimes: Arc<Runtimes>,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    match collector.settings.transport.clone() {
        Transport::Udp(settings) => udp::run(settings, collector, context, runtimes, stop).await,
        Transport::Unixgram(settings) => unixgram::run(settings, collector, context, runtimes, stop).await,
        Transport::TcpServer(settings) => tcp::serve(settings, collector, context, runtimes, stop).await,
        Transport::TcpClient(settings) => tcp::connect(settings, collector, context, runtimes, stop).await,
        Transport::Dir(settings) => dir::run(settings, collector, context, runtimes, stop).await,
        #[cfg(feature = "sftp")]
        Transport::Sftp(settings) => crate::sftp::run(*settings, collector, context, runtimes, stop).await,
        #[cfg(not(feature = "sftp"))]
        Transport::Sftp(_) => bail!(NO_SFTP),
    }
}
