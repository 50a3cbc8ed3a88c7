//! `playmeter bench watch`: a load test with many WebSocket subscribers while updates are posted.
//!
//! Each subscriber extracts a number that only grows from its messages. It shows whether the subscriber received all
//! updates in order, received merged states, or fell behind, which fails the run. The most important numbers are the CPU
//! time of the server per delivery (an increase of the number at one subscriber) and its memory per subscriber.
//!
//! The protocol is DDP 1 for a Playmeter server. A script describes the protocol of any other WebSocket server.

mod frame;
mod report;
mod script;
mod sequence;
mod subscriber;
mod subscriber_pool;
mod updates;

use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use serde_json::Value;

use super::cpu::{self, CpuSnapshot};
use super::{BenchTarget, write_report};
use report::{ServerMemory, WatchReport, WatchSetup};
use script::Script;
use sequence::NumberField;
use subscriber::SubscriberPlan;
use subscriber_pool::{SubscriberPool, SubscriberTotals};
use updates::{UpdateSchedule, UpdateTarget};

use crate::open_files;

/// Limit of source addresses.
const ADDRESSES_MAX: u8 = 250;
/// Open files besides the connections of the subscribers.
const OTHER_FILES: u64 = 64;
/// Pause after all have subscribed, before the memory of the server is read.
const SETTLE_TIME: Duration = Duration::from_millis(1_500);
/// Delay of the first update.
const START_DELAY: Duration = Duration::from_millis(100);

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct WatchArgs {
    /// URL of the server [default: from --data, otherwise http://127.0.0.1:8080]
    #[arg(long)]
    url: Option<String>,
    /// Key to subscribe and to post with [default: the secret key from --data]
    #[arg(long)]
    key: Option<String>,
    /// Data folder of the server, to read its address, keys and process id from
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Process ids of the server, to measure their CPU time and memory and those of their children
    #[arg(long, value_delimiter = ',')]
    pid: Vec<u32>,
    /// Path of the WebSocket endpoint
    #[arg(long, default_value = "/websocket")]
    path: String,
    /// Number of subscribers
    #[arg(long, default_value_t = 1_000)]
    subscribers: usize,
    /// Number of source addresses, used in turn: 127.0.0.1, 127.0.0.2 and so on
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=ADDRESSES_MAX as i64))]
    addresses: u8,
    /// Name of the publication
    #[arg(long, default_value = "query")]
    publication: String,
    /// First parameter of the publication as JSON; `{i}` is replaced by the number of the subscriber
    #[arg(long, value_name = "JSON")]
    what: Option<String>,
    /// Options of the publication as JSON
    #[arg(long, value_name = "JSON")]
    options: Option<String>,
    /// For other servers: file with the messages to send after connecting, as a JSON array of {"say", "until"}
    #[arg(long, value_name = "FILE", conflicts_with_all = ["publication", "what", "options"])]
    script: Option<PathBuf>,
    /// Field of the messages with the growing number
    #[arg(long, default_value = "total")]
    field: String,
    /// Updates per second; 0 to post none
    #[arg(long, default_value_t = 4.0)]
    rate: f64,
    /// Path on the server to post updates to, or tcp://HOST:PORT to send lines
    #[arg(long, default_value = "/v1/events")]
    post: String,
    /// Body of an update; an `n` in braces is replaced by the number that the field will have
    #[arg(long, value_name = "JSON", default_value = r#"{"event":"update"}"#)]
    body: String,
    /// Seconds to measure
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Seconds of updates before the measurement
    #[arg(long, default_value_t = 2.0)]
    warmup: f64,
    /// Seconds to wait for all subscribers to connect, and to receive the last update
    #[arg(long, default_value_t = 30.0)]
    grace: f64,
    /// Post no updates and stay subscribed until standard input ends
    #[arg(long)]
    hold: bool,
    /// Write the report as JSON to this file; `-` prints it instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the load test and writes its report. Fails if a subscriber was lost or fell behind.
pub(crate) fn run(args: &WatchArgs) -> anyhow::Result<()> {
    // With the default of 50 us, every update would be that much too late.
    rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))
        .context("setting the timer slack")?;
    let report = WatchBench::prepare(args)?.run()?;
    write_report(&report, args.json.as_deref())?;
    let errors = report.errors();
    ensure!(errors.is_empty(), "{}", errors.join("; "));
    Ok(())
}

/// A load test that is ready to run.
#[derive(Debug)]
struct WatchBench {
    setup: WatchSetup,
    plan: SubscriberPlan,
    updates: UpdateTarget,
    /// The process ids of the server. Children that start later are found again.
    server_pids: Vec<u32>,
    grace: Duration,
    hold: bool,
}

impl WatchBench {
    fn prepare(args: &WatchArgs) -> anyhow::Result<WatchBench> {
        args.validate()?;
        let target = BenchTarget::resolve(args.url.clone(), args.data.as_deref(), &args.pid)?;
        let (address, host) = (target.address()?, target.host()?.to_owned());
        ensure!(
            args.addresses == 1 || address.is_ipv4() && address.ip().is_loopback(),
            "--addresses requires a server on 127.0.0.1"
        );
        open_files::raise_limit(args.subscribers as u64 + OTHER_FILES)?;
        let key = args.key.clone().or(target.secret_key);
        Ok(WatchBench {
            setup: args.setup(&target.url),
            updates: args.updates(address, &host, key.as_deref())?,
            plan: SubscriberPlan {
                address,
                host,
                path: args.path.clone(),
                key,
                subscribers: args.subscribers,
                addresses: args.addresses,
                script: args.script()?,
                field: NumberField::new(&args.field),
            },
            server_pids: target.pids,
            grace: Duration::from_secs_f64(args.grace),
            hold: args.hold,
        })
    }

    fn run(self) -> anyhow::Result<WatchReport> {
        let mut pool = SubscriberPool::new(&self.plan)?;
        let before = cpu::memory_bytes(&cpu::tree(&self.server_pids));
        pool.connect(self.grace)?;
        poll_until(&mut pool, Instant::now() + SETTLE_TIME)?;
        let pids = cpu::tree(&self.server_pids);
        let subscribed = cpu::memory_bytes(&pids);
        eprintln!("{} subscribers are watching", self.plan.subscribers);
        self.post_updates(&mut pool, self.setup.warmup)?;
        let baseline = WatchBaseline::now(&pids, &pool);
        let updates = if self.hold {
            poll_until_input_ends(&mut pool)?
        } else {
            self.post_updates(&mut pool, self.setup.seconds)?
        };
        let memory = ServerMemory { before, subscribed, at_end: cpu::memory_bytes(&pids) };
        Ok(WatchReport::new(self.setup.clone(), &pids, &baseline, &pool, updates, memory))
    }

    /// Posts updates for this many seconds, and waits until all subscribers have received the last one. Returns the number
    /// of updates.
    fn post_updates(&self, pool: &mut SubscriberPool<'_>, seconds: f64) -> anyhow::Result<u64> {
        let count = (self.setup.rate * seconds).round() as u64;
        let start = Instant::now() + START_DELAY;
        if self.hold || count == 0 {
            poll_until(pool, start + Duration::from_secs_f64(if self.hold { 0.0 } else { seconds }))?;
            return Ok(0);
        }
        let base = pool.start_counting();
        let schedule = UpdateSchedule { start, first: base + 1, count, rate: self.setup.rate };
        pool.set_schedule(Some(schedule));
        pool.latency_ns.reset();
        let posting = self.updates.start(schedule)?;
        while !posting.is_finished() {
            pool.poll()?;
        }
        posting.join().map_err(|_| anyhow!("the thread that posts updates panicked"))??;
        let until = Instant::now() + self.grace;
        while !pool.has_reached(base + count) && Instant::now() < until {
            pool.poll()?;
        }
        pool.set_schedule(None);
        Ok(count)
    }
}

/// The counters at the start of the measurement.
struct WatchBaseline {
    at: Instant,
    server: CpuSnapshot,
    generator: CpuSnapshot,
    pressure: Option<Duration>,
    totals: SubscriberTotals,
}

impl WatchBaseline {
    fn now(pids: &[u32], pool: &SubscriberPool<'_>) -> WatchBaseline {
        WatchBaseline {
            server: CpuSnapshot::of(pids),
            generator: CpuSnapshot::of(&[std::process::id()]),
            pressure: cpu::pressure(),
            totals: pool.totals.clone(),
            at: Instant::now(),
        }
    }
}

/// Polls the subscribers until this time.
fn poll_until(pool: &mut SubscriberPool<'_>, until: Instant) -> anyhow::Result<()> {
    while Instant::now() < until {
        pool.poll()?;
    }
    Ok(())
}

/// Polls the subscribers until standard input ends. Posts no updates.
fn poll_until_input_ends(pool: &mut SubscriberPool<'_>) -> anyhow::Result<u64> {
    pool.start_counting();
    let has_ended = Arc::new(AtomicBool::new(false));
    let set_ended = Arc::clone(&has_ended);
    let thread = std::thread::Builder::new().name("input".into());
    thread
        .spawn(move || {
            // An error counts as the end of the input.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            set_ended.store(true, Ordering::Release);
        })
        .context("starting a thread")?;
    while !has_ended.load(Ordering::Acquire) {
        pool.poll()?;
    }
    Ok(0)
}

impl WatchArgs {
    fn validate(&self) -> anyhow::Result<()> {
        let numbers = [self.rate, self.seconds, self.warmup, self.grace];
        let are_valid = numbers.iter().all(|number| number.is_finite() && *number >= 0.0);
        ensure!(are_valid, "--rate, --seconds, --warmup and --grace must be 0 or greater");
        ensure!(self.rate <= 100_000.0, "--rate must be at most 100,000");
        ensure!(self.grace <= 3_600.0, "--grace must be at most 3,600");
        ensure!((1..=100_000).contains(&self.subscribers), "--subscribers must be between 1 and 100,000");
        ensure!(
            self.path.starts_with('/') && !self.path.contains([' ', '\r', '\n']),
            "--path must be a path that starts with /"
        );
        Ok(())
    }

    fn script(&self) -> anyhow::Result<Script> {
        let json = |name: &str, text: &Option<String>| -> anyhow::Result<Option<Value>> {
            let read = |text: &String| {
                serde_json::from_str(text).with_context(|| format!("{name} is not valid JSON"))
            };
            text.as_ref().map(read).transpose()
        };
        match &self.script {
            Some(file) => Script::read(file),
            None => Ok(Script::ddp(
                &self.publication,
                json("--what", &self.what)?,
                json("--options", &self.options)?,
            )),
        }
    }

    fn updates(&self, address: SocketAddr, host: &str, key: Option<&str>) -> anyhow::Result<UpdateTarget> {
        if let Some(other) = self.post.strip_prefix("tcp://") {
            let address =
                other.parse().with_context(|| format!("--post: {other} is not an IP address with a port"))?;
            return Ok(UpdateTarget { address, head: None, body: self.body.clone() });
        }
        ensure!(self.post.starts_with('/'), "--post must be a path, or tcp://HOST:PORT");
        Ok(UpdateTarget::to_path(address, host, &self.post, key, self.body.clone()))
    }

    fn setup(&self, url: &str) -> WatchSetup {
        WatchSetup {
            url: url.to_owned(),
            path: self.path.clone(),
            subscribers: self.subscribers,
            addresses: self.addresses,
            rate: if self.hold { 0.0 } else { self.rate },
            seconds: self.seconds,
            warmup: self.warmup,
        }
    }
}

#[cfg(test)]
mod tests;
