//! `playmeter agent`: reads the host that it runs on, and what else it is asked to, and sends it to a server.
//!
//! One thread reads, another sends; between them is an outbox, so that a server that is away costs no reading of the
//! last hour. What is read is told by gauges and rates alone (see `send.rs` for why).

mod host;
mod outbox;
mod rate;
mod reading;
mod send;
mod sources;

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Args;
use pipeline::time::now_ms;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tracing::warn;

use super::serve::log_lines;
use crate::client::{Client, Failure, ServerArgs};
use host::Host;
use outbox::Outbox;
use reading::{HOST_BYTES_MAX, Reading};
use sources::{Source, SourceArgs};

/// Where Linux tells of itself.
const PROC: &str = "/proc";
const SYS: &str = "/sys";
/// Rates need two looks; the first reading comes after so long.
const FIRST: Duration = Duration::from_secs(1);
/// What waits at the end is sent within this time, or let go.
const LAST: Duration = Duration::from_secs(5);

/// `playmeter agent ...`
#[derive(Args)]
pub struct AgentArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Seconds between two readings: 1 to 60, so that every minute has one.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=60))]
    interval: u32,
    /// The host's name; that of the system if left out.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Minutes of readings that are kept while the server is away: 1 to 1440.
    #[arg(long, value_name = "MINUTES", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=1440))]
    keep: u32,
    #[command(flatten)]
    sources: SourceArgs,
    /// Send one reading and end.
    #[arg(long)]
    once: bool,
    /// Print readings instead of sending them.
    #[arg(long)]
    print: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Reads and sends until a signal ends it, or the server refuses what is sent.
pub fn run(args: AgentArgs) -> anyhow::Result<()> {
    let name = host_name(args.host.as_deref())?;
    let client = if args.print { None } else { Some(args.server.client()?) };
    let reader = Reader { host: Host::open(PROC.into(), SYS.into())?, sources: args.sources.open()? };
    log_lines();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("starting a runtime")?;
    let interval = Duration::from_secs(u64::from(args.interval));
    let done = runtime.block_on(async {
        let mut end = End::new()?;
        match client {
            None => print(reader, &name, interval, args.once, args.json, &mut end).await,
            Some(client) if args.once => once(reader, &name, &client).await,
            Some(client) => {
                greet(&name, &client, args.interval, &reader, args.json);
                let readings_max = args.keep * 60 / args.interval;
                send(reader, &name, interval, client, Outbox::new(readings_max as usize), &mut end).await
            }
        }
    });
    // A source that does not answer holds nobody up.
    runtime.shutdown_background();
    done
}

fn host_name(given: Option<&str>) -> anyhow::Result<String> {
    let uname = rustix::system::uname();
    let name = given.map_or_else(|| uname.nodename().to_string_lossy(), Into::into);
    let fits = !name.trim().is_empty() && name.len() <= HOST_BYTES_MAX && !name.contains(char::is_control);
    ensure!(fits, "--host: it has 1 to {HOST_BYTES_MAX} bytes without control characters");
    Ok(name.into_owned())
}

fn greet(host: &str, client: &Client, interval_s: u32, reader: &Reader, json: bool) {
    let sources: Vec<&str> = ["host"].into_iter().chain(reader.sources.iter().map(Source::name)).collect();
    let line = match json {
        true => json!({ "host": host, "to": client.url(), "interval_s": interval_s, "reads": sources })
            .to_string(),
        false => format!(
            "Playmeter agent: {host} to {} every {interval_s} s, reads {}",
            client.url(),
            sources.join(", ")
        ),
    };
    // A closed pipe is no reason to stop.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Everything that is read.
struct Reader {
    host: Host,
    sources: Vec<Source>,
}

impl Reader {
    async fn read(&mut self) -> Reading {
        let (mut reading, at) = (Reading::new(now_ms()), Instant::now());
        self.host.read(&mut reading, at);
        for source in &mut self.sources {
            source.read(&mut reading, Instant::now()).await;
        }
        reading
    }
}

/// Interrupt and terminate.
struct End {
    interrupt: Signal,
    terminate: Signal,
}

impl End {
    fn new() -> anyhow::Result<End> {
        let signals = || {
            Ok::<_, std::io::Error>(End {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
            })
        };
        signals().context("listening for signals")
    }

    async fn came(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// The first reading after a second, then one every interval.
fn timetable(interval: Duration) -> tokio::time::Interval {
    let mut timetable = tokio::time::interval_at(tokio::time::Instant::now() + FIRST, interval);
    // After the machine has slept, what was missed is not made up for.
    timetable.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    timetable
}

async fn print(
    mut reader: Reader,
    host: &str,
    interval: Duration,
    once: bool,
    json: bool,
    end: &mut End,
) -> anyhow::Result<()> {
    reader.read().await;
    let mut timetable = timetable(interval);
    loop {
        tokio::select! {
            _ = timetable.tick() => {}
            () = end.came() => return Ok(()),
        }
        let reading = reader.read().await;
        let text = if json { format!("{}\n", reading.json(host)) } else { reading.lines(host) };
        let mut out = std::io::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() || once {
            return Ok(());
        }
    }
}

async fn once(mut reader: Reader, host: &str, client: &Client) -> anyhow::Result<()> {
    reader.read().await;
    tokio::time::sleep(FIRST).await;
    let reading = reader.read().await;
    Ok(send::send(client, &reading.lines(host))?)
}

async fn send(
    mut reader: Reader,
    host: &str,
    interval: Duration,
    client: Client,
    outbox: Outbox,
    end: &mut End,
) -> anyhow::Result<()> {
    let outbox = Arc::new(outbox);
    let mut sender = sender(client, Arc::clone(&outbox))?;
    reader.read().await;
    let mut timetable = timetable(interval);
    loop {
        tokio::select! {
            _ = timetable.tick() => {}
            () = end.came() => break,
            failed = &mut sender => return ended(failed),
        }
        let mut reading = reader.read().await;
        reading.add("agent.readings_lost", outbox.lost() as f64);
        outbox.put(reading.lines(host));
    }
    outbox.close();
    tokio::select! {
        done = &mut sender => match done {
            // It was told of when it began; that it is still so is no failure of ours.
            Ok(Err(failure)) if failure.is_temporary() => {}
            done => ended(done)?,
        },
        () = end.came() => {}
        () = tokio::time::sleep(LAST) => {}
    }
    if outbox.waiting() > 0 {
        warn!(readings = outbox.waiting(), "ends with readings that were not sent");
    }
    Ok(())
}

/// The thread that sends; its end comes as a message.
fn sender(client: Client, outbox: Arc<Outbox>) -> anyhow::Result<oneshot::Receiver<Result<(), Failure>>> {
    let (told, ended) = oneshot::channel();
    let work = move || drop(told.send(send::run(&client, &outbox)));
    std::thread::Builder::new().name("send".into()).spawn(work).context("starting a thread")?;
    Ok(ended)
}

fn ended(sender: Result<Result<(), Failure>, oneshot::error::RecvError>) -> anyhow::Result<()> {
    match sender {
        Ok(done) => Ok(done?),
        Err(_) => bail!("the thread that sends has ended"),
    }
}
