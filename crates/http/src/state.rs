//! The state shared by all requests.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use alerts::Alerts;
use axum::extract::FromRef;
use backup::BackupStatus;
use collect::Collectors;
use live::Live;
use pipeline::archiver::Archiver;
use pipeline::catalog::Catalog;
use pipeline::command_quota::CommandQuota;
use pipeline::erasure::Erasure;
use pipeline::flows::Flows;
use pipeline::ingest::{Claims, Ingest};
use pipeline::query::pool::QueryPool;
use pipeline::views::Views;
use sql::SqlWorkers;
use tokio::sync::watch;
use wal::{Lane, Wal};

use crate::api::exports::PagesInProgress;
use crate::batch_receipts::BatchReceipts;
use crate::body_memory::BodyBudget;
use crate::ddp::SockJsSessions;
use crate::host::PublicUrl;
use crate::monitor::Monitor;
use crate::rejected_requests::RejectedRequests;
use crate::sign_in_attempts::SignInAttempts;
use crate::tls::Tls;

/// Settings of the HTTP surface.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// The data folder, whose size the monitor reports.
    pub data: PathBuf,
    /// A proxy in front reports the clients' addresses.
    pub behind_proxy: bool,
    /// Browsers reach the server with TLS, which it or a proxy terminates.
    pub is_https: bool,
    /// If set, requests for other hosts than this one and the local machine are rejected.
    pub public_url: Option<PublicUrl>,
    /// The interval at which WebSockets are pinged, idle streams get a comment, and their credentials are checked again.
    pub heartbeat: Duration,
    /// Origins whose pages may open sockets and act for the signed-in person. If empty, every origin may open them and
    /// only this server's own pages act for people.
    pub origins: Vec<String>,
    /// The file from which the settings were read, which backups contain.
    pub settings_file: Option<PathBuf>,
}

/// The state shared by all requests of the process.
pub struct AppState {
    /// Settings of the HTTP surface.
    pub settings: HttpSettings,
    /// Games, keys and sign-ins.
    pub catalog: Arc<Catalog>,
    /// The ingest path that all events take.
    pub ingest: Arc<Ingest>,
    /// Everything derived from the log.
    pub views: Arc<Views>,
    /// Subscriptions and their channels.
    pub live: Arc<Live>,
    /// Runs queries, within bounds.
    pub queries: Arc<QueryPool>,
    /// Runs queries in SQL, each in a process of its own.
    pub sql: SqlWorkers,
    /// The pages of events that are being sent to exports.
    pub event_pages: PagesInProgress,
    /// Running flows.
    pub flows: Arc<Flows>,
    /// Keeps raw events, and answers questions over them.
    pub archiver: Arc<Archiver>,
    /// Alert rules: the last evaluation of each, and what may be notified.
    pub alerts: Arc<Alerts>,
    /// Removes the data of erased players from the log.
    pub erasure: Arc<Erasure>,
    /// The limits of live-ops writes with public keys.
    pub command_quota: CommandQuota,
    /// The memory of request bodies.
    pub bodies: Arc<BodyBudget>,
    /// The log.
    pub log: Wal<Claims>,
    /// Receivers of events and samples outside of HTTP requests.
    pub collectors: Collectors,
    /// The outcomes of recent batches of events.
    pub batch_receipts: BatchReceipts,
    /// Counts of ingest requests that were rejected as a whole.
    pub rejected_requests: RejectedRequests,
    /// SockJS sessions without a WebSocket.
    pub sockjs: Arc<SockJsSessions>,
    /// Recent attempts to sign in.
    pub sign_in_attempts: SignInAttempts,
    /// Requests by route, time by store.
    pub monitor: Monitor,
    /// The state of backups.
    pub backups: Arc<BackupStatus>,
    /// TLS of the listener, if the server terminates it.
    pub tls: Option<Arc<Tls>>,
    /// True once the server is stopping.
    pub stopping: watch::Receiver<bool>,
}

/// The state of one runtime: the shared state and the runtime's own lane into the log.
#[derive(Clone)]
pub struct RuntimeState {
    /// The state shared by all requests.
    pub shared: Arc<AppState>,
    /// The runtime's lane into the log.
    pub lane: Lane<Claims>,
}

impl FromRef<RuntimeState> for Arc<AppState> {
    fn from_ref(runtime: &RuntimeState) -> Arc<AppState> {
        Arc::clone(&runtime.shared)
    }
}
