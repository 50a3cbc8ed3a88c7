//! `playmeter bench`: offers load on a timetable and says what it cost the server.
//!
//! Open loop: request k is due at start + k / rate whatever happened before, and its latency
//! counts from that moment, so that a server that stalls cannot hide it by slowing its clients.
//! The first figure is the server's CPU time per million events it accepted.

mod answer;
mod cpu;
mod http;
mod ledger;
mod packets;
mod report;
mod requests;
mod schedule;
mod tally;
mod watch;

use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use http::Offer;
use ledger::Ledger;
use packets::PacketsArgs;
use report::{Report, Setup, Step};
use requests::{Head, Ids, Mix, Requests};
use watch::WatchArgs;

const URL: &str = "http://127.0.0.1:8080";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// After a rate that was too much, the server gets this long to come to rest.
const PAUSE: Duration = Duration::from_millis(500);
/// The search ends when the rate that was too much is within this factor of one that held.
const RATE_PRECISION: f64 = 1.05;
const RATE_MAX: f64 = 10_000_000.0;

/// Offers load to a running server and reports its latency and CPU time.
#[derive(clap::Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    other: Option<Other>,
    /// The server [default: the one of --data, else http://127.0.0.1:8080].
    #[arg(long)]
    url: Option<String>,
    /// The key to send events with [default: the public key of --data].
    #[arg(long)]
    key: Option<String>,
    /// The server's data folder: tells its address, its key and its process.
    #[arg(long)]
    data: Option<PathBuf>,
    /// The server's processes, whose CPU time is measured together with their children's.
    #[arg(long, value_delimiter = ',')]
    pid: Vec<u32>,
    /// Requests a second.
    #[arg(long, default_value_t = 1_000.0)]
    rate: f64,
    /// Seconds to measure.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Seconds of load before measuring.
    #[arg(long, default_value_t = 2.0)]
    warmup: f64,
    /// Seconds to wait for answers after the last request was due.
    #[arg(long, default_value_t = 5.0)]
    grace: f64,
    /// Connections at most.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Requests that may wait for their answer on one connection.
    #[arg(long, default_value_t = 1)]
    depth: usize,
    /// Keep connections, or make a new one for each request.
    #[arg(long, value_enum, default_value_t = ConnectionUse::KeepAlive)]
    connection: ConnectionUse,
    /// Events in a request.
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// What an answer has to mean.
    #[arg(long, value_enum, default_value_t = Ack::Disk)]
    ack: Ack,
    /// Event ids.
    #[arg(long, value_enum, default_value_t = Ids::V7)]
    ids: Ids,
    /// Different players.
    #[arg(long, default_value_t = 1_000_000)]
    players: u64,
    /// Different event names.
    #[arg(long, default_value_t = 10)]
    names: usize,
    /// Events of a hundred that are sent a second time.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    duplicates: f64,
    /// Events made here, or the requests of a file.
    #[arg(long, value_enum, default_value_t = Kind::Events)]
    kind: Kind,
    /// For `--kind requests`: whole requests, each after its length as a little-endian u32.
    #[arg(long, value_name = "FILE", required_if_eq("kind", "requests"))]
    requests: Option<PathBuf>,
    /// Doubles the rate, then bisects, to find the highest that holds.
    #[arg(long)]
    find_max: bool,
    /// For --find-max: a rate holds if it brings no error and a p99 up to this.
    #[arg(long, value_name = "MS", default_value_t = 50.0)]
    p99_max: f64,
    /// Writes the report as JSON; `-` prints it instead of the table.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes what became of each event, synced ten times a second: `id crc32 outcome`.
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
}

/// Other load than requests.
#[derive(clap::Subcommand, Clone, Debug)]
enum Other {
    /// Hold many WebSocket subscribers, post updates and report what both cost.
    Watch(Box<WatchArgs>),
    /// Send StatsD lines or RTCP reports over UDP and report what they cost.
    Packets(Box<PacketsArgs>),
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum ConnectionUse {
    KeepAlive,
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum Ack {
    /// Durable on the disk.
    Disk,
    /// Written to the operating system.
    Os,
    /// Taken into memory.
    Memory,
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum Kind {
    Events,
    Requests,
}

/// Runs the load that was asked for and reports it. Fails if any answer was an error.
pub fn run(args: BenchArgs) -> anyhow::Result<()> {
    match &args.other {
        Some(Other::Watch(args)) => return watch::run(args),
        Some(Other::Packets(args)) => return packets::run(args),
        None => {}
    }
    let mut bench = Bench::prepare(&args)?;
    let report = if args.find_max { bench.find_max(args.p99_max * 1e3)? } else { bench.once()? };
    if let Some(ledger) = bench.ledger {
        ledger.close()?;
    }
    write(&report, args.json.as_deref())?;
    let errors = report.total.errors;
    ensure!(errors == 0, "{errors} of {} requests went wrong", report.total.requests_sent);
    Ok(())
}

/// What the arguments mean.
struct Bench {
    setup: Setup,
    offer: Offer,
    requests: Requests,
    ledger: Option<Ledger>,
}

impl Bench {
    fn prepare(args: &BenchArgs) -> anyhow::Result<Self> {
        args.check()?;
        let server = Server::named_by(args)?;
        let requests = match &args.requests {
            Some(file) if args.kind == Kind::Requests => replayed(file, args.batch)?,
            _ => Requests::events(&server.head(args), args.mix(), seed()?),
        };
        Ok(Self {
            setup: args.setup(&server.url),
            offer: args.offer(server.address()?, cpu::tree(&server.pids)),
            requests,
            ledger: args.ledger.as_deref().map(Ledger::create).transpose()?,
        })
    }

    fn once(&mut self) -> anyhow::Result<Report> {
        let outcome = http::offer(&self.offer, &mut self.requests, self.ledger.as_mut())?;
        Ok(Report::new(self.setup.clone(), &self.offer, &outcome))
    }

    /// The report of the highest rate that held, with all the steps to it.
    fn find_max(&mut self, p99_us_max: f64) -> anyhow::Result<Report> {
        let (first, mut steps, mut best) = (self.offer.rate, Vec::new(), None);
        while let Some(rate) = next_rate(first, &steps) {
            let (mut step, mut report) = self.attempt(rate, p99_us_max)?;
            if !step.held {
                // On a shared machine a neighbour can spoil a step: only twice is too much.
                std::thread::sleep(PAUSE);
                (step, report) = self.attempt(rate, p99_us_max)?;
            }
            eprintln!("{step}");
            steps.push(step);
            if step.held {
                best = Some(report);
            } else {
                std::thread::sleep(PAUSE);
            }
        }
        let best = best.context("no rate held: is the server well, or --p99-max too strict?")?;
        Ok(Report { rate_max: Some(best.setup.rate), steps, ..best })
    }

    fn attempt(&mut self, rate: f64, p99_us_max: f64) -> anyhow::Result<(Step, Report)> {
        (self.offer.rate, self.setup.rate) = (rate, rate);
        let report = self.once()?;
        let (p99_us, errors) = (report.latency_us.p99, report.total.errors);
        let held = errors == 0 && p99_us <= p99_us_max;
        Ok((Step { rate, p99_us, errors, held }, report))
    }
}

/// Which rate to try after these; `None` when the highest is known well enough.
fn next_rate(first: f64, steps: &[Step]) -> Option<f64> {
    let rates = |held| steps.iter().filter(move |step| step.held == held).map(|step| step.rate);
    let next = match (rates(true).reduce(f64::max), rates(false).reduce(f64::min)) {
        (None, None) => first,
        (Some(held), None) => held * 2.0,
        (None, Some(too_much)) => too_much / 2.0,
        (Some(held), Some(too_much)) if too_much > held * RATE_PRECISION => (held * too_much).sqrt(),
        (Some(_), Some(_)) => return None,
    };
    (1.0..RATE_MAX).contains(&next).then_some(next)
}

impl BenchArgs {
    fn check(&self) -> anyhow::Result<()> {
        let numbers = [self.rate, self.seconds, self.warmup, self.grace];
        let usable = numbers.iter().all(|number| number.is_finite() && *number >= 0.0);
        ensure!(usable, "--rate, --seconds, --warmup and --grace are numbers from 0 on");
        ensure!(
            self.rate * self.seconds >= 2.0,
            "fewer than two requests to measure: raise --rate or --seconds"
        );
        ensure!(self.rate <= RATE_MAX, "--rate is at most {RATE_MAX}");
        let some = [self.connections, self.depth, self.batch, self.names].iter().all(|count| *count > 0);
        ensure!(
            some && self.players > 0,
            "--connections, --depth, --batch, --names and --players start at 1"
        );
        ensure!((0.0..=100.0).contains(&self.duplicates), "--duplicates is a percentage");
        if self.connection == ConnectionUse::Close {
            ensure!(self.depth == 1, "--depth needs --connection keep-alive");
        }
        if self.ids == Ids::None || self.kind == Kind::Requests {
            ensure!(self.ledger.is_none(), "--ledger needs events with ids");
            ensure!(self.duplicates == 0.0, "--duplicates needs events with ids");
        }
        Ok(())
    }

    fn mix(&self) -> Mix {
        Mix {
            ids: self.ids,
            players: self.players,
            names: self.names,
            repeats_percent: self.duplicates,
            batch: self.batch,
        }
    }

    fn offer(&self, address: SocketAddr, pids: Vec<u32>) -> Offer {
        Offer {
            address,
            connections: self.connections,
            depth: self.depth,
            close: self.connection == ConnectionUse::Close,
            rate: self.rate,
            warmup: self.warmup,
            seconds: self.seconds,
            grace: self.grace,
            pids,
        }
    }

    fn setup(&self, url: &str) -> Setup {
        Setup {
            url: url.to_owned(),
            kind: if self.kind == Kind::Events { "events" } else { "requests" },
            ack: self.ack.word(),
            connection: if self.connection == ConnectionUse::Close { "close" } else { "keep-alive" },
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

impl Ack {
    fn word(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Os => "os",
            Self::Memory => "memory",
        }
    }

    /// Where events go; the default needs no word, and other servers know none.
    fn target(self) -> String {
        match self {
            Self::Disk => "/v1/events".to_owned(),
            Self::Os | Self::Memory => format!("/v1/events?ack={}", self.word()),
        }
    }
}

/// The server under load.
#[derive(Debug)]
struct Server {
    url: String,
    /// To send events with.
    key: Option<String>,
    /// For everything else.
    secret: Option<String>,
    pids: Vec<u32>,
}

/// What a server writes into its data folder for scripts.
#[derive(serde::Deserialize)]
struct Bootstrap {
    url: String,
    public_key: String,
    secret_key: String,
}

impl Server {
    fn named_by(args: &BenchArgs) -> anyhow::Result<Self> {
        let server = Self::named(args.url.clone(), args.data.as_deref(), &args.pid)?;
        Ok(Self { key: args.key.clone().or(server.key), ..server })
    }

    /// What is given wins over what the folder says.
    fn named(url: Option<String>, folder: Option<&Path>, pids: &[u32]) -> anyhow::Result<Self> {
        let of_folder = folder.map(Self::of_folder).transpose()?;
        let default = Self { url: URL.to_owned(), key: None, secret: None, pids: Vec::new() };
        let mut server = of_folder.unwrap_or(default);
        server.url = url.unwrap_or(server.url);
        if !pids.is_empty() {
            server.pids = pids.to_vec();
        }
        Ok(server)
    }

    fn of_folder(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join("bootstrap.json");
        let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let bootstrap: Bootstrap =
            serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
        let pid = fs::read_to_string(folder.join("server.pid")).unwrap_or_default();
        let pids = pid.trim().parse().into_iter().collect();
        let (key, secret) = (Some(bootstrap.public_key), Some(bootstrap.secret_key));
        Ok(Self { url: bootstrap.url, key, secret, pids })
    }

    /// Host and port as the URL has them.
    fn host(&self) -> anyhow::Result<&str> {
        let host = self.url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        let host = host.filter(|host| !host.is_empty() && !host.contains(['/', '?', '@']));
        host.with_context(|| format!("{} is not of the form http://HOST:PORT", self.url))
    }

    /// Where to connect to: the first address that takes a connection.
    fn address(&self) -> anyhow::Result<SocketAddr> {
        let host = self.host()?;
        let addresses = host.to_socket_addrs().or_else(|_| (host, 80).to_socket_addrs());
        for address in addresses.with_context(|| format!("resolving {host}"))? {
            if TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).is_ok() {
                return Ok(address);
            }
        }
        bail!("nothing answers at {}: start the server first, or name another with --url", self.url)
    }

    fn head(&self, args: &BenchArgs) -> Head {
        Head {
            host: self.host().unwrap_or_default().to_owned(),
            target: args.ack.target(),
            key: self.key.clone(),
            close: args.connection == ConnectionUse::Close,
        }
    }
}

fn replayed(file: &Path, batch: usize) -> anyhow::Result<Requests> {
    let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    Requests::replayed(&bytes, batch)
        .with_context(|| format!("{} is not a file of requests with their lengths", file.display()))
}

/// Ids must differ from those of every earlier run.
fn seed() -> anyhow::Result<u64> {
    getrandom::u64().context("asking the operating system for a seed")
}

/// Writes a report: as JSON into the file that was named, or as a table.
fn write(report: &(impl serde::Serialize + Display), json: Option<&Path>) -> anyhow::Result<()> {
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
