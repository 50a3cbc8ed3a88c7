//! The assembly: from an engine and settings to a server that answers, and back to a stopped one.

mod drive;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::Context;
use model::ports::counters::Counters;
use model::ports::ids::Ids;
use tokio::sync::watch;
use tracing::{error, info, warn};
use wal::{Opened, Options, RealDisk, Wal};

use crate::api::health::Requests;
use crate::bootstrap;
use crate::catalog::{Catalog, Made};
use crate::collect::{CollectorSettings, Collectors};
use crate::enrich::geo::Geo;
use crate::erasure::Erasure;
use crate::flows::{self, Flows};
use crate::http::ConnectionLimits;
use crate::line::{Claims, Duplicates, IdMasks, Line, QuotaSettings, Remembered, remember};
use crate::live::Live;
use crate::monitor::{self, Clocks, Monitor};
use crate::process::Processor;
use crate::time::now_ms;
use crate::views::Views;

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

/// Opens the event ids of a log that ends at this offset.
pub type OpenIds = Box<dyn FnOnce(u64) -> anyhow::Result<Box<dyn Ids>>>;

/// Where the views are kept. What is inside is nobody's business here.
pub struct Engine {
    /// Rollups.
    pub counters: Arc<dyn Counters>,
    /// Opens the event ids, given where the log ends.
    pub ids: OpenIds,
    /// Makes empty rollups in memory, to derive them again and compare.
    pub scratch: fn() -> Arc<dyn Counters>,
}

/// What every request may use.
pub struct Shared {
    /// As given at the start.
    pub settings: Settings,
    /// Games, keys, sign-ins.
    pub catalog: Arc<Catalog>,
    /// The one path of an event.
    pub line: Line,
    /// What is derived from the log.
    pub views: Arc<Views>,
    /// What is watched.
    pub live: Arc<Live>,
    /// Flows that run.
    pub flows: Arc<Flows>,
    /// Forgets players behind the log.
    pub erasure: Arc<Erasure>,
    /// The log.
    pub log: Wal<Claims>,
    /// What comes in beside requests.
    pub collectors: Collectors,
    /// Whole requests that were refused.
    pub requests: Requests,
    /// Requests by route, time by store.
    pub monitor: Monitor,
    /// Makes empty rollups in memory.
    pub scratch: fn() -> Arc<dyn Counters>,
    /// Whether the server is stopping.
    pub stopping: watch::Receiver<bool>,
}

/// A running server.
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    /// What its requests use.
    pub shared: Arc<Shared>,
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
        let line = Line::new(geo, &catalog, Arc::clone(&views), log.clone(), settings.quotas);
        let erasure = Erasure::new(log.clone(), Arc::clone(&views), remembered, &catalog.id_secret());
        let (stop, stopping) = watch::channel(false);
        let requests = Requests::default();
        let collectors = Collectors::open(&settings.collectors, &catalog, settings.runtimes)?;
        let shared = Shared {
            collectors,
            settings,
            catalog,
            line,
            views,
            live,
            flows,
            erasure,
            log,
            requests,
            monitor: Monitor::new(clocks),
            scratch,
            stopping: stopping.clone(),
        };
        let shared = Arc::new(shared);
        let listeners = drive::bind(&shared.settings)?;
        let address = listeners.address;
        match made {
            Some(made) => {
                bootstrap::write(&shared.settings.data, &made, address)?;
                shared.catalog.keep().context("keeping the catalog")?;
            }
            None => bootstrap::update_url(&shared.settings.data, address)?,
        }
        shared.collectors.declare_tags(&shared.catalog)?;
        let mut threads = drive::start(&shared, listeners)?;
        threads.push(flows::start(&shared)?);
        threads.push(monitor::start(&shared)?);
        let processor = processor.start().context("starting a thread")?;
        shared.erasure.start().context("starting a thread")?;
        Ok(Server { address, shared, stop, threads, processor })
    }

    /// Takes no new work, finishes what is under way, writes a last checkpoint and ends.
    pub fn stop(self) -> anyhow::Result<()> {
        info!("stopping");
        self.stop.send_replace(true);
        self.shared.live.stop();
        self.shared.catalog.keep_used();
        for thread in self.threads {
            if thread.join().is_err() {
                error!("a thread that answers requests or tells flows has panicked");
            }
        }
        self.shared.erasure.stop();
        let closed = self.shared.log.close();
        if self.processor.join().is_err() {
            error!("the processor has panicked; the log is applied again at the next start");
        }
        closed.context("closing the log")
    }
}

/// A log that runs and the views brought up to it.
pub struct Followed {
    /// Takes entries.
    pub log: Wal<Claims>,
    /// Contain everything that was in the log.
    pub views: Arc<Views>,
    /// To be started, or dropped when nothing will be appended.
    pub processor: Processor,
    /// How far the event ids need no log.
    pub remembered: Remembered,
}

/// Brings ids and views up to an opened log and starts its writer.
pub fn follow(opened: Opened, engine: Engine, catalog: &Catalog) -> anyhow::Result<Followed> {
    let secret = catalog.id_secret();
    let mut ids = (engine.ids)(opened.report().next)?;
    remember(&opened, &mut *ids, &IdMasks::new(&secret)).context("remembering event ids")?;
    let remembered: Remembered = Arc::new(AtomicU64::new(ids.remembered_until()));
    let duplicates = Duplicates::new(ids, Arc::clone(&remembered));
    let log = Wal::start(opened, Box::new(duplicates)).context("starting the log")?;
    let views = Arc::new(Views::open(engine.counters, &secret).context("opening the views")?);
    let mut processor = Processor::new(log.clone(), Arc::clone(&views), Arc::clone(&remembered));
    processor.catch_up();
    views.answers.open();
    views.meter.begin();
    Ok(Followed { log, views, processor, remembered })
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
