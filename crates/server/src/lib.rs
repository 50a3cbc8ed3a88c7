//! Assembles the crates into a running server and stops it again.

pub mod admin;
pub mod bootstrap;
pub mod control;

mod backups;
mod demo;
mod runtimes;

pub use backups::BackupSchedule;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use alerts::{AlertSettings, Alerts};
use anyhow::Context;
use tokio::sync::watch;
use tracing::{error, info, warn};
use wal::Options;

use collect::net::ConnectionLimits;
use collect::{CollectContext, CollectorSettings, Collectors};
use http::monitor::{self, Monitor};
use http::tls::{Tls, TlsSettings};
use http::{AppState, BatchReceipts, BodyBudget, BodyMemoryLimits, HttpSettings, PublicUrl};
use http::{PagesInProgress, RejectedRequests, SignInAttempts};
use live::Live;
use pipeline::archiver::{ArchiveSettings, Archiver};
use pipeline::catalog::{Catalog, InitialKeys};
use pipeline::cohorts::{self, RefreshContext};
use pipeline::command_quota::{CommandQuota, CommandQuotaSettings};
use pipeline::engine::Engine;
use pipeline::enrich::geo::Geo;
use pipeline::erasure::{Erasure, ErasureContext};
use pipeline::flows::{self, Flows, ReporterContext};
use pipeline::ingest::{Ingest, QuotaSettings};
use pipeline::open::{Pipeline, PipelineOptions, open_pipeline};
use pipeline::open_log::{check_without_catalog, open_log};
use pipeline::query::pool::{QueryLimits, QueryPool};
use pipeline::time::{deletion_now_ms, now_ms};
use pipeline::timed_stores::StoreTimers;
use pipeline::views::OnFatal;
use sql::{SqlSettings, SqlWorkers};

use bootstrap::Urls;

/// The settings of a server; every value has been validated.
#[derive(Clone)]
pub struct Settings {
    /// The data folder.
    pub data: PathBuf,
    /// The address to listen on; port 0 selects a free port.
    pub listen: SocketAddr,
    /// The number of runtimes, each a thread with its own listening socket.
    pub runtimes: usize,
    /// A proxy in front reports the clients' addresses, and terminates TLS unless the server does.
    pub behind_proxy: bool,
    /// With `behind_proxy`: the number of proxies in front, each of which appends to `X-Forwarded-For`.
    pub proxy_hops: usize,
    /// The URL under which browsers and games reach the server; if set, other hosts are rejected.
    pub public_url: Option<PublicUrl>,
    /// TLS of the listener; `None` for connections without TLS.
    pub tls: Option<TlsSettings>,
    /// A plain HTTP port that redirects to HTTPS.
    pub redirect_listen: Option<SocketAddr>,
    /// Simulates players of a demo game.
    pub demo: bool,
    /// An .mmdb file to use instead of the embedded country table.
    pub geo_file: Option<PathBuf>,
    /// The options of the log.
    pub log: Options,
    /// Size of the file that is deleted so that a checkpoint can finish on a full disk; 0 for none.
    pub reserve_bytes: u64,
    /// The time after which a stop ends all the same.
    pub stop_timeout: Duration,
    /// The limits on open connections.
    pub connections: ConnectionLimits,
    /// The interval at which WebSockets are pinged, idle streams get a comment, and their credentials are checked again.
    pub heartbeat: Duration,
    /// Origins whose pages may open sockets and act for the signed-in person. If empty, every origin may open them and
    /// this server's own pages act for people.
    pub origins: Vec<String>,
    /// The quotas of ingest.
    pub quotas: QuotaSettings,
    /// The limits of live-ops writes with public keys.
    pub command_quotas: CommandQuotaSettings,
    /// The memory of request bodies.
    pub bodies: BodyMemoryLimits,
    /// How raw events are kept.
    pub archive: ArchiveSettings,
    /// The bounds of queries.
    pub queries: QueryLimits,
    /// How queries in SQL run.
    pub sql: SqlSettings,
    /// The collectors to run.
    pub collectors: Vec<CollectorSettings>,
    /// The file from which the settings were read.
    pub settings_file: Option<PathBuf>,
    /// Alerts.
    pub alerts: AlertSettings,
    /// The backups to take.
    pub backups: Option<BackupSchedule>,
}

/// A running server.
pub struct Server {
    /// The address it listens on.
    pub address: SocketAddr,
    /// The URL for programs on this machine.
    pub url: String,
    /// The state that its requests use.
    pub state: Arc<AppState>,
    stop: watch::Sender<bool>,
    threads: Vec<std::thread::JoinHandle<()>>,
    archiver: [std::thread::JoinHandle<()>; 2],
    applier: std::thread::JoinHandle<()>,
}

impl Server {
    /// Opens the log, brings the event ids and the views up to date, and starts to listen. `made` holds the keys that a
    /// first start created; they are written to `bootstrap.json`. `on_fatal` is called when the process
    /// cannot continue, for instance because the disk has failed, with a sentence that says why and what to do.
    ///
    /// # Errors
    ///
    /// If a file cannot be opened or is damaged, log and views do not fit together, a port is in use, or a thread cannot
    /// be started.
    pub fn start(
        settings: Settings,
        catalog: Arc<Catalog>,
        made: Option<InitialKeys>,
        engine: Engine,
        on_fatal: OnFatal,
    ) -> anyhow::Result<Server> {
        let options = Options {
            on_fatal: on_log_failure(Arc::clone(&on_fatal)),
            clock: Arc::new(|| now_ms().max(0) as u64),
            deletion_clock: Some(Arc::new(deletion_now_ms)),
            ..settings.log.clone()
        };
        let views_until = engine.counters.durable_until();
        let opened = open_log(&settings.data, options, views_until)?;
        if made.is_some() {
            check_without_catalog(&settings.data, opened.report().next, views_until)?;
        }
        log_recovery(opened.report());
        admin::remove_leftovers(&settings.data)?;
        let scratch = engine.scratch;
        let clocks = StoreTimers::default();
        let engine = clocks.wrap(engine);
        let Pipeline { log, views, applier, registered_until } = open_pipeline(
            opened,
            engine,
            &catalog,
            PipelineOptions {
                data: settings.data.clone(),
                free_bytes_min: settings.log.free_bytes_min,
                reserve_bytes: settings.reserve_bytes,
                on_fatal,
            },
        )?;
        views.cohorts.set_bytes_max(settings.queries.cohorts_bytes_max);
        let flows = Flows::open(&settings.data, settings.quotas.flows_per_game)
            .context("restoring the running flows")?;
        let flows = Arc::new(flows);
        let (epoch, each_max) =
            (format!("{:x}", now_ms()), settings.connections.subscriptions_per_credential_max);
        let queries = QueryPool::start(settings.queries).context("starting a thread")?;
        let live = Live::start(Arc::clone(&views), Arc::clone(&flows), epoch, each_max, Arc::clone(&queries))
            .context("starting a thread")?;
        let geo = geo(settings.geo_file.clone());
        let ingest = Arc::new(Ingest::new(geo, &catalog, Arc::clone(&views), log.clone(), settings.quotas));
        let archiver = Archiver::open(
            &settings.data,
            settings.archive,
            Arc::clone(&catalog),
            log.clone(),
            Arc::clone(&views),
        )?;
        let data = settings.data.clone();
        let erasure = Erasure::new(ErasureContext {
            log: log.clone(),
            views: Arc::clone(&views),
            registered_until,
            archiver: Arc::clone(&archiver),
            catalog: Arc::clone(&catalog),
            flows: Arc::clone(&flows),
            data: data.clone(),
            on_deleted: Box::new(move |game| bootstrap::remove_game(&data, game)),
        });
        let alerts = Alerts::open(alerts::Start {
            settings: settings.alerts.clone(),
            views: Arc::clone(&views),
            catalog: Arc::clone(&catalog),
            log: log.clone(),
            archiver: Arc::clone(&archiver),
            queries: Arc::clone(&queries),
        })?;
        let (stop, stopping) = watch::channel(false);
        let rejected_requests = RejectedRequests::default();
        let tls = settings.tls.as_ref().map(Tls::open).transpose()?;
        let collectors = Collectors::open(&settings.collectors, &catalog, settings.runtimes)?;
        let state = AppState {
            collectors,
            settings: settings.http(),
            catalog,
            ingest,
            views,
            live,
            queries,
            sql: SqlWorkers::new(settings.sql.clone()),
            event_pages: PagesInProgress::default(),
            flows,
            archiver,
            alerts,
            erasure,
            command_quota: CommandQuota::new(settings.command_quotas),
            bodies: BodyBudget::new(settings.bodies),
            log,
            batch_receipts: BatchReceipts::default(),
            rejected_requests,
            sockjs: Arc::default(),
            sign_in_attempts: SignInAttempts::default(),
            monitor: Monitor::new(clocks),
            backups: Arc::default(),
            tls,
            stopping: stopping.clone(),
        };
        let state = Arc::new(state);
        let listeners = runtimes::bind(&settings)?;
        let address = listeners.address;
        let urls = urls(&settings, address, state.tls.as_deref());
        match made {
            Some(made) => {
                bootstrap::write(&settings.data, &made, &urls)?;
                state.catalog.save().context("saving the catalog")?;
            }
            None => {
                bootstrap::update_urls(&settings.data, &urls)?;
                if let Err(failure) = bootstrap::renew_sign_in_link(&settings.data, &state.catalog) {
                    warn!("no new sign-in link: {failure:#}");
                }
            }
        }
        state.collectors.declare_tags(&state.catalog)?;
        let mut threads = runtimes::start(&settings, &state, scratch, listeners)?;
        threads.push(flows::start_reporter(reporter_context(&state))?);
        threads.push(monitor::start(&state)?);
        threads.push(cohorts::start(refresh_context(&state)).context("starting a thread")?);
        threads.extend(state.alerts.start(&state.stopping).context("starting a thread")?);
        if let Some(schedule) = settings.backups.clone() {
            threads.push(backups::start(schedule, &state, scratch)?);
        }
        if let Some(tls) = &state.tls {
            threads.push(tls.start(state.stopping.clone())?);
        }
        let applier = applier.start().context("starting a thread")?;
        let archiver = state.archiver.start().context("starting a thread")?;
        state.erasure.start().context("starting a thread")?;
        Ok(Server { address, url: urls.local, state, stop, threads, archiver, applier })
    }

    /// Stops accepting work, finishes requests in progress and writes a last checkpoint.
    pub fn stop(self) -> anyhow::Result<()> {
        info!("stopping");
        self.stop.send_replace(true);
        self.state.views.stop_waiting();
        self.state.live.stop();
        self.state.queries.stop();
        self.state.catalog.save_last_used();
        for thread in self.threads {
            if thread.join().is_err() {
                error!("a thread that serves requests or reports flows has panicked");
            }
        }
        self.state.erasure.stop();
        self.state.archiver.stop();
        for thread in self.archiver {
            // A thread that panicked has ended the process.
            let _ = thread.join();
        }
        let closed = self.state.log.close();
        if self.applier.join().is_err() {
            error!("the applier has panicked; the log is applied again at the next start");
        }
        closed.context("closing the log")
    }
}

impl Settings {
    /// Returns true if browsers reach the server with TLS.
    fn is_https(&self) -> bool {
        let is_public = |url: &PublicUrl| url.is_https();
        self.tls.is_some() || (self.behind_proxy && self.public_url.as_ref().is_none_or(is_public))
    }

    /// Returns the part that requests see.
    fn http(&self) -> HttpSettings {
        HttpSettings {
            data: self.data.clone(),
            behind_proxy: self.behind_proxy,
            is_https: self.is_https(),
            public_url: self.public_url.clone(),
            heartbeat: self.heartbeat,
            origins: self.origins.clone(),
            settings_file: self.settings_file.clone(),
        }
    }
}

/// Returns the URLs of a server. With TLS, its name is the public one, or else the first one in the certificate.
fn urls(settings: &Settings, address: SocketAddr, tls: Option<&Tls>) -> Urls {
    let name = |tls: &Tls| tls.name().map(|name| PublicUrl::https(&name, address.port()).to_string());
    let public = settings.public_url.as_ref().map(PublicUrl::to_string);
    let local = match tls {
        None => bootstrap::url("http", address),
        Some(tls) => public.clone().or_else(|| name(tls)).unwrap_or_else(|| bootstrap::url("https", address)),
    };
    Urls { public: public.unwrap_or_else(|| local.clone()), local }
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

fn refresh_context(state: &AppState) -> RefreshContext {
    RefreshContext {
        catalog: Arc::clone(&state.catalog),
        views: Arc::clone(&state.views),
        archiver: Arc::clone(&state.archiver),
        queries: Arc::clone(&state.queries),
        log: state.log.clone(),
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

/// Every acknowledged event is on disk, but after a failed write no further one can be acknowledged safely.
fn on_log_failure(on_fatal: OnFatal) -> Arc<dyn Fn(&wal::WalError) + Send + Sync> {
    Arc::new(move |failure| {
        on_fatal(&format!("the disk failed ({failure}); check the disk, then start the server again"));
    })
}

fn log_recovery(report: &wal::OpenReport) {
    if report.torn_bytes > 0 {
        warn!(
            bytes = report.torn_bytes,
            "removed an incomplete commit at the end of the log; it was never acknowledged"
        );
    }
    for damage in &report.damage {
        error!(?damage, "a part of the log is damaged; `playmeter verify` lists it");
    }
}

fn geo(file: Option<PathBuf>) -> Arc<Geo> {
    let geo = Arc::new(file.map_or_else(Geo::embedded, Geo::with_file));
    if let Err(failure) = geo.refresh_in_background() {
        error!(%failure, "the country file is not used");
    }
    geo
}
