//! `playmeter bench`: load tests that report latency and the CPU time of the server.
//!
//! Open loop: request k is due at start + k / rate, independent of earlier responses, and its latency counts from that
//! moment. A stall of the server therefore shows in the latencies instead of slowing the load down (coordinated omission).
//! The most important number is the CPU time of the server per million accepted events.

mod cpu;
mod generator;
mod ledger;
mod packets;
mod report;
mod requests;
mod response;
mod schedule;
mod stats;
mod watch;

use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use generator::LoadOptions;
use ledger::EventLedger;
use packets::PacketsArgs;
use report::{LoadReport, LoadSetup, RateStep};
use requests::{EventMix, IdKind, RequestHead, RequestPool};
use watch::WatchArgs;

const DEFAULT_URL: &str = "http://127.0.0.1:8080";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause for the server to recover after a rate that was too high.
const RECOVERY_PAUSE: Duration = Duration::from_millis(500);
/// The search ends when the lowest rate that failed is within this factor of the highest rate that passed.
const RATE_PRECISION: f64 = 1.05;
const RATE_MAX: f64 = 10_000_000.0;

#[derive(clap::Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    /// URL of the server [default: from --data, otherwise http://127.0.0.1:8080]
    #[arg(long)]
    url: Option<String>,
    /// Key to send events with [default: the public key from --data]
    #[arg(long)]
    key: Option<String>,
    /// Data folder of the server, to read its address, keys and process id from
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Process ids of the server, to measure their CPU time and that of their children
    #[arg(long, value_delimiter = ',')]
    pid: Vec<u32>,
    /// Requests per second
    #[arg(long, default_value_t = 1_000.0)]
    rate: f64,
    /// Seconds to measure
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Seconds of load before the measurement
    #[arg(long, default_value_t = 2.0)]
    warmup: f64,
    /// Seconds to wait for responses after the last request
    #[arg(long, default_value_t = 5.0)]
    grace: f64,
    /// Maximum number of connections
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Maximum number of pending requests per connection
    #[arg(long, default_value_t = 1)]
    depth: usize,
    /// Reuse connections, or open a new one for each request
    #[arg(long, value_enum, default_value_t = ConnectionMode::KeepAlive)]
    connection: ConnectionMode,
    /// Events per request
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// Durability that a response has to guarantee
    #[arg(long, value_enum, default_value_t = AckLevel::Disk)]
    ack: AckLevel,
    /// Kind of event ids
    #[arg(long, value_enum, default_value_t = IdKind::V7)]
    ids: IdKind,
    /// Number of different players
    #[arg(long, default_value_t = 1_000_000)]
    players: u64,
    /// Number of different event names
    #[arg(long, default_value_t = 10)]
    names: usize,
    /// Percentage of events that are sent a second time
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    duplicates: f64,
    /// Send generated events, or the requests of a file
    #[arg(long, value_enum, default_value_t = RequestKind::Events)]
    kind: RequestKind,
    /// For --kind requests: file of HTTP requests, each with its length in front as a little-endian u32
    #[arg(long, value_name = "FILE", required_if_eq("kind", "requests"))]
    requests: Option<PathBuf>,
    /// Find the highest rate without errors: double the rate, then bisect
    #[arg(long)]
    find_max: bool,
    /// For --find-max: highest acceptable p99 latency in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 50.0)]
    p99_max: f64,
    /// Write the report as JSON to this file; `-` prints it instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the outcome of each event to this file, synced ten times per second: `id crc32 outcome`
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
}

#[derive(clap::Subcommand, Clone, Debug)]
enum BenchCommand {
    /// Test many WebSocket subscribers while updates are posted
    Watch(Box<WatchArgs>),
    /// Send StatsD lines or RTCP reports over UDP
    Packets(Box<PacketsArgs>),
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum ConnectionMode {
    /// Reuse connections
    KeepAlive,
    /// A new connection for each request
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum AckLevel {
    /// Synced to disk
    Disk,
    /// Written to the operating system
    Os,
    /// Queued in memory
    Memory,
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum RequestKind {
    /// Generated events
    Events,
    /// The requests of the file in --requests
    Requests,
}

/// Runs a load test and writes its report. Fails if there was any error.
pub(crate) fn run(args: BenchArgs) -> anyhow::Result<()> {
    match &args.command {
        Some(BenchCommand::Watch(args)) => return watch::run(args),
        Some(BenchCommand::Packets(args)) => return packets::run(args),
        None => {}
    }
    let mut bench = Bench::prepare(&args)?;
    let report = if args.find_max { bench.find_max(args.p99_max * 1e3)? } else { bench.run_once()? };
    if let Some(ledger) = bench.ledger {
        ledger.close()?;
    }
    write_report(&report, args.json.as_deref())?;
    let errors = report.total.errors;
    ensure!(errors == 0, "{errors} of {} requests failed", report.total.requests_sent);
    Ok(())
}

/// A load test that is ready to run.
struct Bench {
    setup: LoadSetup,
    options: LoadOptions,
    requests: RequestPool,
    ledger: Option<EventLedger>,
}

impl Bench {
    fn prepare(args: &BenchArgs) -> anyhow::Result<Self> {
        args.validate()?;
        let target = BenchTarget::from_args(args)?;
        let requests = match &args.requests {
            Some(file) if args.kind == RequestKind::Requests => read_requests(file, args.batch)?,
            _ => RequestPool::events(&target.head(args), args.mix(), seed()?),
        };
        Ok(Self {
            setup: args.setup(&target.url),
            options: args.options(target.address()?, cpu::tree(&target.pids)),
            requests,
            ledger: args.ledger.as_deref().map(EventLedger::create).transpose()?,
        })
    }

    fn run_once(&mut self) -> anyhow::Result<LoadReport> {
        let measurements = generator::run(&self.options, &mut self.requests, self.ledger.as_mut())?;
        Ok(LoadReport::new(self.setup.clone(), &self.options, &measurements))
    }

    /// Returns the report of the highest rate that passed, with all rates that were tried.
    fn find_max(&mut self, p99_us_max: f64) -> anyhow::Result<LoadReport> {
        let (first, mut steps, mut best) = (self.options.rate, Vec::new(), None);
        while let Some(rate) = next_rate(first, &steps) {
            let (mut step, mut report) = self.attempt(rate, p99_us_max)?;
            if !step.passed {
                // On a shared machine another process can spoil a step, so that a rate has to fail twice.
                std::thread::sleep(RECOVERY_PAUSE);
                (step, report) = self.attempt(rate, p99_us_max)?;
            }
            eprintln!("{step}");
            steps.push(step);
            if step.passed {
                best = Some(report);
            } else {
                std::thread::sleep(RECOVERY_PAUSE);
            }
        }
        let best = best.context("no rate passed; check the server, or raise --p99-max")?;
        Ok(LoadReport { rate_max: Some(best.setup.rate), steps, ..best })
    }

    fn attempt(&mut self, rate: f64, p99_us_max: f64) -> anyhow::Result<(RateStep, LoadReport)> {
        (self.options.rate, self.setup.rate) = (rate, rate);
        let report = self.run_once()?;
        let (p99_us, errors) = (report.latency_us.p99, report.total.errors);
        let passed = errors == 0 && p99_us <= p99_us_max;
        Ok((RateStep { rate, p99_us, errors, passed }, report))
    }
}

/// Returns the next rate to try, or `None` when the highest rate is known precisely enough.
fn next_rate(first: f64, steps: &[RateStep]) -> Option<f64> {
    let rates = |passed| steps.iter().filter(move |step| step.passed == passed).map(|step| step.rate);
    let next = match (rates(true).reduce(f64::max), rates(false).reduce(f64::min)) {
        (None, None) => first,
        (Some(passed), None) => passed * 2.0,
        (None, Some(failed)) => failed / 2.0,
        (Some(passed), Some(failed)) if failed > passed * RATE_PRECISION => (passed * failed).sqrt(),
        (Some(_), Some(_)) => return None,
    };
    (1.0..RATE_MAX).contains(&next).then_some(next)
}

impl BenchArgs {
    fn validate(&self) -> anyhow::Result<()> {
        let numbers = [self.rate, self.seconds, self.warmup, self.grace];
        let are_valid = numbers.iter().all(|number| number.is_finite() && *number >= 0.0);
        ensure!(are_valid, "--rate, --seconds, --warmup and --grace must be 0 or greater");
        ensure!(
            self.rate * self.seconds >= 2.0,
            "fewer than two requests would be measured; raise --rate or --seconds"
        );
        ensure!(self.rate <= RATE_MAX, "--rate must be at most {RATE_MAX}");
        let are_positive =
            [self.connections, self.depth, self.batch, self.names].iter().all(|count| *count > 0);
        ensure!(
            are_positive && self.players > 0,
            "--connections, --depth, --batch, --names and --players must be at least 1"
        );
        ensure!((0.0..=100.0).contains(&self.duplicates), "--duplicates must be between 0 and 100");
        if self.connection == ConnectionMode::Close {
            ensure!(self.depth == 1, "--depth requires --connection keep-alive");
        }
        if self.ids == IdKind::None || self.kind == RequestKind::Requests {
            ensure!(self.ledger.is_none(), "--ledger requires events with ids");
            ensure!(self.duplicates == 0.0, "--duplicates requires events with ids");
        }
        Ok(())
    }

    fn mix(&self) -> EventMix {
        EventMix {
            ids: self.ids,
            players: self.players,
            names: self.names,
            repeats_percent: self.duplicates,
            batch: self.batch,
        }
    }

    fn options(&self, address: SocketAddr, pids: Vec<u32>) -> LoadOptions {
        LoadOptions {
            address,
            connections: self.connections,
            depth: self.depth,
            close: self.connection == ConnectionMode::Close,
            rate: self.rate,
            warmup: self.warmup,
            seconds: self.seconds,
            grace: self.grace,
            pids,
        }
    }

    fn setup(&self, url: &str) -> LoadSetup {
        LoadSetup {
            url: url.to_owned(),
            kind: if self.kind == RequestKind::Events { "events" } else { "requests" },
            ack: self.ack.label(),
            connection: if self.connection == ConnectionMode::Close { "close" } else { "keep-alive" },
            connections: self.connections,
            depth: self.depth,
            rate: self.rate,
            batch: self.batch,
            ids: self.ids,
            players: self.players,
            names: self.names,
            duplicates_percent: self.duplicates,
            warmup: self.warmup,
            seconds: self.seconds,
        }
    }
}

impl AckLevel {
    fn label(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Os => "os",
            Self::Memory => "memory",
        }
    }

    /// Returns the path for events. The default has no parameter, so that other servers accept it too.
    fn path(self) -> String {
        match self {
            Self::Disk => "/v1/events".to_owned(),
            Self::Os | Self::Memory => format!("/v1/events?ack={}", self.label()),
        }
    }
}

/// The server under load.
#[derive(Debug)]
struct BenchTarget {
    url: String,
    /// The key to send events with.
    key: Option<String>,
    /// The key for everything else.
    secret_key: Option<String>,
    pids: Vec<u32>,
}

/// The file that a server writes to its data folder for scripts.
#[derive(serde::Deserialize)]
struct BootstrapFile {
    url: String,
    public_key: String,
    secret_key: String,
}

impl BenchTarget {
    fn from_args(args: &BenchArgs) -> anyhow::Result<Self> {
        let target = Self::resolve(args.url.clone(), args.data.as_deref(), &args.pid)?;
        Ok(Self { key: args.key.clone().or(target.key), ..target })
    }

    /// Reads the data folder. The URL and the process ids override its content.
    fn resolve(url: Option<String>, folder: Option<&Path>, pids: &[u32]) -> anyhow::Result<Self> {
        let from_folder = folder.map(Self::from_folder).transpose()?;
        let default = Self { url: DEFAULT_URL.to_owned(), key: None, secret_key: None, pids: Vec::new() };
        let mut target = from_folder.unwrap_or(default);
        target.url = url.unwrap_or(target.url);
        if !pids.is_empty() {
            target.pids = pids.to_vec();
        }
        Ok(target)
    }

    fn from_folder(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join("bootstrap.json");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let bootstrap: BootstrapFile =
            serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        let pid = fs::read_to_string(folder.join("server.pid")).unwrap_or_default();
        let pids = pid.trim().parse().into_iter().collect();
        let (key, secret_key) = (Some(bootstrap.public_key), Some(bootstrap.secret_key));
        Ok(Self { url: bootstrap.url, key, secret_key, pids })
    }

    /// Returns the host and the port of the URL.
    fn host(&self) -> anyhow::Result<&str> {
        let host = self.url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        let host = host.filter(|host| !host.is_empty() && !host.contains(['/', '?', '@']));
        host.with_context(|| format!("{} must have the form http://HOST:PORT", self.url))
    }

    /// Returns the first address of the host that accepts a connection.
    fn address(&self) -> anyhow::Result<SocketAddr> {
        let host = self.host()?;
        let addresses = host.to_socket_addrs().or_else(|_| (host, 80).to_socket_addrs());
        for address in addresses.with_context(|| format!("resolving {host}"))? {
            if TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_ok() {
                return Ok(address);
            }
        }
        bail!("{} accepts no connection; start the server first, or name another one with --url", self.url)
    }

    fn head(&self, args: &BenchArgs) -> RequestHead {
        RequestHead {
            host: self.host().unwrap_or_default().to_owned(),
            path: args.ack.path(),
            key: self.key.clone(),
            close: args.connection == ConnectionMode::Close,
        }
    }
}

fn read_requests(file: &Path, batch: usize) -> anyhow::Result<RequestPool> {
    let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    RequestPool::from_file(&bytes, batch)
        .with_context(|| format!("{} is not a file of length-prefixed requests", file.display()))
}

/// Returns a random seed, because event ids must differ from those of earlier runs.
fn seed() -> anyhow::Result<u64> {
    getrandom::u64().context("getting a seed from the operating system")
}

/// Writes a report as JSON to a file, or prints it as a table.
fn write_report(report: &(impl serde::Serialize + Display), json: Option<&Path>) -> anyhow::Result<()> {
    let text = || serde_json::to_string_pretty(report).context("writing the report as JSON");
    match json {
        Some(path) if path == Path::new("-") => print(&format!("{}\n", text()?)),
        Some(path) => {
            fs::write(path, text()?).with_context(|| format!("writing {}", path.display()))?;
            print(&report.to_string())
        }
        None => print(&report.to_string()),
    }
}

fn print(text: &str) -> anyhow::Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("printing the report")
}

#[cfg(test)]
mod tests;
