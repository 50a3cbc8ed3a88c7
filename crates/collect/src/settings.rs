//! Settings of collectors. Every value has been validated.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use decode::csv::Mapping;
use decode::influx::Precision;
use model::batch::Endpoint;

/// The settings of one collector: transport, framing and decoder.
#[derive(Clone, Debug)]
pub struct CollectorSettings {
    /// Its unique name.
    pub name: String,
    /// How it receives bytes.
    pub transport: Transport,
    /// How it decodes them.
    pub decoder: Decoder,
    /// The id of the game that its events belong to; `None`: the first game.
    pub game: Option<String>,
    /// Tags to declare as dimensions of the game.
    pub tags: Vec<String>,
}

/// How a collector receives bytes.
#[derive(Clone, Debug)]
pub enum Transport {
    /// UDP packets.
    Udp(UdpSettings),
    /// Packets over a Unix socket.
    Unixgram(UnixgramSettings),
    /// TCP connections from clients.
    TcpServer(TcpServerSettings),
    /// A TCP connection to a server.
    TcpClient(TcpClientSettings),
    /// Files in a folder.
    Dir(DirSettings),
    /// Files that clients upload over SFTP to a folder.
    Sftp(Box<SftpSettings>),
}

/// Settings of a UDP socket.
#[derive(Clone, Debug)]
pub struct UdpSettings {
    /// The address to bind. Port 0 selects a free port.
    pub listen: SocketAddr,
    /// The receive buffer in the kernel, for each socket.
    pub receive_buffer_bytes: usize,
}

/// Settings of a Unix datagram socket.
#[derive(Clone, Debug)]
pub struct UnixgramSettings {
    /// The file of the socket.
    pub path: PathBuf,
    /// The permissions of the file, such as `0o660`.
    pub permissions: u32,
    /// The receive buffer in the kernel.
    pub receive_buffer_bytes: usize,
}

/// Settings of a listening TCP socket.
#[derive(Clone, Debug)]
pub struct TcpServerSettings {
    /// The address to bind. Port 0 selects a free port.
    pub listen: SocketAddr,
    /// Connections open at the same time.
    pub connections_max: usize,
    /// Connections open at the same time from one address (IPv6: one /64).
    pub connections_per_address_max: usize,
    /// The server's certificate; `None`: no TLS.
    pub tls: Option<TlsFiles>,
    /// How each connection is read.
    pub stream: StreamSettings,
}

/// A certificate and its private key, as PEM files.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate, followed by its intermediate certificates.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Settings of an outgoing TCP connection.
#[derive(Clone, Debug)]
pub struct TcpClientSettings {
    /// A host name or an IP address, with a port.
    pub address: String,
    /// How the connection is read.
    pub stream: StreamSettings,
}

/// Settings for reading a TCP stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamSettings {
    /// How the stream is divided into lines or packets.
    pub framing: Framing,
    /// The longest line or packet.
    pub frame_bytes_max: usize,
    /// An idle connection is closed after this time.
    pub idle_timeout: Duration,
}

/// How a stream is divided into lines or packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// A newline ends each line.
    Newline,
    /// Each packet is preceded by its length in four bytes, big-endian.
    Length,
}

/// Settings of a watched folder.
#[derive(Clone, Debug)]
pub struct DirSettings {
    /// The folder.
    pub path: PathBuf,
    /// The action after a file was ingested.
    pub after: AfterProcessing,
    /// A file is complete when it has not changed for this time.
    pub settle: Duration,
    /// How often the folder is scanned.
    pub scan_interval: Duration,
    /// A larger file is moved to the folder `failed`.
    pub file_bytes_max: u64,
    /// Accepts events of any age.
    pub import: bool,
}

/// Settings of an SFTP server that receives files.
#[derive(Clone, Debug)]
pub struct SftpSettings {
    /// The address to bind. Port 0 selects a free port.
    pub listen: SocketAddr,
    /// The file with the private key of the server.
    pub host_key: PathBuf,
    /// A file with the public keys of clients; `None`: clients sign in with secret keys of the game as passwords.
    pub authorized_keys: Option<PathBuf>,
    /// Connections open at the same time.
    pub connections_max: usize,
    /// Connections open at the same time from one address (IPv6: one /64).
    pub connections_per_address_max: usize,
    /// An idle connection is closed after this time.
    pub idle_timeout: Duration,
    /// The folder that receives the files, and how they are processed.
    pub dir: DirSettings,
}

/// The action after a file was ingested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterProcessing {
    /// Move it to the folder `archive` inside the watched folder.
    Archive,
    /// Delete it.
    Delete,
}

/// How a collector decodes bytes.
#[derive(Clone, Debug)]
pub enum Decoder {
    /// Lines of StatsD.
    Statsd,
    /// Lines of the Influx line protocol.
    Influx(Precision),
    /// Lines of events.
    Json,
    /// CSV files of events.
    Csv(Box<Mapping>),
    /// Lines that describe packets of flows.
    Flow,
    /// RTCP reports about flows.
    Rtcp {
        /// Ticks per second of the streams' timestamps, not 0.
        clock_hz: u32,
    },
}

impl Transport {
    /// Returns the transport's name in settings and JSON.
    pub fn label(&self) -> &'static str {
        match self {
            Transport::Udp(_) => "udp",
            Transport::Unixgram(_) => "unixgram",
            Transport::TcpServer(_) => "tcp_server",
            Transport::TcpClient(_) => "tcp_client",
            Transport::Dir(_) => "dir",
            Transport::Sftp(_) => "sftp",
        }
    }

    /// Returns the folder from which files are ingested, if the transport has one.
    pub(crate) fn dir(&self) -> Option<&DirSettings> {
        match self {
            Transport::Dir(dir) => Some(dir),
            Transport::Sftp(sftp) => Some(&sftp.dir),
            _ => None,
        }
    }

    /// Returns the setting and the value of the address or file that no other collector may listen on; `None` if the
    /// transport does not listen, or if the system picks the port.
    pub(crate) fn place(&self) -> Option<(&'static str, String)> {
        match self {
            Transport::Udp(UdpSettings { listen, .. })
            | Transport::TcpServer(TcpServerSettings { listen, .. }) => {
                (listen.port() != 0).then(|| ("listen", listen.to_string()))
            }
            Transport::Sftp(sftp) => (sftp.listen.port() != 0).then(|| ("listen", sftp.listen.to_string())),
            Transport::Unixgram(unix) => Some(("path", unix.path.display().to_string())),
            Transport::TcpClient(_) | Transport::Dir(_) => None,
        }
    }
}

impl Decoder {
    /// Returns the endpoint under which ingest accounting counts the input.
    pub(crate) fn endpoint(&self) -> Endpoint {
        match self {
            Decoder::Statsd => Endpoint::Statsd,
            Decoder::Influx(_) => Endpoint::Influx,
            Decoder::Json => Endpoint::Json,
            Decoder::Csv(_) => Endpoint::Csv,
            Decoder::Flow | Decoder::Rtcp { .. } => Endpoint::Flows,
        }
    }

    /// Returns the decoder's name in settings and JSON.
    pub fn label(&self) -> &'static str {
        match self {
            Decoder::Flow => "flow",
            Decoder::Rtcp { .. } => "rtcp",
            _ => self.endpoint().label(),
        }
    }
}
