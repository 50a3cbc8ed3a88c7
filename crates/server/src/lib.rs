//! The assembly: from an engine and settings to a running server, and back to a stopped one.

pub mod admin;
pub mod bootstrap;
pub mod control;

mod demo;
mod runtimes;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::watch;
use tracing::{error, info, warn};
use wal::{Options, RealDisk, Wal};

use collect::net::ConnectionLimits;
use collect::{CollectContext, CollectorSettings, Collectors};
use http::api::health::Requests;
use http::monitor::{self, Monitor};
use http::{AppState, HttpSettings};
use live::Live;
use pipeline::catalog::{Catalog, Made};
use pipeline::engine::Engine;
use pipeline::enrich::geo::Geo;
use pipeline::erasure::Erasure;
use pipeline::flows::{self, Flows, ReporterContext};
use pipeline::ingest::{Claims, Ingest, QuotaSettings};
use pipeline::open::{Followed, follow};
use pipeline::time::now_ms;
use pipeline::timed_stores::Clocks;

/// How a server behaves; every value has been checked.
#[derive(Clone)]
pub struct Settings {
    /// The data folder.
    pub data: PathBuf,
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Threads that answer requests.
    pub runtimes: usize,
    /// A proxy in front speaks TLS and tells the clients' addresses.
    pub behind_proxy: bool,
    /// Simulated players.
    pub demo: bool,
    /// An .mmdb file instead of the built-in table of countries.
    pub geo_file: Option<PathBuf>,
    /// The log's sizes and times.
    pub log: Options,
    /// How many connections there may be.
    pub connections: ConnectionLimits,
    /// So often a socket's other side is asked whether it is there.
    pub heartbeat: Duration,
    /// Origins whose pages may open sockets, and speak for who is signed in; empty: all may open them, and this server's
    /// own speak for people.
    pub origins: Vec<String>,
    /// How much may be sent.
    pub quotas: QuotaSettings,
    /// What comes in beside requests.
    pub collectors: Vec<CollectorSettings>,
}

/// A running server.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    /// What its requests use.
    pub state: Arc<AppState>,
    stop: watch::Sender<bool>,
    threads: Vec<std::thread::JoinHandle<()>>,
    processor: std::thread::JoinHandle<()>,
}

impl Server {
    /// Opens the log, brings ids and views up to it, and starts to listen. `made` is what the first start made; it is
    /// written to `bootstrap.json`. `on_fatal` is called when the disk has
    /// failed and nothing can be acknowledged any more.
    pub fn start(
        settings: Settings,
        catalog: Arc<Catalog>,
        made: Option<Made>,
        engine: Engine,
        on_fatal: Arc<dyn Fn(&wal::WalError) + Send + Sync>,
    ) -> anyhow::Result<Server> {
        let folder = settings.data.join("log");
        let options = Options { on_fatal, ..settings.log.clone() };
        let opened = Wal::<Claims>::open(Arc::new(RealDisk), &folder, options).context("opening the log")?;
        report(opened.report());
        let scratch = engine.scratch;
        let clocks = Clocks::default();
        let engine = clocks.before(engine);
        let Followed { log, views, processor, remembered } = follow(opened, engine, &catalog)?;
        let flows = Flows::open(&settings.data, settings.quotas.flows_per_game)
            .context("taking back the running flows")?;
        let flows = Arc::new(flows);
        let (epoch, each_max) = (format!("{:x}", now_ms()), settings.connections.subscriptions_each);
        let live = Live::start(Arc::clone(&views), Arc::clone(&flows), epoch, each_max)
            .context("starting a thread")?;
        let geo = geo(settings.geo_file.clone());
        let ingest = Arc::new(Ingest::new(geo, &catalog, Arc::clone(&views), log.clone(), settings.quotas));
        let erasure = Erasure::new(log.clone(), Arc::clone(&views), remembered, &catalog.id_secret());
        let (stop, stopping) = watch::channel(false);
        let requests = Requests::default();
        let collectors = Collectors::open(&settings.collectors, &catalog, settings.runtimes)?;
        let state = AppState {
            collectors,
            settings: settings.http(),
            catalog,
            ingest,
            views,
            live,
            flows,
            erasure,
            log,
            requests,
            monitor: Monitor::new(clocks),
            stopping: stopping.clone(),
        };
        let state = Arc::new(state);
        let listeners = runtimes::bind(&settings)?;
        let address = listeners.address;
        match made {
            Some(made) => {
                bootstrap::write(&settings.data, &made, address)?;
                state.catalog.keep().context("keeping the catalog")?;
            }
            None => bootstrap::update_url(&settings.data, address)?,
        }
        state.collectors.declare_tags(&state.catalog)?;
        let mut threads = runtimes::start(&settings, &state, scratch, listeners)?;
        threads.push(flows::start(reporter_context(&state))?);
        threads.push(monitor::start(&state)?);
        let processor = processor.start().context("starting a thread")?;
        state.erasure.start().context("starting a thread")?;
        Ok(Server { address, state, stop, threads, processor })
    }

    /// Takes no new work, finishes what is under way, writes a last checkpoint and ends.
    pub fn stop(self) -> anyhow::Result<()> {
        info!("stopping");
        self.stop.send_replace(true);
        self.state.live.stop();
        self.state.catalog.keep_used();
        for thread in self.threads {
            if thread.join().is_err() {
                error!("a thread that answers requests or tells flows has panicked");
            }
        }
        self.state.erasure.stop();
        let closed = self.state.log.close();
        if self.processor.join().is_err() {
            error!("the processor has panicked; the log is applied again at the next start");
        }
        closed.context("closing the log")
    }
}

impl Settings {
    /// Returns the part that requests see.
    fn http(&self) -> HttpSettings {
        HttpSettings {
            data: self.data.clone(),
            behind_proxy: self.behind_proxy,
            heartbeat: self.heartbeat,
            origins: self.origins.clone(),
        }
    }
}

fn collect_context(state: &AppState) -> CollectContext {
    CollectContext {
        ingest: Arc::clone(&state.ingest),
        flows: Arc::clone(&state.flows),
        catalog: Arc::clone(&state.catalog),
        views: Arc::clone(&state.views),
        stopping: state.stopping.clone(),
    }
}

fn reporter_context(state: &AppState) -> ReporterContext {
    ReporterContext {
        ingest: Arc::clone(&state.ingest),
        flows: Arc::clone(&state.flows),
        catalog: Arc::clone(&state.catalog),
        wal: state.log.clone(),
        data: state.settings.data.clone(),
        stopping: state.stopping.clone(),
    }
}

fn report(report: &wal::Report) {
    if report.torn_bytes > 0 {
        warn!(
            bytes = report.torn_bytes,
            "the last commit was cut short and was never acknowledged; it was removed"
        );
    }
    for damage in &report.damage {
        error!(?damage, "this part of the log is damaged; `playmeter verify` lists it");
    }
}

fn geo(file: Option<PathBuf>) -> Arc<Geo> {
    let geo = Arc::new(file.map_or_else(Geo::embedded, Geo::with_file));
    if let Err(failure) = geo.refresh_in_background() {
        error!(%failure, "countries are not looked up in the file");
    }
    geo
}
