//! Collectors as they are written in the file, `[collectors.NAME]`, and what that means.
//!
//! A collector may extend another one: what it does not say itself, the other says. A key that its transport or decoder
//! has no use for is an error, as is one that is missing.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use collect::{
    After, CollectorSettings, Decoder, DirSettings, Field, Framing, Mapping, OtherColumns, Precision,
    StreamSettings, Target, TcpClientSettings, TcpServerSettings, TlsFiles, Transport, UdpSettings,
};
use serde::{Deserialize, Serialize};

/// Collectors of one server.
const COLLECTORS_MAX: usize = 64;
/// How far one may extend another that extends another.
const BASES_MAX: usize = 16;
/// A collector's name.
const NAME_BYTES_MAX: usize = 64;

/// All collectors, by name.
pub type WrittenCollectors = BTreeMap<String, WrittenCollector>;

macro_rules! written {
    ($($(#[$doc:meta])* $key:ident: $type:ty,)*) => {
        /// A collector. What is not there is inherited or has a default.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct WrittenCollector {
            /// Another collector, which says what this one does not.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub extends: Option<String>,
            /// It is there to be extended, and not run.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub template: Option<bool>,
            $($(#[$doc])* #[serde(skip_serializing_if = "Option::is_none")] pub $key: Option<$type>,)*
        }

        impl WrittenCollector {
            /// With what the base says where this one says nothing.
            fn over(self, base: WrittenCollector) -> WrittenCollector {
                WrittenCollector {
                    extends: self.extends,
                    template: self.template,
                    $($key: self.$key.or(base.$key),)*
                }
            }

            /// The keys that can be inherited and have a value.
            pub fn keys(&self) -> Vec<&'static str> {
                [$((stringify!($key), self.$key.is_some()),)*]
                    .into_iter().filter_map(|(key, is_there)| is_there.then_some(key)).collect()
            }
        }
    };
}

written! {
    /// How bytes come.
    transport: WrittenTransport,
    /// What they mean.
    decoder: WrittenDecoder,
    /// The game's id; the first game if left out.
    game: String,
    /// Tags that are to be dimensions of the game.
    tags: Vec<String>,
    /// Where packets or connections come.
    listen: SocketAddr,
    /// Where to connect: a name or an address, and a port.
    address: String,
    /// The folder.
    path: PathBuf,
    /// Room in the kernel for packets that were not read yet, for each socket.
    receive_buffer_bytes: usize,
    /// What separates one line or packet in a stream from the next.
    framing: WrittenFraming,
    /// The longest line or packet of a stream.
    frame_bytes_max: usize,
    /// A connection that is silent for so long is closed.
    idle_timeout_s: u64,
    /// Connections at the same time.
    connections_max: usize,
    /// From one address (IPv6: one /64).
    connections_per_address_max: usize,
    /// A PEM file: the certificate that is shown to who connects, and those that lead to one that others trust.
    tls_certificate: PathBuf,
    /// A PEM file: its key.
    tls_key: PathBuf,
    /// In which unit Influx points without a unit of their own tell the time.
    precision: String,
    /// Ticks a second of the timestamps in streams that RTCP tells of: 8,000 for G.711, 48,000 for Opus.
    clock_hz: u32,
    /// What becomes of a file that was taken in.
    after: WrittenAfter,
    /// A file is complete when nothing of it has changed for so long.
    settle_ms: u64,
    /// How often the folder is looked through.
    scan_interval_ms: u64,
    /// A larger file is put aside.
    file_bytes_max: u64,
    /// Events of any age are taken.
    import: bool,
    /// Where the columns of a CSV file go: `event`, `props.NAME`, `ignore` ...
    columns: BTreeMap<String, String>,
    /// Fields that have the same text in all rows of a CSV file.
    fixed: BTreeMap<String, String>,
    /// What becomes of columns that nobody names.
    others: WrittenOthers,
    /// What stands between the fields of a CSV file.
    delimiter: char,
}

/// See [`Transport`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words say it")]
pub enum WrittenTransport {
    Udp,
    TcpServer,
    TcpClient,
    Dir,
}

/// See [`Decoder`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words say it")]
pub enum WrittenDecoder {
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
#[allow(missing_docs, reason = "the words say it")]
pub enum WrittenFraming {
    Newline,
    Length,
}

/// See [`After`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words say it")]
pub enum WrittenAfter {
    Archive,
    Delete,
}

/// See [`OtherColumns`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words say it")]
pub enum WrittenOthers {
    Props,
    Ignore,
}

/// What all collectors that are to run mean.
pub fn resolve(written: &WrittenCollectors) -> anyhow::Result<Vec<CollectorSettings>> {
    ensure!(written.len() <= COLLECTORS_MAX, "collectors: up to {COLLECTORS_MAX}");
    let mut resolved = Vec::new();
    for (name, own) in written {
        let settings = resolve_one(name, own, written).with_context(|| format!("collectors.{name}"))?;
        resolved.extend(settings);
    }
    Ok(resolved)
}

fn resolve_one(
    name: &str,
    own: &WrittenCollector,
    all: &WrittenCollectors,
) -> anyhow::Result<Option<CollectorSettings>> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    let is_name = (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(fits);
    ensure!(is_name, "its name has other characters than lower-case letters, digits, `_` and `-`");
    let whole = inherited(name, all)?;
    if own.template == Some(true) {
        return Ok(None);
    }
    whole.check_keys()?;
    Ok(Some(CollectorSettings {
        name: name.to_owned(),
        transport: whole.transport()?,
        decoder: whole.decoder()?,
        game: whole.game.clone(),
        tags: whole.tags.clone().unwrap_or_default(),
    }))
}

/// The collectors that this one extends, the nearest first.
pub fn bases<'a>(name: &'a str, all: &'a WrittenCollectors) -> anyhow::Result<Vec<&'a str>> {
    let mut bases: Vec<&str> = Vec::new();
    let mut last = name;
    while let Some(base) = all.get(last).and_then(|collector| collector.extends.as_deref()) {
        ensure!(all.contains_key(base), "extends: there is no collector `{base}`");
        ensure!(base != name && !bases.contains(&base), "extends: `{base}` extends itself in the end");
        ensure!(bases.len() < BASES_MAX, "extends: more than {BASES_MAX} one after the other");
        bases.push(base);
        last = base;
    }
    Ok(bases)
}

/// A collector with all that it inherits.
pub fn inherited(name: &str, all: &WrittenCollectors) -> anyhow::Result<WrittenCollector> {
    let of = |name: &str| all.get(name).cloned().unwrap_or_default();
    Ok(bases(name, all)?.into_iter().fold(of(name), |own, base| own.over(of(base))))
}

fn missing<T: Clone>(value: &Option<T>, key: &str, what: &str) -> anyhow::Result<T> {
    value.clone().with_context(|| format!("{key}: missing; {what}"))
}

fn within<T: PartialOrd + std::fmt::Display>(key: &str, value: T, min: T, max: T) -> anyhow::Result<T> {
    ensure!(value >= min && value <= max, "{key}: {min} to {max}");
    Ok(value)
}

impl WrittenCollector {
    /// Refuses keys that mean nothing here.
    fn check_keys(&self) -> anyhow::Result<()> {
        const STREAM: [&str; 3] = ["framing", "frame_bytes_max", "idle_timeout_s"];
        let transport = missing(&self.transport, "transport", "it is udp, tcp_server, tcp_client or dir")?;
        let decoder = missing(&self.decoder, "decoder", "it is statsd, influx, json, csv, flow or rtcp")?;
        let mut known = vec!["transport", "decoder", "game", "tags"];
        match transport {
            WrittenTransport::Udp => known.extend(["listen", "receive_buffer_bytes"]),
            WrittenTransport::TcpServer => {
                known.extend(["listen", "connections_max", "connections_per_address_max"]);
                known.extend(["tls_certificate", "tls_key"]);
                known.extend(STREAM);
            }
            WrittenTransport::TcpClient => {
                known.push("address");
                known.extend(STREAM);
            }
            WrittenTransport::Dir => {
                known.extend(["path", "after", "settle_ms", "scan_interval_ms", "file_bytes_max", "import"]);
            }
        }
        match decoder {
            WrittenDecoder::Influx => known.push("precision"),
            WrittenDecoder::Rtcp => known.push("clock_hz"),
            WrittenDecoder::Csv => known.extend(["columns", "fixed", "others", "delimiter"]),
            WrittenDecoder::Statsd | WrittenDecoder::Json | WrittenDecoder::Flow => {}
        }
        let is_of_files = transport == WrittenTransport::Dir;
        let fits = match decoder {
            WrittenDecoder::Csv => is_of_files,
            WrittenDecoder::Json | WrittenDecoder::Flow => true,
            WrittenDecoder::Rtcp => transport == WrittenTransport::Udp,
            WrittenDecoder::Statsd | WrittenDecoder::Influx => !is_of_files,
        };
        ensure!(
            fits,
            "decoder: a folder takes json, csv or flow, connections take statsd, influx, json or flow, packets all but csv"
        );
        match self.keys().into_iter().find(|key| !known.contains(key)) {
            Some(key) => bail!("{key}: this transport and decoder have no use for it"),
            None => Ok(()),
        }
    }

    fn transport(&self) -> anyhow::Result<Transport> {
        let listen = || missing(&self.listen, "listen", "an address and a port, such as 127.0.0.1:8125");
        Ok(match missing(&self.transport, "transport", "how bytes come")? {
            WrittenTransport::Udp => {
                let bytes = self.receive_buffer_bytes.unwrap_or(4 << 20);
                let receive_buffer_bytes = within("receive_buffer_bytes", bytes, 1 << 10, 1 << 30)?;
                Transport::Udp(UdpSettings { listen: listen()?, receive_buffer_bytes })
            }
            WrittenTransport::TcpServer => Transport::TcpServer(TcpServerSettings {
                listen: listen()?,
                connections_max: within(
                    "connections_max",
                    self.connections_max.unwrap_or(1_000),
                    1,
                    1_000_000,
                )?,
                connections_per_address_max: within(
                    "connections_per_address_max",
                    self.connections_per_address_max.unwrap_or(256),
                    1,
                    1_000_000,
                )?,
                tls: self.tls()?,
                stream: self.stream()?,
            }),
            WrittenTransport::TcpClient => Transport::TcpClient(TcpClientSettings {
                address: missing(&self.address, "address", "where to connect, such as host:8125")?,
                stream: self.stream()?,
            }),
            WrittenTransport::Dir => Transport::Dir(self.dir()?),
        })
    }

    /// Both files, or none.
    fn tls(&self) -> anyhow::Result<Option<TlsFiles>> {
        if self.tls_certificate.is_none() && self.tls_key.is_none() {
            return Ok(None);
        }
        let certificate = missing(&self.tls_certificate, "tls_certificate", "the certificate of `tls_key`")?;
        let key = missing(&self.tls_key, "tls_key", "the key of `tls_certificate`")?;
        Ok(Some(TlsFiles { certificate, key }))
    }

    fn stream(&self) -> anyhow::Result<StreamSettings> {
        let framing = match self.framing.unwrap_or(WrittenFraming::Newline) {
            WrittenFraming::Newline => Framing::Newline,
            WrittenFraming::Length => Framing::Length,
        };
        let bytes = self.frame_bytes_max.unwrap_or(64 << 10);
        let idle_s = self.idle_timeout_s.unwrap_or(300);
        Ok(StreamSettings {
            framing,
            frame_bytes_max: within("frame_bytes_max", bytes, 1, 1 << 20)?,
            idle_timeout: Duration::from_secs(within("idle_timeout_s", idle_s, 1, 24 * 3600)?),
        })
    }

    fn dir(&self) -> anyhow::Result<DirSettings> {
        let path = missing(&self.path, "path", "the folder where files come")?;
        ensure!(path.is_dir(), "path: there is no folder {}", path.display());
        let settle_ms = within("settle_ms", self.settle_ms.unwrap_or(2_000), 1, 3_600_000)?;
        let scan_ms = within("scan_interval_ms", self.scan_interval_ms.unwrap_or(2_000), 10, 3_600_000)?;
        Ok(DirSettings {
            path,
            after: match self.after.unwrap_or(WrittenAfter::Archive) {
                WrittenAfter::Archive => After::Archive,
                WrittenAfter::Delete => After::Delete,
            },
            settle: Duration::from_millis(settle_ms),
            scan_interval: Duration::from_millis(scan_ms),
            file_bytes_max: within("file_bytes_max", self.file_bytes_max.unwrap_or(4 << 30), 1, 1 << 40)?,
            import: self.import.unwrap_or(false),
        })
    }

    fn decoder(&self) -> anyhow::Result<Decoder> {
        Ok(match missing(&self.decoder, "decoder", "what the bytes mean")? {
            WrittenDecoder::Statsd => Decoder::Statsd,
            WrittenDecoder::Influx => {
                let label = self.precision.as_deref().unwrap_or("ns");
                let precision = Precision::from_label(label);
                Decoder::Influx(precision.context("precision: it is ns, us, ms, s, m or h")?)
            }
            WrittenDecoder::Json => Decoder::Json,
            WrittenDecoder::Flow => Decoder::Flow,
            WrittenDecoder::Rtcp => {
                let clock_hz = self.clock_hz.unwrap_or(48_000);
                Decoder::Rtcp { clock_hz: within("clock_hz", clock_hz, 1, 1_000_000)? }
            }
            WrittenDecoder::Csv => Decoder::Csv(Box::new(self.mapping()?)),
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
        if self.others == Some(WrittenOthers::Ignore) {
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
