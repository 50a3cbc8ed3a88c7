//! Settings: defaults, then a file, then the environment, then flags; each value knows where it comes from.

pub mod collectors;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use collect::net::ConnectionLimits;
use figment::providers::{Env, Format, Serialized, Toml};
use figment::{Figment, Metadata};
use model::limits::{FLOWS_MAX, FLOWS_PER_GAME};
use pipeline::ingest::QuotaSettings;
use serde::{Deserialize, Serialize};
use server::Settings;

use crate::cli::ServeArgs;
use collectors::WrittenCollectors;

/// The data folder when none is named.
pub const DATA: &str = "data";
/// Variables are `PLAYMETER_LISTEN`, `PLAYMETER_LOG__RETENTION_DAYS` and so on.
const ENVIRONMENT: &str = "PLAYMETER_";
/// The file that is read from the working folder when none is named.
const FILE: &str = "playmeter.toml";
/// Variables that tests and tools use and that are no settings.
const NOT_SETTINGS: [&str; 12] = [
    "KEY",
    "POSTGRES",
    "REDIS",
    "NGINX",
    "SUITES",
    "FLOORS",
    "URL",
    "SIGN_IN_URL",
    "PUBLIC_KEY",
    "SHOTS",
    "INJECTED_FAULT",
    "LOG_LEVEL",
];

/// Everything that can be set, as it is written in the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// The data folder.
    pub data: PathBuf,
    /// Where to listen.
    pub listen: SocketAddr,
    /// Simulated players.
    pub demo: bool,
    /// Threads that answer requests; 0: one per core.
    pub runtimes: usize,
    /// A proxy in front speaks TLS and tells the clients' addresses.
    pub behind_proxy: bool,
    /// An .mmdb file instead of the built-in table; empty: built in.
    pub geo_file: PathBuf,
    /// The log.
    pub log: WrittenLog,
    /// Connections.
    pub connections: WrittenConnections,
    /// Origins whose pages may open sockets, as browsers write them; empty: all may, without anybody's sign-in.
    #[serde(deserialize_with = "list")]
    pub origins: Vec<String>,
    /// Events that each game may send per second, ten seconds' worth at once; 0: as many as it likes.
    pub events_per_second: u64,
    /// Other limits of what may be sent.
    pub quotas: WrittenQuotas,
    /// What comes in beside requests, by name.
    pub collectors: WrittenCollectors,
}

/// Limits of what may be sent; 0: none.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WrittenQuotas {
    /// Events with one key per second, ten seconds' worth at once.
    pub key_events_per_second: u64,
    /// Events from one address (IPv6: one /64) per second, ten seconds' worth at once.
    pub address_events_per_second: u64,
    /// Events of one player per second, ten seconds' worth at once.
    pub player_events_per_second: u64,
    /// Events of each game per day of UTC.
    pub events_per_day: u64,
    /// Bytes of each game per day of UTC, as the log stores them.
    pub bytes_per_day: u64,
    /// Flows of each game that run at the same time; also without this, no more than the server may have.
    pub flows_per_game: u32,
}

impl Default for WrittenQuotas {
    fn default() -> WrittenQuotas {
        WrittenQuotas {
            key_events_per_second: 0,
            address_events_per_second: 0,
            player_events_per_second: 0,
            events_per_day: 0,
            bytes_per_day: 0,
            flows_per_game: FLOWS_PER_GAME,
        }
    }
}

/// Settings of the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenLog {
    /// Size of a segment.
    pub segment_bytes: u64,
    /// Under load a commit starts no sooner than this after the one before.
    pub commit_interval_us: u64,
    /// Oldest segments are removed while all are larger than this; 0: never.
    pub retention_bytes: u64,
    /// Segments older than this are removed; 0: never.
    pub retention_days: u64,
    /// Bytes that may wait to be written; more is refused with 503.
    pub queue_bytes_max: usize,
    /// With less than this free the disk counts as full.
    pub free_bytes_min: u64,
}

/// Settings of connections.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenConnections {
    /// In all.
    pub total_max: usize,
    /// From one address (IPv6: one /64).
    pub per_address_max: usize,
    /// Subscriptions with one credential; with a public key, from one address.
    pub subscriptions_each_max: usize,
    /// So often, in seconds, a socket's other side is asked whether it is there; silent twice as long, it is dropped.
    pub heartbeat_s: u64,
}

impl Default for Written {
    fn default() -> Written {
        let log = wal::Options::default();
        Written {
            data: DATA.into(),
            listen: ([127, 0, 0, 1], 8080).into(),
            demo: false,
            runtimes: 0,
            behind_proxy: false,
            geo_file: PathBuf::new(),
            log: WrittenLog {
                segment_bytes: log.segment_bytes,
                commit_interval_us: log.commit_interval.as_micros() as u64,
                retention_bytes: 0,
                retention_days: 0,
                queue_bytes_max: log.queue_bytes_max,
                free_bytes_min: log.free_bytes_min,
            },
            connections: WrittenConnections {
                total_max: 10_000,
                per_address_max: 256,
                subscriptions_each_max: 1_000,
                heartbeat_s: 15,
            },
            origins: Vec::new(),
            events_per_second: 0,
            quotas: WrittenQuotas::default(),
            collectors: WrittenCollectors::new(),
        }
    }
}

/// The layers, merged but not yet read.
pub fn layers(args: &ServeArgs) -> anyhow::Result<Figment> {
    let mut figment = Figment::from(Serialized::defaults(Written::default()));
    match &args.config {
        Some(file) => {
            ensure!(file.exists(), "there is no file {}; --config names it", file.display());
            figment = figment.merge(Toml::file_exact(file));
        }
        None if Path::new(FILE).exists() => figment = figment.merge(Toml::file_exact(FILE)),
        None => {}
    }
    figment = figment.merge(Env::prefixed(ENVIRONMENT).ignore(&NOT_SETTINGS).split("__"));
    let flag = |figment: Figment, key: &str, value: Option<figment::value::Value>| match value {
        Some(value) => figment.merge(Flag(key.to_owned(), value)),
        None => figment,
    };
    let path = |path: &PathBuf| path.to_string_lossy().into_owned().into();
    figment = flag(figment, "data", args.data.as_ref().map(path));
    figment = flag(figment, "listen", args.listen.map(|address| address.to_string().into()));
    figment = flag(figment, "demo", args.demo.then(|| true.into()));
    figment = flag(figment, "runtimes", args.runtimes.map(|count| (count as u64).into()));
    figment = flag(figment, "origins", args.origins.clone().map(Into::into));
    figment = flag(figment, "behind_proxy", args.behind_proxy.then(|| true.into()));
    for (name, address) in [("statsd", args.statsd), ("rtcp", args.rtcp)] {
        if let Some(address) = address {
            figment = figment.merge(UdpFlag { name, address });
        }
    }
    Ok(figment)
}

/// A flag that is short for a collector of packets.
struct UdpFlag {
    /// The collector's, the decoder's and the flag's.
    name: &'static str,
    address: SocketAddr,
}

impl figment::Provider for UdpFlag {
    fn metadata(&self) -> Metadata {
        Metadata::named(format!("flag --{}", self.name))
    }

    fn data(&self) -> Result<figment::value::Map<figment::Profile, figment::value::Dict>, figment::Error> {
        let address = self.address.to_string();
        let keys = [("transport", "udp"), ("decoder", self.name), ("listen", address.as_str())];
        let collector: figment::value::Dict =
            keys.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
        let collectors = figment::value::Dict::from([(self.name.to_owned(), collector.into())]);
        let values = figment::value::Dict::from([("collectors".to_owned(), collectors.into())]);
        Ok(figment::value::Map::from([(figment::Profile::Default, values)]))
    }
}

/// One flag as a layer.
struct Flag(String, figment::value::Value);

impl figment::Provider for Flag {
    fn metadata(&self) -> Metadata {
        Metadata::named(format!("flag --{}", self.0.replace('_', "-")))
    }

    fn data(&self) -> Result<figment::value::Map<figment::Profile, figment::value::Dict>, figment::Error> {
        let values = figment::value::Dict::from([(self.0.clone(), self.1.clone())]);
        Ok(figment::value::Map::from([(figment::Profile::Default, values)]))
    }
}

/// What was written, read; an unknown key or a value of the wrong kind is an error that names it.
pub fn read(figment: &Figment) -> anyhow::Result<Written> {
    figment.extract().map_err(|errors| match errors.into_iter().next() {
        Some(error) => {
            let at = error.metadata.as_ref().map(|metadata| format!(" (from {})", source(metadata)));
            let key = error.path.join(".");
            let key = if key.is_empty() { String::new() } else { format!("`{key}`: ") };
            anyhow::anyhow!("settings: {key}{}{}", one_line(&error.kind.to_string()), at.unwrap_or_default())
        }
        None => anyhow::anyhow!("settings cannot be read"),
    })
}

/// Without the picture of the place that the parser of TOML draws under its message.
fn one_line(message: &str) -> String {
    let drawn =
        |line: &&str| line.trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit()).starts_with('|');
    message.lines().filter(|line| !drawn(line)).collect::<Vec<_>>().join(": ")
}

/// Where a value comes from, for people.
pub fn source(metadata: &Metadata) -> String {
    match &metadata.source {
        // The place in this program's text where the defaults were put in.
        Some(figment::Source::Code(_)) => "default".into(),
        Some(source) => format!("{} {source}", metadata.name),
        None if metadata.name.contains("environment") => "environment".into(),
        None => metadata.name.to_string(),
    }
}

impl Written {
    /// What it means, checked.
    pub fn resolve(self) -> anyhow::Result<Settings> {
        ensure!(self.log.segment_bytes >= 1 << 20, "log.segment_bytes: at least 1 MiB (1048576)");
        ensure!(self.log.queue_bytes_max >= 1 << 20, "log.queue_bytes_max: at least 1 MiB (1048576)");
        ensure!(self.connections.total_max > 0, "connections.total_max: at least 1");
        ensure!(self.connections.per_address_max > 0, "connections.per_address_max: at least 1");
        ensure!(
            self.connections.subscriptions_each_max > 0,
            "connections.subscriptions_each_max: at least 1"
        );
        let heartbeat_s = self.connections.heartbeat_s;
        ensure!((1..=3600).contains(&heartbeat_s), "connections.heartbeat_s: 1 to 3600");
        for origin in &self.origins {
            ensure!(is_origin(origin), "origins: `{origin}` is no origin; one reads `https://game.example`");
        }
        if !self.listen.ip().is_loopback() && !self.behind_proxy {
            bail!(
                "listen: {} can be reached from other machines and this server does not speak TLS; \
                 put a proxy in front and say --behind-proxy, or listen on 127.0.0.1",
                self.listen
            );
        }
        let geo_file = (!self.geo_file.as_os_str().is_empty()).then_some(self.geo_file);
        if let Some(file) = &geo_file {
            ensure!(file.exists(), "geo_file: there is no file {}", file.display());
        }
        let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
        Ok(Settings {
            data: self.data,
            listen: self.listen,
            runtimes: if self.runtimes == 0 { cores() } else { self.runtimes.min(1024) },
            behind_proxy: self.behind_proxy,
            demo: self.demo,
            geo_file,
            log: self.log.resolve(),
            connections: ConnectionLimits {
                total: self.connections.total_max,
                per_address: self.connections.per_address_max,
                subscriptions_each: self.connections.subscriptions_each_max,
            },
            heartbeat: Duration::from_secs(heartbeat_s),
            origins: self.origins,
            collectors: collectors::resolve(&self.collectors)?,
            quotas: QuotaSettings {
                game_events_per_second: self.events_per_second,
                key_events_per_second: self.quotas.key_events_per_second,
                address_events_per_second: self.quotas.address_events_per_second,
                player_events_per_second: self.quotas.player_events_per_second,
                events_per_day: self.quotas.events_per_day,
                bytes_per_day: self.quotas.bytes_per_day,
                flows_per_game: flows_per_game(self.quotas.flows_per_game)?,
            },
        })
    }
}

/// 0 is as many as the server may have.
fn flows_per_game(written: u32) -> anyhow::Result<u32> {
    const MAX: u32 = FLOWS_MAX as u32;
    ensure!(written <= MAX, "quotas.flows_per_game: up to {MAX}");
    Ok(if written == 0 { MAX } else { written })
}

impl WrittenLog {
    fn resolve(self) -> wal::Options {
        let bound = |value: u64| (value > 0).then_some(value);
        let day_ms = Duration::from_secs(24 * 3600).as_millis() as u64;
        wal::Options {
            segment_bytes: self.segment_bytes,
            commit_interval: Duration::from_micros(self.commit_interval_us),
            queue_bytes_max: self.queue_bytes_max,
            free_bytes_min: self.free_bytes_min,
            retention: wal::Retention {
                bytes_max: bound(self.retention_bytes),
                age_ms_max: bound(self.retention_days).map(|days| days.saturating_mul(day_ms)),
            },
            #[cfg(feature = "fault-injection")]
            injected_fault: crate::open::injected_fault::chosen(
                "ack_before_sync",
                wal::InjectedFault::AckBeforeSync,
            ),
            ..wal::Options::default()
        }
    }
}

/// A list, or words with commas between them, as they stand in the environment and on the command line.
fn list<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Words(String),
        List(Vec<String>),
    }
    Ok(match Either::deserialize(deserializer)? {
        Either::List(list) => list,
        Either::Words(words) => {
            words.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
        }
    })
}

/// A scheme, a host and perhaps a port, in lower case and without a path: what browsers send.
fn is_origin(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let fits = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b':' | b'[' | b']')
    };
    rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(fits))
}

/// The settings of a command line.
pub fn resolve(args: &ServeArgs) -> anyhow::Result<Settings> {
    read(&layers(args)?)?.resolve().context("settings")
}
