//! What every request may use.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use collect::Collectors;
use live::Live;
use pipeline::catalog::Catalog;
use pipeline::erasure::Erasure;
use pipeline::flows::Flows;
use pipeline::ingest::{Claims, Ingest};
use pipeline::views::Views;
use tokio::sync::watch;
use wal::Wal;

use crate::api::health::Requests;
use crate::monitor::Monitor;

/// How requests are served.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// The data folder, whose size the monitor reports.
    pub data: PathBuf,
    /// A proxy in front terminates TLS and reports the clients' addresses.
    pub behind_proxy: bool,
    /// The interval at which an idle WebSocket is pinged.
    pub heartbeat: Duration,
    /// Origins whose pages may open sockets and act for the signed-in person. If empty, every origin may open them and
    /// this server's own pages act for people.
    pub origins: Vec<String>,
}

/// What every request may use.
pub struct AppState {
    /// As given at the start.
    pub settings: HttpSettings,
    /// Games, keys, sign-ins.
    pub catalog: Arc<Catalog>,
    /// The one path of an event.
    pub ingest: Arc<Ingest>,
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
    /// Whether the server is stopping.
    pub stopping: watch::Receiver<bool>,
}
