//! Collectors: sources of events and samples other than HTTP requests.
//!
//! A collector is a transport (UDP, a Unix socket, TCP, a folder, SFTP), a framing and a decoder, as the settings declare them. Everything it
//! receives passes through `Ingest::submit`, as events over HTTP do. Samples are aggregated before that, in a
//! [`samples::SampleTable`].
//!
//! Collectors share the runtimes that serve requests. Each has a supervisor of its own, which starts it again after a
//! failure.

mod backoff;
mod batch;
mod buffer;
mod collector;
mod collectors;
mod counters;
mod dir;
mod metric_state;
pub mod net;
mod runtimes;
pub mod samples;
mod settings;
#[cfg(feature = "sftp")]
mod sftp;
mod sink;
mod status;
mod supervise;
mod tcp;
mod udp;
mod unixgram;

pub use collector::Collector;
pub use collectors::{CollectorAction, Collectors};
pub use counters::{AtomicCount, CollectorCounters};
pub use decode::csv::{Field, Mapping, OtherColumns, Target};
pub use decode::influx::Precision;
pub use metric_state::MetricState;
pub use runtimes::{RuntimeHandle, Runtimes};
pub use settings::{
    AfterProcessing, CollectorSettings, Decoder, DirSettings, Framing, SftpSettings, StreamSettings,
    TcpClientSettings, TcpServerSettings, TlsFiles, Transport, UdpSettings, UnixgramSettings,
};

use std::sync::Arc;

use pipeline::catalog::Catalog;
use pipeline::flows::Flows;
use pipeline::ingest::Ingest;
use pipeline::views::Views;
use tokio::sync::watch;

/// The parts of the server that collectors use.
#[derive(Clone)]
pub struct CollectContext {
    /// Receives events and samples.
    pub ingest: Arc<Ingest>,
    /// Receives packets of flows.
    pub flows: Arc<Flows>,
    /// The games that collectors belong to.
    pub catalog: Arc<Catalog>,
    /// Shows rejected input, and hashes player ids.
    pub views: Arc<Views>,
    /// Becomes true when the server stops.
    pub stopping: watch::Receiver<bool>,
}
