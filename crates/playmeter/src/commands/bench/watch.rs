//! `playmeter bench watch`: many WebSocket subscribers, updates on a timetable, and what both cost the server.
//!
//! Every subscriber reads one number that only grows out of the messages it gets. So each of them is known to have got
//! everything in order, or states merged, or to be behind; a run in which one is behind fails. The first figures are the
//! server's CPU time per delivery (a number that grew, at one subscriber) and its memory per subscriber.
//!
//! Speaks DDP 1 with this program's server, and with any other WebSocket server what a script says.

mod crowd;
mod frame;
mod publisher;
mod report;
mod script;
mod state;
mod subscriber;

use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use serde_json::Value;

use super::cpu::{self, Snapshot};
use super::{Server, write};
use crowd::{Crowd, Totals};
use publisher::{Post, Timetable};
use report::{Memory, Report, Setup};
use script::Script;
use state::Field;
use subscriber::Plan;

use crate::files;

/// Loopback addresses that subscribers may come from.
const ADDRESSES_MAX: u8 = 250;
/// Files of the process besides its subscribers.
const OTHER_FILES: u64 = 64;
/// After everybody watches, the server comes to rest for so long before its memory is read.
const REST: Duration = Duration::from_millis(1_500);
/// The first update is due so long after it was decided to post.
const AHEAD: Duration = Duration::from_millis(100);

/// Holds many subscribers on a running server, posts updates and reports what they cost.
#[derive(clap::Args, Clone, Debug)]
pub struct WatchArgs {
    /// The server [default: the one of --data, else http://127.0.0.1:8080].
    #[arg(long)]
    url: Option<String>,
    /// The key to watch and to post with [default: the secret key of --data].
    #[arg(long)]
    key: Option<String>,
    /// The server's data folder: tells its address, its key and its process.
    #[arg(long)]
    data: Option<PathBuf>,
    /// The server's processes, whose CPU time and memory are measured together with their children's.
    #[arg(long, value_delimiter = ',')]
    pid: Vec<u32>,
    /// Where the WebSocket is.
    #[arg(long, default_value = "/websocket")]
    path: String,
    /// How many watch.
    #[arg(long, default_value_t = 1_000)]
    subscribers: usize,
    /// Loopback addresses that they come from, in turn: 127.0.0.1 and on.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=ADDRESSES_MAX as i64))]
    addresses: u8,
    /// What is subscribed to.
    #[arg(long, default_value = "query")]
    publication: String,
    /// The publication's first parameter, as JSON; `{i}` in it is the subscriber's number.
    #[arg(long, value_name = "JSON")]
    what: Option<String>,
    /// The publication's options, as JSON.
    #[arg(long, value_name = "JSON")]
    options: Option<String>,
    /// For other servers than this one: what to say instead, as a JSON array of {"say", "until"}.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["publication", "what", "options"])]
    script: Option<PathBuf>,
    /// The field whose number grows.
    #[arg(long, default_value = "total")]
    field: String,
    /// Updates a second; 0: nothing is posted, and whoever watches is held.
    #[arg(long, default_value_t = 4.0)]
    rate: f64,
    /// Where updates are posted on the same server, or tcp://HOST:PORT for lines.
    #[arg(long, default_value = "/v1/events")]
    post: String,
    /// What is posted; `{n}` in it is the number that the field shall have.
    #[arg(long, value_name = "JSON", default_value = r#"{"event":"update"}"#)]
    body: String,
    /// Seconds to measure.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Seconds of updates before measuring.
    #[arg(long, default_value_t = 2.0)]
    warmup: f64,
    /// Seconds that all have to connect, and to get the newest state after the last update.
    #[arg(long, default_value_t = 30.0)]
    grace: f64,
    /// Posts nothing and holds the subscribers until standard input ends.
    #[arg(long)]
    hold: bool,
    /// Writes the report as JSON; `-` prints it instead of the table.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Holds the subscribers, posts the updates and reports. Fails if one of them was lost or is behind.
pub fn run(args: &WatchArgs) -> anyhow::Result<()> {
    // The default of 50 us would make every update that much too late.
    rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))
        .context("setting the timer slack")?;
    let report = Watch::prepare(args)?.run()?;
    write(&report, args.json.as_deref())?;
    let wrong = report.wrong();
    ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    Ok(())
}

/// What the arguments mean.
#[derive(Debug)]
struct Watch {
    setup: Setup,
    plan: Plan,
    post: Post,
    /// The server's processes; they may have more children by and by.
    roots: Vec<u32>,
    grace: Duration,
    hold: bool,
}

impl Watch {
    fn prepare(args: &WatchArgs) -> anyhow::Result<Watch> {
        args.check()?;
        let server = Server::named(args.url.clone(), args.data.as_deref(), &args.pid)?;
        let (address, host) = (server.address()?, server.host()?.to_owned());
        ensure!(
            args.addresses == 1 || address.is_ipv4() && address.ip().is_loopback(),
            "--addresses needs a server on 127.0.0.1"
        );
        files::allow(args.subscribers as u64 + OTHER_FILES)?;
        let key = args.key.clone().or(server.secret);
        Ok(Watch {
            setup: args.setup(&server.url),
            post: args.post(address, &host, key.as_deref())?,
            plan: Plan {
                address,
                host,
                path: args.path.clone(),
                key,
                subscribers: args.subscribers,
                addresses: args.addresses,
                script: args.script()?,
                field: Field::new(&args.field),
            },
            roots: server.pids,
            grace: Duration::from_secs_f64(args.grace),
            hold: args.hold,
        })
    }

    fn run(self) -> anyhow::Result<Report> {
        let mut crowd = Crowd::new(&self.plan)?;
        let alone = cpu::memory_bytes(&cpu::tree(&self.roots));
        crowd.open(self.grace)?;
        look(&mut crowd, Instant::now() + REST)?;
        let pids = cpu::tree(&self.roots);
        let watched = cpu::memory_bytes(&pids);
        eprintln!("{} subscribers are watching", self.plan.subscribers);
        self.update(&mut crowd, self.setup.warmup)?;
        let mark = Mark::now(&pids, &crowd);
        let updates =
            if self.hold { hold(&mut crowd)? } else { self.update(&mut crowd, self.setup.seconds)? };
        let memory = Memory { alone, watched, at_the_end: cpu::memory_bytes(&pids) };
        Ok(Report::new(self.setup.clone(), &pids, &mark, &crowd, updates, memory))
    }

    /// Posts for so many seconds, and waits until everybody has the newest state. Returns how many were posted.
    fn update(&self, crowd: &mut Crowd<'_>, seconds: f64) -> anyhow::Result<u64> {
        let count = (self.setup.rate * seconds).round() as u64;
        let start = Instant::now() + AHEAD;
        if self.hold || count == 0 {
            look(crowd, start + Duration::from_secs_f64(if self.hold { 0.0 } else { seconds }))?;
            return Ok(0);
        }
        let base = crowd.begin();
        let timetable = Timetable { start, first: base + 1, count, rate: self.setup.rate };
        crowd.measure_by(Some(timetable));
        crowd.latency_ns.reset();
        let posting = self.post.begin(timetable)?;
        while !posting.is_finished() {
            crowd.turn()?;
        }
        posting.join().map_err(|_| anyhow!("the thread that posts updates failed"))??;
        let until = Instant::now() + self.grace;
        while !crowd.is_at(base + count) && Instant::now() < until {
            crowd.turn()?;
        }
        crowd.measure_by(None);
        Ok(count)
    }
}

/// What had been counted when measuring began.
struct Mark {
    at: Instant,
    server: Snapshot,
    generator: Snapshot,
    pressure: Option<Duration>,
    totals: Totals,
}

impl Mark {
    fn now(pids: &[u32], crowd: &Crowd<'_>) -> Mark {
        Mark {
            server: Snapshot::of(pids),
            generator: Snapshot::of(&[std::process::id()]),
            pressure: cpu::pressure(),
            totals: crowd.totals.clone(),
            at: Instant::now(),
        }
    }
}

/// Reads what comes until then.
fn look(crowd: &mut Crowd<'_>, until: Instant) -> anyhow::Result<()> {
    while Instant::now() < until {
        crowd.turn()?;
    }
    Ok(())
}

/// Reads what comes until standard input ends. Nothing is posted here.
fn hold(crowd: &mut Crowd<'_>) -> anyhow::Result<u64> {
    crowd.begin();
    let ended = Arc::new(AtomicBool::new(false));
    let tells = Arc::clone(&ended);
    let waiting = std::thread::Builder::new().name("input".into());
    waiting
        .spawn(move || {
            // An input that cannot be read has ended, too.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            tells.store(true, Ordering::Release);
        })
        .context("starting a thread")?;
    while !ended.load(Ordering::Acquire) {
        crowd.turn()?;
    }
    Ok(0)
}

impl WatchArgs {
    fn check(&self) -> anyhow::Result<()> {
        let numbers = [self.rate, self.seconds, self.warmup, self.grace];
        let usable = numbers.iter().all(|number| number.is_finite() && *number >= 0.0);
        ensure!(usable, "--rate, --seconds, --warmup and --grace are numbers from 0 on");
        ensure!(self.rate <= 100_000.0, "--rate is at most 100,000");
        ensure!(self.grace <= 3_600.0, "--grace is at most an hour");
        ensure!((1..=100_000).contains(&self.subscribers), "--subscribers is from 1 to 100,000");
        ensure!(self.path.starts_with('/') && !self.path.contains([' ', '\r', '\n']), "--path is a path");
        Ok(())
    }

    fn script(&self) -> anyhow::Result<Script> {
        let value = |name: &str, text: &Option<String>| -> anyhow::Result<Option<Value>> {
            let read =
                |text: &String| serde_json::from_str(text).with_context(|| format!("{name} is no JSON"));
            text.as_ref().map(read).transpose()
        };
        match &self.script {
            Some(file) => Script::read(file),
            None => Ok(Script::ddp(
                &self.publication,
                value("--what", &self.what)?,
                value("--options", &self.options)?,
            )),
        }
    }

    fn post(&self, address: SocketAddr, host: &str, key: Option<&str>) -> anyhow::Result<Post> {
        if let Some(other) = self.post.strip_prefix("tcp://") {
            let address =
                other.parse().with_context(|| format!("--post: {other} is no address with a port"))?;
            return Ok(Post { address, head: None, body: self.body.clone() });
        }
        ensure!(self.post.starts_with('/'), "--post is a path, or tcp://HOST:PORT");
        Ok(Post::to_path(address, host, &self.post, key, self.body.clone()))
    }

    fn setup(&self, url: &str) -> Setup {
        Setup {
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
