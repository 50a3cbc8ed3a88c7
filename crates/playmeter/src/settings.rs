//! Settings, in layers: defaults, then a file, then the environment, then flags. Each value has its source.

mod alerts;
pub(crate) mod collectors;
pub(crate) mod listen;
mod sql;
mod tls;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use archive::ArchiveOptions;
use backup::BackupRetention;
use collect::net::ConnectionLimits;
use figment::providers::{Env, Format, Serialized, Toml};
use figment::{Figment, Metadata};
use http::{BodyMemoryLimits, PublicUrl};
use model::limits::{
    BODY_BYTES_MAX, EVENT_NAMES_PER_GAME, EVENT_NAMES_PER_GAME_RANGE, FLOWS_MAX, FLOWS_PER_GAME,
    INFLATED_BYTES_MAX,
};
use pipeline::archiver::ArchiveSettings;
use pipeline::command_quota::CommandQuotaSettings;
use pipeline::ingest::QuotaSettings;
use pipeline::query::pool::QueryLimits;
use serde::{Deserialize, Serialize};
use server::admin::BackupRequest;
use server::{BackupSchedule, Settings};

use self::alerts::RawAlerts;
use crate::cli::ServeArgs;
use crate::commands::backup::{check_not_inside, parse_target, read_secret};
use collectors::RawCollectors;
use listen::ListenAddress;
use sql::RawSql;
use tls::RawTls;

/// The default data folder.
pub(crate) const DATA: &str = "data";
/// Prefix of the environment variables: `PLAYMETER_LISTEN`, `PLAYMETER_LOG__RETENTION_DAYS` and so on.
const ENVIRONMENT: &str = "PLAYMETER_";
/// The largest `reserve_bytes`.
const RESERVE_BYTES_MAX: u64 = 16 << 30;
/// The file that is read from the working directory if `--config` is not given.
const FILE: &str = "playmeter.toml";
/// The most proxies that a request may pass.
const PROXY_HOPS_MAX: usize = 16;
/// Environment variables with the prefix that are not settings: commands, tests and tools use them.
const NOT_SETTINGS: [&str; 14] = [
    "INJECTED_CLOCK_ERROR",
    "INJECTED_DELETION_SETTLE",
    "KEY",
    "POSTGRES",
    "REDIS",
    "NGINX",
    "SUITES",
    "FLOORS",
    "URL",
    "SESSION",
    "PUBLIC_KEY",
    "SHOTS",
    "INJECTED_FAULT",
    "LOG_LEVEL",
];

/// All settings as written in the file, before validation.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct RawSettings {
    pub(crate) data: PathBuf,
    pub(crate) listen: ListenAddress,
    /// True to run simulated players in the demo game.
    pub(crate) demo: bool,
    /// Threads that handle requests; 0 for one per core.
    pub(crate) runtimes: usize,
    /// True behind a reverse proxy that sets the addresses of the clients. It also terminates TLS, unless `tls` is set.
    pub(crate) behind_proxy: bool,
    /// Behind a proxy: how many trusted proxies a request passes, each of which appends the address that it sees to
    /// `X-Forwarded-For`. The entry of the outermost one is the address of the client.
    pub(crate) proxy_hops: usize,
    /// The URL under which browsers and games reach the server, such as `https://stats.example`. Requests for other
    /// hosts than its name, names below it and this machine are then rejected. Empty: every host is served. It is the
    /// start of every link. If it begins with `https`, cookies are sent over TLS only.
    pub(crate) public_url: String,
    pub(crate) tls: RawTls,
    /// An .mmdb file instead of the built-in table of countries; empty for the built-in table.
    pub(crate) geo_file: PathBuf,
    pub(crate) log: RawLog,
    /// Bytes of a file that is deleted when the disk is full, so that checkpoints can finish; 0 for none.
    pub(crate) reserve_bytes: u64,
    /// Seconds after SIGTERM or SIGINT after which the process ends all the same.
    pub(crate) stop_timeout_s: u64,
    pub(crate) connections: RawConnections,
    /// Origins whose pages may open WebSockets, as browsers write them. If empty, all may, but cookies are ignored.
    #[serde(deserialize_with = "string_or_list")]
    pub(crate) origins: Vec<String>,
    /// Events per second of each game, with a burst of ten seconds; 0 for no limit.
    pub(crate) events_per_second: u64,
    pub(crate) quotas: RawQuotas,
    pub(crate) queries: RawQueries,
    pub(crate) sql: RawSql,
    pub(crate) archive: RawArchive,
    pub(crate) bodies: RawBodies,
    pub(crate) backup: RawBackup,
    pub(crate) alerts: RawAlerts,
    /// Collectors by name.
    pub(crate) collectors: RawCollectors,
}

/// Quotas on what clients send; 0 for no limit.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct RawQuotas {
    /// Events per second with one key, with a burst of ten seconds.
    pub(crate) key_events_per_second: u64,
    /// Events per second from one address (IPv6: one /64), with a burst of ten seconds.
    pub(crate) address_events_per_second: u64,
    /// Events per second of one player, with a burst of ten seconds.
    pub(crate) player_events_per_second: u64,
    /// Events of each game per UTC day.
    pub(crate) events_per_day: u64,
    /// Bytes of each game per UTC day, as stored in the log.
    pub(crate) bytes_per_day: u64,
    /// Live-ops writes per second with one public key, with a burst of ten seconds.
    pub(crate) key_writes_per_second: u64,
    /// Live-ops writes per second with public keys from one address, with a burst of ten seconds.
    pub(crate) address_writes_per_second: u64,
    /// Live-ops writes per second of one player with public keys, with a burst of ten seconds.
    pub(crate) player_writes_per_second: u64,
    /// Player sessions, boards and levels that one address may create per minute with public keys, with a burst of five
    /// minutes.
    pub(crate) address_creations_per_minute: u64,
    /// Boards that one address may create per day with a public key.
    pub(crate) address_boards_per_day: u64,
    /// Concurrent flows of each game. With 0, only the limit of the server applies.
    pub(crate) flows_per_game: u32,
    /// Event names of each game with rows of their own; events with other names count in `(other)`.
    pub(crate) event_names_per_game: u32,
}

impl Default for RawQuotas {
    fn default() -> RawQuotas {
        let writes = CommandQuotaSettings::default();
        RawQuotas {
            key_writes_per_second: writes.key_writes_per_second,
            address_writes_per_second: writes.address_writes_per_second,
            player_writes_per_second: writes.player_writes_per_second,
            address_creations_per_minute: writes.address_creations_per_minute,
            address_boards_per_day: writes.address_boards_per_day,
            key_events_per_second: 0,
            address_events_per_second: 0,
            player_events_per_second: 0,
            events_per_day: 0,
            bytes_per_day: 0,
            flows_per_game: FLOWS_PER_GAME,
            event_names_per_game: EVENT_NAMES_PER_GAME,
        }
    }
}

/// Bounds of queries.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct RawQueries {
    /// Seconds that a query may run.
    pub(crate) timeout_s: u64,
    /// Bytes of memory of one query; all queries together may use four times as much.
    pub(crate) memory_bytes_max: usize,
    /// Queries of one game that run at once.
    pub(crate) per_game_max: usize,
    /// Bytes of memory of the players of all cohorts; one game may use half of it.
    pub(crate) cohorts_bytes_max: usize,
}

impl Default for RawQueries {
    fn default() -> RawQueries {
        let limits = QueryLimits::default();
        RawQueries {
            timeout_s: limits.timeout.as_secs(),
            memory_bytes_max: limits.memory_bytes_max,
            per_game_max: limits.per_game_max,
            cohorts_bytes_max: limits.cohorts_bytes_max,
        }
    }
}

/// The archive of raw events.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct RawArchive {
    /// Bytes of memory for events that are not in a file yet, of all games together.
    pub(crate) memory_bytes_max: usize,
    /// Days for which raw events are kept, unless a game sets them; 0 for ever.
    pub(crate) events_days: u32,
}

impl Default for RawArchive {
    fn default() -> RawArchive {
        let ArchiveSettings { options, events_days } = ArchiveSettings::default();
        RawArchive { memory_bytes_max: options.memory_bytes_max, events_days }
    }
}

/// The memory of request bodies that are being received, decompressed and handled.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct RawBodies {
    /// Bytes of all bodies together; beyond that, requests are rejected with 503.
    pub(crate) bytes_max: usize,
    /// Bytes of the bodies from one address (IPv6: one /56); fewer while all bodies together use three quarters.
    pub(crate) address_bytes_max: usize,
}

impl Default for RawBodies {
    fn default() -> RawBodies {
        let BodyMemoryLimits { bytes_max, address_bytes_max } = BodyMemoryLimits::default();
        RawBodies { bytes_max, address_bytes_max }
    }
}

/// Scheduled backups.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct RawBackup {
    /// A folder or s3://BUCKET/PREFIX; empty for no scheduled backups.
    pub(crate) to: String,
    /// Hours from one backup to the next.
    pub(crate) every_hours: u64,
    /// Number of backups that are kept; 0 for all.
    pub(crate) keep: u32,
    /// Days after which a backup is removed; the newest one is always kept. 0 for never.
    pub(crate) keep_days: u32,
    /// A file with the passphrase of encrypted backups.
    pub(crate) passphrase_file: PathBuf,
    /// A file with the key of encrypted backups.
    pub(crate) key_file: PathBuf,
}

impl Default for RawBackup {
    fn default() -> RawBackup {
        RawBackup {
            to: String::new(),
            every_hours: 24,
            keep: 14,
            keep_days: 0,
            passphrase_file: PathBuf::new(),
            key_file: PathBuf::new(),
        }
    }
}

impl RawBackup {
    fn resolve(self, data: &Path) -> anyhow::Result<Option<BackupSchedule>> {
        if self.to.is_empty() {
            return Ok(None);
        }
        let hours = 1..=24 * 366;
        ensure!(
            hours.contains(&self.every_hours),
            "backup.every_hours: must be between 1 and {}",
            hours.end()
        );
        let to = parse_target(&self.to).context("backup.to")?;
        check_not_inside(&to, data).context("backup.to")?;
        let file = |path: PathBuf| (!path.as_os_str().is_empty()).then_some(path);
        let (passphrase, key) = (file(self.passphrase_file), file(self.key_file));
        ensure!(
            passphrase.is_none() || key.is_none(),
            "backup.key_file: must not be set beside backup.passphrase_file"
        );
        let name = if passphrase.is_some() { "backup.passphrase_file" } else { "backup.key_file" };
        let secret = read_secret(passphrase.as_deref(), key.as_deref()).context(name)?;
        let limit = |value: u32| (value > 0).then_some(value);
        let retention = BackupRetention { count_max: limit(self.keep), days_max: limit(self.keep_days) };
        let request = BackupRequest { to, secret, retention, settings_file: None };
        Ok(Some(BackupSchedule { request, every: Duration::from_secs(self.every_hours * 3_600) }))
    }
}

/// Settings of the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct RawLog {
    pub(crate) segment_bytes: u64,
    /// Under load, the minimum time between the starts of two commits.
    pub(crate) commit_interval_us: u64,
    /// The oldest segments are deleted while the log is larger than this; 0 for never.
    pub(crate) retention_bytes: u64,
    /// Segments older than this are deleted; 0 for never.
    pub(crate) retention_days: u64,
    /// Bytes that may wait to be written; beyond that, requests are rejected with 503.
    pub(crate) queue_bytes_max: usize,
    /// The disk counts as full if less than this is free, also that of the views and of the event ids.
    pub(crate) free_bytes_min: u64,
}

/// Limits of connections.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct RawConnections {
    pub(crate) total_max: usize,
    /// From one address (IPv6: one /64). Behind a proxy: requests in progress, streams and sockets of one client.
    pub(crate) per_address_max: usize,
    /// Subscriptions per credential; for a public key, per address.
    pub(crate) subscriptions_each_max: usize,
    /// Seconds between two pings on a WebSocket, which is closed after twice as long without an answer, and between two
    /// comments in an idle stream of server-sent events. The credentials of both are checked as often.
    pub(crate) heartbeat_s: u64,
}

impl Default for RawSettings {
    fn default() -> RawSettings {
        let log = wal::Options::default();
        RawSettings {
            data: DATA.into(),
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)).into(),
            demo: false,
            runtimes: 0,
            behind_proxy: false,
            proxy_hops: 1,
            public_url: String::new(),
            tls: RawTls::default(),
            geo_file: PathBuf::new(),
            log: RawLog {
                segment_bytes: log.segment_bytes,
                commit_interval_us: log.commit_interval.as_micros() as u64,
                retention_bytes: 0,
                retention_days: 0,
                queue_bytes_max: log.queue_bytes_max,
                free_bytes_min: log.free_bytes_min,
            },
            reserve_bytes: 32 << 20,
            // Less than the 30 s after which container runtimes kill.
            stop_timeout_s: 25,
            connections: RawConnections {
                total_max: 10_000,
                per_address_max: 256,
                subscriptions_each_max: 1_000,
                heartbeat_s: 15,
            },
            origins: Vec::new(),
            events_per_second: 0,
            quotas: RawQuotas::default(),
            queries: RawQueries::default(),
            sql: RawSql::default(),
            archive: RawArchive::default(),
            bodies: RawBodies::default(),
            backup: RawBackup::default(),
            alerts: RawAlerts::default(),
            collectors: RawCollectors::new(),
        }
    }
}

/// Returns the file with the settings: the one that is named, or the one in the working directory.
fn file(args: &ServeArgs) -> Option<&Path> {
    args.config.as_deref().or_else(|| Some(Path::new(FILE)).filter(|file| file.exists()))
}

/// Merges the layers. The values are not checked yet.
pub(crate) fn layers(args: &ServeArgs) -> anyhow::Result<Figment> {
    let mut figment = Figment::from(Serialized::defaults(RawSettings::default()));
    if let Some(file) = file(args) {
        ensure!(file.exists(), "--config {}: no such file", file.display());
        figment = figment.merge(Toml::file_exact(file));
    }
    figment = figment.merge(Env::prefixed(ENVIRONMENT).ignore(&NOT_SETTINGS).split("__"));
    let flag = |figment: Figment, key: &str, value: Option<figment::value::Value>| match value {
        Some(value) => figment.merge(FlagProvider(key.to_owned(), value)),
        None => figment,
    };
    let path = |path: &PathBuf| path.to_string_lossy().into_owned().into();
    figment = flag(figment, "data", args.data.as_ref().map(path));
    figment = flag(figment, "listen", args.listen.clone().map(|address| String::from(address).into()));
    figment = flag(figment, "demo", args.demo.then(|| true.into()));
    figment = flag(figment, "runtimes", args.runtimes.map(|count| (count as u64).into()));
    figment = flag(figment, "origins", args.origins.clone().map(Into::into));
    figment = flag(figment, "behind_proxy", args.behind_proxy.then(|| true.into()));
    for (name, key, file) in [("tls-cert", "certificate", &args.tls_cert), ("tls-key", "key", &args.tls_key)]
    {
        if let Some(file) = file {
            figment = figment.merge(TlsFlag { name, key, file: file.to_string_lossy().into_owned() });
        }
    }
    for (name, address) in [("statsd", args.statsd), ("rtcp", args.rtcp)] {
        if let Some(address) = address {
            figment = figment.merge(UdpCollectorFlag { name, address });
        }
    }
    Ok(figment)
}

/// A flag that sets a key of `tls`, as a layer.
struct TlsFlag {
    name: &'static str,
    key: &'static str,
    file: String,
}

impl figment::Provider for TlsFlag {
    fn metadata(&self) -> Metadata {
        Metadata::named(format!("flag --{}", self.name))
    }

    fn data(&self) -> Result<figment::value::Map<figment::Profile, figment::value::Dict>, figment::Error> {
        let tls = figment::value::Dict::from([(self.key.to_owned(), self.file.clone().into())]);
        let values = figment::value::Dict::from([("tls".to_owned(), tls.into())]);
        Ok(figment::value::Map::from([(figment::Profile::Default, values)]))
    }
}

/// A flag that declares a UDP collector, as a layer.
struct UdpCollectorFlag {
    /// The name of the collector, of its decoder and of the flag.
    name: &'static str,
    address: SocketAddr,
}

impl figment::Provider for UdpCollectorFlag {
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

/// A flag as a layer: the key and the value.
struct FlagProvider(String, figment::value::Value);

impl figment::Provider for FlagProvider {
    fn metadata(&self) -> Metadata {
        Metadata::named(format!("flag --{}", self.0.replace('_', "-")))
    }

    fn data(&self) -> Result<figment::value::Map<figment::Profile, figment::value::Dict>, figment::Error> {
        let values = figment::value::Dict::from([(self.0.clone(), self.1.clone())]);
        Ok(figment::value::Map::from([(figment::Profile::Default, values)]))
    }
}

/// Reads the merged layers. An unknown key or a value of the wrong type is an error that names the key and its source.
pub(crate) fn read(figment: &Figment) -> anyhow::Result<RawSettings> {
    figment.extract().map_err(|errors| match errors.into_iter().next() {
        Some(error) => {
            let line = line_of(&error).map_or_else(String::new, |line| format!(", line {line}"));
            let at = error.metadata.as_ref().map(|metadata| format!(" (from {}{line})", source(metadata)));
            let key = error.path.join(".");
            let key = if key.is_empty() { String::new() } else { format!("`{key}`: ") };
            anyhow::anyhow!("settings: {key}{}{}", one_line(&error.kind.to_string()), at.unwrap_or_default())
        }
        None => anyhow::anyhow!("settings: cannot be read"),
    })
}

/// Returns the line of the settings file on which the key of an error is written. A key inside an inline table has the
/// line of the table.
fn line_of(error: &figment::Error) -> Option<usize> {
    let file = error.metadata.as_ref()?.source.as_ref()?.file_path()?;
    let mut path: Vec<&str> = error.path.iter().map(String::as_str).collect();
    if let figment::error::Kind::UnknownField(name, _) = &error.kind
        && path.last() != Some(&name.as_str())
    {
        path.push(name);
    }
    let text = std::fs::read_to_string(file).ok()?;
    (1..=path.len()).rev().find_map(|depth| line_of_key(&text, &path[..depth]))
}

/// Returns the number of the line that sets a key or begins its table.
fn line_of_key(text: &str, path: &[&str]) -> Option<usize> {
    fn keys(dotted: &str) -> Vec<&str> {
        dotted.split('.').map(|key| key.trim().trim_matches(['"', '\''])).collect()
    }
    let mut table = Vec::new();
    for (index, line) in text.lines().map(str::trim).enumerate() {
        if let Some(header) = line.strip_prefix('[') {
            table = keys(header.trim_start_matches('[').split(']').next().unwrap_or_default());
            if table.starts_with(path) {
                return Some(index + 1);
            }
        } else if let Some((key, _)) = line.split_once('=').filter(|_| !line.starts_with('#')) {
            let full: Vec<&str> = table.iter().copied().chain(keys(key)).collect();
            if full.starts_with(path) {
                return Some(index + 1);
            }
        }
    }
    None
}

/// Drops the excerpt of the file that the TOML parser draws below its message.
fn one_line(message: &str) -> String {
    let is_excerpt =
        |line: &&str| line.trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit()).starts_with('|');
    message.lines().filter(|line| !is_excerpt(line)).collect::<Vec<_>>().join(": ")
}

/// Returns the source of a value as text for the user.
pub(crate) fn source(metadata: &Metadata) -> String {
    match &metadata.source {
        // The line of this source file that adds the defaults.
        Some(figment::Source::Code(_)) => "default".into(),
        Some(source) => format!("{} {source}", metadata.name),
        None if metadata.name.contains("environment") => "environment".into(),
        None => metadata.name.to_string(),
    }
}

impl RawSettings {
    /// Validates the settings and converts them to those of the server.
    pub(crate) fn resolve(self) -> anyhow::Result<Settings> {
        ensure!(self.log.segment_bytes >= 1 << 20, "log.segment_bytes: must be at least 1048576 (1 MiB)");
        ensure!(self.log.queue_bytes_max >= 1 << 20, "log.queue_bytes_max: must be at least 1048576 (1 MiB)");
        ensure!((1..=3600).contains(&self.stop_timeout_s), "stop_timeout_s: must be between 1 and 3600");
        ensure!(
            self.reserve_bytes <= RESERVE_BYTES_MAX,
            "reserve_bytes: must be at most {RESERVE_BYTES_MAX} (16 GiB)"
        );
        ensure!(self.connections.total_max > 0, "connections.total_max: must be at least 1");
        ensure!(self.connections.per_address_max > 0, "connections.per_address_max: must be at least 1");
        ensure!(
            self.connections.subscriptions_each_max > 0,
            "connections.subscriptions_each_max: must be at least 1"
        );
        let heartbeat_s = self.connections.heartbeat_s;
        ensure!((1..=3600).contains(&heartbeat_s), "connections.heartbeat_s: must be between 1 and 3600");
        ensure!(
            (1..=PROXY_HOPS_MAX).contains(&self.proxy_hops),
            "proxy_hops: must be between 1 and {PROXY_HOPS_MAX}"
        );
        for origin in &self.origins {
            ensure!(
                is_origin(origin),
                "origins: `{origin}` is not an origin; write it as `https://game.example`"
            );
        }
        let public_url = match self.public_url.as_str() {
            "" => None,
            text => Some(PublicUrl::parse(text).with_context(|| {
                format!(
                    "public_url: `{text}` is not a URL without a path; write it as `https://stats.example`"
                )
            })?),
        };
        let listen = self.listen.resolve().context("listen")?;
        let tls = self.tls.resolve(&self.data)?;
        if !listen.ip().is_loopback() && !self.behind_proxy && tls.is_none() {
            bail!(
                "listen: {} is reachable from other machines, but the server does not terminate TLS; \
                 set tls.certificate and tls.key, or tls.acme.domains, or run a reverse proxy in front and set --behind-proxy, or listen \
                 on 127.0.0.1",
                self.listen
            );
        }
        if tls.is_some() && public_url.as_ref().is_some_and(|url| !url.is_https()) {
            bail!(
                "public_url: `{}` must begin with https://, because the server terminates TLS",
                self.public_url
            );
        }
        let geo_file = (!self.geo_file.as_os_str().is_empty()).then_some(self.geo_file);
        if let Some(file) = &geo_file {
            ensure!(file.exists(), "geo_file: no such file: {}", file.display());
        }
        let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
        Ok(Settings {
            backups: self.backup.resolve(&self.data)?,
            alerts: self.alerts.resolve()?,
            settings_file: None,
            data: self.data,
            listen,
            tls,
            redirect_listen: self.tls.redirect_listen()?,
            runtimes: if self.runtimes == 0 { cores() } else { self.runtimes.min(1024) },
            behind_proxy: self.behind_proxy,
            proxy_hops: self.proxy_hops,
            public_url,
            demo: self.demo,
            geo_file,
            log: self.log.resolve(),
            reserve_bytes: self.reserve_bytes,
            stop_timeout: Duration::from_secs(self.stop_timeout_s),
            connections: ConnectionLimits {
                total: self.connections.total_max,
                per_address: self.connections.per_address_max,
                subscriptions_per_credential_max: self.connections.subscriptions_each_max,
            },
            heartbeat: Duration::from_secs(heartbeat_s),
            origins: self.origins,
            collectors: collectors::resolve(&self.collectors)?,
            queries: self.queries.resolve()?,
            sql: self.sql.resolve()?,
            archive: self.archive.resolve()?,
            bodies: self.bodies.resolve()?,
            command_quotas: CommandQuotaSettings {
                key_writes_per_second: self.quotas.key_writes_per_second,
                address_writes_per_second: self.quotas.address_writes_per_second,
                player_writes_per_second: self.quotas.player_writes_per_second,
                address_creations_per_minute: self.quotas.address_creations_per_minute,
                address_boards_per_day: self.quotas.address_boards_per_day,
            },
            quotas: QuotaSettings {
                game_events_per_second: self.events_per_second,
                key_events_per_second: self.quotas.key_events_per_second,
                address_events_per_second: self.quotas.address_events_per_second,
                player_events_per_second: self.quotas.player_events_per_second,
                events_per_day: self.quotas.events_per_day,
                bytes_per_day: self.quotas.bytes_per_day,
                flows_per_game: flows_per_game(self.quotas.flows_per_game)?,
                event_names_per_game: event_names_per_game(self.quotas.event_names_per_game)?,
            },
        })
    }
}

/// Maps 0 to the limit of the server.
fn flows_per_game(value: u32) -> anyhow::Result<u32> {
    const MAX: u32 = FLOWS_MAX as u32;
    ensure!(value <= MAX, "quotas.flows_per_game: must be at most {MAX}");
    Ok(if value == 0 { MAX } else { value })
}

fn event_names_per_game(value: u32) -> anyhow::Result<u32> {
    let (min, max) = EVENT_NAMES_PER_GAME_RANGE.into_inner();
    ensure!((min..=max).contains(&value), "quotas.event_names_per_game: must be between {min} and {max}");
    Ok(value)
}

impl RawQueries {
    fn resolve(self) -> anyhow::Result<QueryLimits> {
        ensure!((1..=600).contains(&self.timeout_s), "queries.timeout_s: must be between 1 and 600");
        ensure!(
            self.memory_bytes_max >= 16 << 20,
            "queries.memory_bytes_max: must be at least 16777216 (16 MiB)"
        );
        ensure!((1..=64).contains(&self.per_game_max), "queries.per_game_max: must be between 1 and 64");
        ensure!(
            self.cohorts_bytes_max >= 64 << 10,
            "queries.cohorts_bytes_max: must be at least 65536 (64 KiB)"
        );
        Ok(QueryLimits {
            timeout: Duration::from_secs(self.timeout_s),
            memory_bytes_max: self.memory_bytes_max,
            per_game_max: self.per_game_max,
            cohorts_bytes_max: self.cohorts_bytes_max,
        })
    }
}

impl RawArchive {
    fn resolve(self) -> anyhow::Result<ArchiveSettings> {
        ensure!(
            self.memory_bytes_max >= 16 << 20,
            "archive.memory_bytes_max: must be at least 16777216 (16 MiB)"
        );
        ensure!(self.events_days <= 36_500, "archive.events_days: must be between 0 (for ever) and 36500");
        let options = ArchiveOptions { memory_bytes_max: self.memory_bytes_max, ..ArchiveOptions::default() };
        Ok(ArchiveSettings { options, events_days: self.events_days })
    }
}

impl RawBodies {
    fn resolve(self) -> anyhow::Result<BodyMemoryLimits> {
        const LEAST: usize = BODY_BYTES_MAX + INFLATED_BYTES_MAX;
        ensure!(
            self.address_bytes_max >= LEAST,
            "bodies.address_bytes_max: must be at least {LEAST}, the largest body before and after decompression"
        );
        ensure!(
            self.bytes_max >= self.address_bytes_max,
            "bodies.bytes_max: must be at least bodies.address_bytes_max"
        );
        Ok(BodyMemoryLimits { bytes_max: self.bytes_max, address_bytes_max: self.address_bytes_max })
    }
}

impl RawLog {
    fn resolve(self) -> wal::Options {
        let limit = |value: u64| (value > 0).then_some(value);
        let day_ms = Duration::from_secs(24 * 3600).as_millis() as u64;
        wal::Options {
            segment_bytes: self.segment_bytes,
            commit_interval: Duration::from_micros(self.commit_interval_us),
            queue_bytes_max: self.queue_bytes_max,
            free_bytes_min: self.free_bytes_min,
            retention: wal::Retention {
                bytes_max: limit(self.retention_bytes),
                age_ms_max: limit(self.retention_days).map(|days| days.saturating_mul(day_ms)),
            },
            #[cfg(feature = "fault-injection")]
            injected_fault: crate::engine::injected_fault::chosen(
                "ack_before_sync",
                wal::InjectedFault::AckBeforeSync,
            ),
            ..wal::Options::default()
        }
    }
}

/// Accepts a list, or a string with commas as written in the environment and on the command line.
fn string_or_list<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum StringOrList {
        String(String),
        List(Vec<String>),
    }
    Ok(match StringOrList::deserialize(deserializer)? {
        StringOrList::List(list) => list,
        StringOrList::String(text) => {
            text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
        }
    })
}

/// Returns true for a scheme, a host and an optional port, in lower case and without a path, as browsers send it.
fn is_origin(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_allowed = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b':' | b'[' | b']')
    };
    rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(is_allowed))
}

/// Returns the settings of the server for a command line.
pub(crate) fn resolve(args: &ServeArgs) -> anyhow::Result<Settings> {
    let settings = read(&layers(args)?)?.resolve().context("settings")?;
    Ok(Settings { settings_file: file(args).map(Path::to_owned), ..settings })
}
