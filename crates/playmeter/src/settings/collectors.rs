//! The `[collectors.NAME]` tables of the settings file, before and after validation.
//!
//! A collector may extend another one and inherits the keys that it does not set. A missing key is an error, and so is a
//! key that its transport or decoder does not use.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use collect::{
    AfterProcessing, CollectorSettings, Decoder, DirSettings, Field, Framing, Mapping, OtherColumns,
    Precision, SftpSettings, StreamSettings, Target, TcpClientSettings, TcpServerSettings, TlsFiles,
    Transport, UdpSettings, UnixgramSettings,
};
use serde::{Deserialize, Serialize};

/// Limit of collectors per server.
const COLLECTORS_MAX: usize = 64;
/// Limit of the length of a chain of `extends`.
const BASES_MAX: usize = 16;
const NAME_BYTES_MAX: usize = 64;
/// How often the folder that receives files over SFTP is scanned. A file in it is complete at once.
const INBOX_SCAN_INTERVAL: Duration = Duration::from_secs(1);

/// Collectors by name.
pub(crate) type RawCollectors = BTreeMap<String, RawCollector>;

macro_rules! raw_collector {
    ($($(#[$doc:meta])* $key:ident: $type:ty,)*) => {
        /// A collector as written. A key that is not set is inherited or has a default.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, expecting = "a table")]
        pub(crate) struct RawCollector {
            /// The collector to inherit keys from.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub(crate) extends: Option<String>,
            /// True for a collector that is only a base for others and does not run.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub(crate) template: Option<bool>,
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub(crate) $key: Option<$type>,)*
        }

        impl RawCollector {
            /// Adds the keys of the base that are not set.
            fn or_inherit(self, base: RawCollector) -> RawCollector {
                RawCollector {
                    extends: self.extends,
                    template: self.template,
                    $($key: self.$key.or(base.$key),)*
                }
            }

            /// Returns the inheritable keys that are set.
            pub(crate) fn keys(&self) -> Vec<&'static str> {
                [$((stringify!($key), self.$key.is_some()),)*]
                    .into_iter().filter_map(|(key, is_set)| is_set.then_some(key)).collect()
            }
        }
    };
}

raw_collector! {
    transport: RawTransport,
    decoder: RawDecoder,
    /// The id of the game; the first game if not set.
    game: String,
    /// Tags that become dimensions of the game.
    tags: Vec<String>,
    listen: SocketAddr,
    /// The address to connect to: a host name or an IP address, and a port.
    address: String,
    /// The folder to read files from, or the file of a Unix socket.
    path: PathBuf,
    /// The permissions of a Unix socket's file, in octal digits.
    permissions: String,
    /// Receive buffer of each socket.
    receive_buffer_bytes: usize,
    framing: RawFraming,
    frame_bytes_max: usize,
    /// Seconds without data after which a connection is closed.
    idle_timeout_s: u64,
    /// Limit of concurrent connections.
    connections_max: usize,
    /// Limit of concurrent connections from one address (IPv6: one /64).
    connections_per_address_max: usize,
    /// A PEM file with the certificate of the server and its chain.
    tls_certificate: PathBuf,
    /// A PEM file with the private key of the certificate.
    tls_key: PathBuf,
    /// A file with the private key of the SFTP server.
    host_key: PathBuf,
    /// A file with the public keys of SFTP clients, one per line.
    authorized_keys: PathBuf,
    /// Unit of the timestamps of Influx points.
    precision: String,
    /// Clock rate of the RTP streams that RTCP reports on: 8,000 for G.711, 48,000 for Opus.
    clock_hz: u32,
    /// The treatment of a file after it was read.
    after: RawAfter,
    /// A file is complete if it has not changed for this long.
    settle_ms: u64,
    scan_interval_ms: u64,
    /// A larger file is moved to `failed/`.
    file_bytes_max: u64,
    /// True to accept events of any age.
    import: bool,
    /// Targets of the columns of a CSV file: `event`, `props.NAME`, `ignore` ...
    columns: BTreeMap<String, String>,
    /// Fields that have the same value in all rows of a CSV file.
    fixed: BTreeMap<String, String>,
    /// The treatment of columns that are not in `columns`.
    others: RawOthers,
    /// The separator of the fields of a CSV file.
    delimiter: char,
}

/// See [`Transport`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RawTransport {
    Udp,
    Unixgram,
    TcpServer,
    TcpClient,
    Dir,
    Sftp,
}

/// See [`Decoder`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RawDecoder {
    Statsd,
    Influx,
    Json,
    Csv,
    Flow,
    Rtcp,
}

/// See [`Framing`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RawFraming {
    Newline,
    Length,
}

/// See [`AfterProcessing`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RawAfter {
    Archive,
    Delete,
}

/// See [`OtherColumns`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RawOthers {
    Props,
    Ignore,
}

/// Validates the collectors and converts them, except templates, to settings of the server.
pub(crate) fn resolve(all: &RawCollectors) -> anyhow::Result<Vec<CollectorSettings>> {
    ensure!(all.len() <= COLLECTORS_MAX, "collectors: must be at most {COLLECTORS_MAX}");
    let mut resolved = Vec::new();
    for (name, own) in all {
        let settings = resolve_one(name, own, all).with_context(|| format!("collectors.{name}"))?;
        resolved.extend(settings);
    }
    Ok(resolved)
}

fn resolve_one(
    name: &str,
    own: &RawCollector,
    all: &RawCollectors,
) -> anyhow::Result<Option<CollectorSettings>> {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed);
    ensure!(is_name, "the name must have 1 to {NAME_BYTES_MAX} lower-case letters, digits, `_` or `-`");
    let merged = inherited(name, all)?;
    if own.template == Some(true) {
        return Ok(None);
    }
    merged.check_keys()?;
    Ok(Some(CollectorSettings {
        name: name.to_owned(),
        transport: merged.transport()?,
        decoder: merged.decoder()?,
        game: merged.game.clone(),
        tags: merged.tags.clone().unwrap_or_default(),
    }))
}

/// Returns the names of the collectors that this one extends, nearest first.
pub(crate) fn bases<'a>(name: &'a str, all: &'a RawCollectors) -> anyhow::Result<Vec<&'a str>> {
    let mut bases: Vec<&str> = Vec::new();
    let mut last = name;
    while let Some(base) = all.get(last).and_then(|collector| collector.extends.as_deref()) {
        ensure!(all.contains_key(base), "extends: no such collector: `{base}`");
        ensure!(base != name && !bases.contains(&base), "extends: `{base}` extends itself");
        ensure!(bases.len() < BASES_MAX, "extends: the chain must have at most {BASES_MAX} collectors");
        bases.push(base);
        last = base;
    }
    Ok(bases)
}

/// Returns a collector together with the keys that it inherits.
pub(crate) fn inherited(name: &str, all: &RawCollectors) -> anyhow::Result<RawCollector> {
    let of = |name: &str| all.get(name).cloned().unwrap_or_default();
    Ok(bases(name, all)?.into_iter().fold(of(name), |own, base| own.or_inherit(of(base))))
}

fn required<T: Clone>(value: &Option<T>, key: &str, hint: &str) -> anyhow::Result<T> {
    value.clone().with_context(|| format!("{key}: missing; {hint}"))
}

fn in_range<T: PartialOrd + std::fmt::Display>(key: &str, value: T, min: T, max: T) -> anyhow::Result<T> {
    ensure!(value >= min && value <= max, "{key}: must be between {min} and {max}");
    Ok(value)
}

impl RawCollector {
    /// Rejects keys that the transport and the decoder do not use, and decoders that do not fit the transport.
    fn check_keys(&self) -> anyhow::Result<()> {
        const STREAM: [&str; 3] = ["framing", "frame_bytes_max", "idle_timeout_s"];
        let transport = required(
            &self.transport,
            "transport",
            "must be udp, unixgram, tcp_server, tcp_client, dir or sftp",
        )?;
        let decoder = required(&self.decoder, "decoder", "must be statsd, influx, json, csv, flow or rtcp")?;
        let mut known = vec!["transport", "decoder", "game", "tags"];
        match transport {
            RawTransport::Udp => known.extend(["listen", "receive_buffer_bytes"]),
            RawTransport::Unixgram => known.extend(["path", "permissions", "receive_buffer_bytes"]),
            RawTransport::TcpServer => {
                known.extend(["listen", "connections_max", "connections_per_address_max"]);
                known.extend(["tls_certificate", "tls_key"]);
                known.extend(STREAM);
            }
            RawTransport::TcpClient => {
                known.push("address");
                known.extend(STREAM);
            }
            RawTransport::Dir => {
                known.extend(["path", "after", "settle_ms", "scan_interval_ms", "file_bytes_max", "import"]);
            }
            RawTransport::Sftp => {
                known.extend(["listen", "host_key", "authorized_keys", "idle_timeout_s"]);
                known.extend(["connections_max", "connections_per_address_max"]);
                known.extend(["path", "after", "file_bytes_max", "import"]);
            }
        }
        match decoder {
            RawDecoder::Influx => known.push("precision"),
            RawDecoder::Rtcp => known.push("clock_hz"),
            RawDecoder::Csv => known.extend(["columns", "fixed", "others", "delimiter"]),
            RawDecoder::Statsd | RawDecoder::Json | RawDecoder::Flow => {}
        }
        let is_dir = matches!(transport, RawTransport::Dir | RawTransport::Sftp);
        let fits = match decoder {
            RawDecoder::Csv => is_dir,
            RawDecoder::Json | RawDecoder::Flow => true,
            RawDecoder::Rtcp => transport == RawTransport::Udp,
            RawDecoder::Statsd | RawDecoder::Influx => !is_dir,
        };
        ensure!(
            fits,
            "decoder: does not fit the transport; dir and sftp support json, csv and flow; tcp_server and tcp_client support \
             statsd, influx, json and flow; unixgram supports statsd, influx, json and flow; udp supports all but csv"
        );
        match self.keys().into_iter().find(|key| !known.contains(key)) {
            Some(key) => bail!("{key}: not supported by this transport and decoder; remove it"),
            None => Ok(()),
        }
    }

    fn transport(&self) -> anyhow::Result<Transport> {
        let listen =
            || required(&self.listen, "listen", "set an address and a port, for example 127.0.0.1:8125");
        Ok(
            match required(
                &self.transport,
                "transport",
                "must be udp, unixgram, tcp_server, tcp_client, dir or sftp",
            )? {
                RawTransport::Udp => {
                    let bytes = self.receive_buffer_bytes.unwrap_or(4 << 20);
                    let receive_buffer_bytes = in_range("receive_buffer_bytes", bytes, 1 << 10, 1 << 30)?;
                    Transport::Udp(UdpSettings { listen: listen()?, receive_buffer_bytes })
                }
                RawTransport::Unixgram => Transport::Unixgram(self.unixgram()?),
                RawTransport::TcpServer => Transport::TcpServer(TcpServerSettings {
                    listen: listen()?,
                    connections_max: in_range(
                        "connections_max",
                        self.connections_max.unwrap_or(1_000),
                        1,
                        1_000_000,
                    )?,
                    connections_per_address_max: in_range(
                        "connections_per_address_max",
                        self.connections_per_address_max.unwrap_or(256),
                        1,
                        1_000_000,
                    )?,
                    tls: self.tls()?,
                    stream: self.stream()?,
                }),
                RawTransport::TcpClient => Transport::TcpClient(TcpClientSettings {
                    address: required(
                        &self.address,
                        "address",
                        "set a host and a port, for example host:8125",
                    )?,
                    stream: self.stream()?,
                }),
                RawTransport::Dir => Transport::Dir(self.dir()?),
                RawTransport::Sftp => Transport::Sftp(Box::new(SftpSettings {
                    listen: listen()?,
                    host_key: required(
                        &self.host_key,
                        "host_key",
                        "set a file that `ssh-keygen -t ed25519` writes",
                    )?,
                    authorized_keys: self.authorized_keys.clone(),
                    connections_max: in_range(
                        "connections_max",
                        self.connections_max.unwrap_or(32),
                        1,
                        1_000,
                    )?,
                    connections_per_address_max: in_range(
                        "connections_per_address_max",
                        self.connections_per_address_max.unwrap_or(8),
                        1,
                        1_000,
                    )?,
                    idle_timeout: self.idle_timeout()?,
                    dir: DirSettings {
                        settle: Duration::ZERO,
                        scan_interval: INBOX_SCAN_INTERVAL,
                        ..self.dir()?
                    },
                })),
            },
        )
    }

    fn unixgram(&self) -> anyhow::Result<UnixgramSettings> {
        let path = required(
            &self.path,
            "path",
            "set the file of the socket, for example /run/playmeter/statsd.sock",
        )?;
        let text = self.permissions.as_deref().unwrap_or("660");
        let is_octal = text.len() == 3 && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
        ensure!(is_octal, "permissions: must be three octal digits, for example 660");
        let permissions = u32::from_str_radix(text, 8)?;
        let bytes = self.receive_buffer_bytes.unwrap_or(4 << 20);
        let receive_buffer_bytes = in_range("receive_buffer_bytes", bytes, 1 << 10, 1 << 30)?;
        Ok(UnixgramSettings { path, permissions, receive_buffer_bytes })
    }

    /// Requires both files or neither.
    fn tls(&self) -> anyhow::Result<Option<TlsFiles>> {
        if self.tls_certificate.is_none() && self.tls_key.is_none() {
            return Ok(None);
        }
        let certificate =
            required(&self.tls_certificate, "tls_certificate", "set it together with `tls_key`")?;
        let key = required(&self.tls_key, "tls_key", "set it together with `tls_certificate`")?;
        Ok(Some(TlsFiles { certificate, key }))
    }

    fn stream(&self) -> anyhow::Result<StreamSettings> {
        let framing = match self.framing.unwrap_or(RawFraming::Newline) {
            RawFraming::Newline => Framing::Newline,
            RawFraming::Length => Framing::Length,
        };
        let bytes = self.frame_bytes_max.unwrap_or(64 << 10);
        Ok(StreamSettings {
            framing,
            frame_bytes_max: in_range("frame_bytes_max", bytes, 1, 1 << 20)?,
            idle_timeout: self.idle_timeout()?,
        })
    }

    fn idle_timeout(&self) -> anyhow::Result<Duration> {
        let idle_s = self.idle_timeout_s.unwrap_or(300);
        Ok(Duration::from_secs(in_range("idle_timeout_s", idle_s, 1, 24 * 3600)?))
    }

    fn dir(&self) -> anyhow::Result<DirSettings> {
        let path = required(&self.path, "path", "set the folder to read files from")?;
        ensure!(path.is_dir(), "path: no such folder: {}", path.display());
        let settle_ms = in_range("settle_ms", self.settle_ms.unwrap_or(2_000), 1, 3_600_000)?;
        let scan_ms = in_range("scan_interval_ms", self.scan_interval_ms.unwrap_or(2_000), 10, 3_600_000)?;
        Ok(DirSettings {
            path,
            after: match self.after.unwrap_or(RawAfter::Archive) {
                RawAfter::Archive => AfterProcessing::Archive,
                RawAfter::Delete => AfterProcessing::Delete,
            },
            settle: Duration::from_millis(settle_ms),
            scan_interval: Duration::from_millis(scan_ms),
            file_bytes_max: in_range("file_bytes_max", self.file_bytes_max.unwrap_or(4 << 30), 1, 1 << 40)?,
            import: self.import.unwrap_or(false),
        })
    }

    fn decoder(&self) -> anyhow::Result<Decoder> {
        Ok(match required(&self.decoder, "decoder", "must be statsd, influx, json, csv, flow or rtcp")? {
            RawDecoder::Statsd => Decoder::Statsd,
            RawDecoder::Influx => {
                let label = self.precision.as_deref().unwrap_or("ns");
                let precision = Precision::from_label(label);
                Decoder::Influx(precision.context("precision: must be ns, us, ms, s, m or h")?)
            }
            RawDecoder::Json => Decoder::Json,
            RawDecoder::Flow => Decoder::Flow,
            RawDecoder::Rtcp => {
                let clock_hz = self.clock_hz.unwrap_or(48_000);
                Decoder::Rtcp { clock_hz: in_range("clock_hz", clock_hz, 1, 1_000_000)? }
            }
            RawDecoder::Csv => Decoder::Csv(Box::new(self.mapping()?)),
        })
    }

    fn mapping(&self) -> anyhow::Result<Mapping> {
        let mut mapping = Mapping::default();
        for (column, target) in self.columns.iter().flatten() {
            let target = Target::parse(target).with_context(|| format!("columns.{column}"))?;
            mapping = mapping.column(column, target);
        }
        for (field, text) in self.fixed.iter().flatten() {
            mapping = mapping.fixed(Field::parse(field).with_context(|| format!("fixed.{field}"))?, text);
        }
        if self.others == Some(RawOthers::Ignore) {
            mapping = mapping.others(OtherColumns::Ignore);
        }
        match self.delimiter {
            Some(delimiter) => mapping.delimiter(delimiter).context("delimiter"),
            None => Ok(mapping),
        }
    }
}

#[cfg(test)]
mod tests;
