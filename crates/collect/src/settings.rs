//! How a collector behaves; every value has been checked.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use decode::csv::Mapping;
use decode::influx::Precision;
use model::batch::Endpoint;

/// A collector: how bytes come, how they are cut, and what they mean.
#[derive(Clone, Debug)]
pub struct CollectorSettings {
    /// Tells collectors apart.
    pub name: String,
    /// How bytes come.
    pub transport: Transport,
    /// What they mean.
    pub decoder: Decoder,
    /// The game that gets what comes; `None`: the first.
    pub game: Option<String>,
    /// Tags that are to be dimensions of the game.
    pub tags: Vec<String>,
}

/// How bytes come.
#[derive(Clone, Debug)]
pub enum Transport {
    /// Packets.
    Udp(UdpSettings),
    /// Others connect here.
    TcpServer(TcpServerSettings),
    /// This connects elsewhere.
    TcpClient(TcpClientSettings),
    /// Files in a folder.
    Dir(DirSettings),
}

/// Where packets come.
#[derive(Clone, Debug)]
pub struct UdpSettings {
    /// Port 0 takes a free one.
    pub listen: SocketAddr,
    /// The room in the kernel for packets of each socket that were not read yet.
    pub receive_buffer_bytes: usize,
}

/// Where connections come.
#[derive(Clone, Debug)]
pub struct TcpServerSettings {
    /// Port 0 takes a free one.
    pub listen: SocketAddr,
    /// At the same time.
    pub connections_max: usize,
    /// From one address (IPv6: one /64).
    pub connections_per_address_max: usize,
    /// What it shows to who connects; `None`: there is no TLS.
    pub tls: Option<TlsFiles>,
    /// What is read from each.
    pub stream: StreamSettings,
}

/// A certificate and its key, as PEM files.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate, and those that lead to one that others trust.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Where to connect.
#[derive(Clone, Debug)]
pub struct TcpClientSettings {
    /// A name or an address, and a port.
    pub address: String,
    /// What is read.
    pub stream: StreamSettings,
}

/// How a stream is read.
#[derive(Clone, Copy, Debug)]
pub struct StreamSettings {
    /// What separates one line or packet from the next.
    pub framing: Framing,
    /// The longest line or packet.
    pub frame_bytes_max: usize,
    /// A connection that is silent for so long is closed.
    pub idle_timeout: Duration,
}

/// What separates one line or packet in a stream from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// A newline.
    Newline,
    /// The length of each in four bytes, the highest first, stands before it.
    Length,
}

/// Where files come.
#[derive(Clone, Debug)]
pub struct DirSettings {
    /// The folder.
    pub path: PathBuf,
    /// What becomes of a file that was taken in.
    pub after: After,
    /// A file is complete when nothing of it has changed for so long.
    pub settle: Duration,
    /// How often the folder is looked through.
    pub scan_interval: Duration,
    /// A larger file is put aside.
    pub file_bytes_max: u64,
    /// Events of any age are taken.
    pub import: bool,
}

/// What becomes of a file that was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// It is moved to the folder `archive` beside it.
    Archive,
    /// It is deleted.
    Delete,
}

/// What bytes mean.
#[derive(Clone, Debug)]
pub enum Decoder {
    /// Lines of StatsD.
    Statsd,
    /// Lines of InfluxDB's protocol.
    Influx(Precision),
    /// Lines of events.
    Json,
    /// Files of events.
    Csv(Box<Mapping>),
    /// Lines that tell of packets of flows.
    Flow,
    /// RTCP, which tells of flows.
    Rtcp {
        /// Ticks a second of the streams' timestamps, not 0.
        clock_hz: u32,
    },
}

impl Transport {
    /// The word in settings and answers.
    pub fn label(&self) -> &'static str {
        match self {
            Transport::Udp(_) => "udp",
            Transport::TcpServer(_) => "tcp_server",
            Transport::TcpClient(_) => "tcp_client",
            Transport::Dir(_) => "dir",
        }
    }
}

impl Decoder {
    /// Under which door what comes is counted.
    pub fn endpoint(&self) -> Endpoint {
        match self {
            Decoder::Statsd => Endpoint::Statsd,
            Decoder::Influx(_) => Endpoint::Influx,
            Decoder::Json => Endpoint::Json,
            Decoder::Csv(_) => Endpoint::Csv,
            Decoder::Flow | Decoder::Rtcp { .. } => Endpoint::Flows,
        }
    }

    /// The word in settings and answers.
    pub fn label(&self) -> &'static str {
        match self {
            Decoder::Flow => "flow",
            Decoder::Rtcp { .. } => "rtcp",
            _ => self.endpoint().label(),
        }
    }
}
