//! `playmeter agent`: reads the metrics of this host, and optionally of databases on it, and sends them to a server.
//!
//! One thread reads and another sends. The outbox between them keeps the readings of the last hour while the server is
//! unreachable. Readings contain only gauges and rates (`send.rs` says why).

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

use super::serve::init_logging;
use crate::client::{Client, ClientError, ServerArgs};
use host::Host;
use outbox::Outbox;
use reading::{HOST_BYTES_MAX, Reading};
use sources::{AgentSource, SourceArgs};

const PROC: &str = "/proc";
const SYS: &str = "/sys";
/// Delay of the first reading that is sent: rates need two readings.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// Time to send the waiting readings at shutdown; then they are dropped.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Args)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Seconds between two readings: 1 to 60
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=60))]
    interval: u32,
    /// Name of this host [default: the system's host name]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Minutes of readings to keep while the server is unreachable: 1 to 1440
    #[arg(long, value_name = "MINUTES", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=1440))]
    keep: u32,
    #[command(flatten)]
    sources: SourceArgs,
    /// Send one reading and exit
    #[arg(long)]
    once: bool,
    /// Print readings instead of sending them
    #[arg(long)]
    print: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Reads and sends until a signal arrives, or the server rejects a reading for good.
pub(crate) fn run(args: AgentArgs) -> anyhow::Result<()> {
    let name = host_name(args.host.as_deref())?;
    let client = if args.print { None } else { Some(args.server.client()?) };
    let reader = MetricsReader { host: Host::open(PROC.into(), SYS.into())?, sources: args.sources.open()? };
    init_logging();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("starting a runtime")?;
    let interval = Duration::from_secs(u64::from(args.interval));
    let result = runtime.block_on(async {
        let mut signals = ShutdownSignals::new()?;
        match client {
            None => print(reader, &name, interval, args.once, args.json, &mut signals).await,
            Some(client) if args.once => once(reader, &name, &client).await,
            Some(client) => {
                print_start(&name, &client, args.interval, &reader, args.json);
                let readings_max = args.keep * 60 / args.interval;
                send(reader, &name, interval, client, Outbox::new(readings_max as usize), &mut signals).await
            }
        }
    });
    // Does not wait for a source that does not respond.
    runtime.shutdown_background();
    result
}

fn host_name(arg: Option<&str>) -> anyhow::Result<String> {
    let uname = rustix::system::uname();
    let name = arg.map_or_else(|| uname.nodename().to_string_lossy(), Into::into);
    let is_valid =
        !name.trim().is_empty() && name.len() <= HOST_BYTES_MAX && !name.contains(char::is_control);
    ensure!(is_valid, "--host: must have 1 to {HOST_BYTES_MAX} bytes and no control characters");
    Ok(name.into_owned())
}

fn print_start(host: &str, client: &Client, interval_s: u32, reader: &MetricsReader, json: bool) {
    let sources: Vec<&str> =
        ["host"].into_iter().chain(reader.sources.iter().map(AgentSource::name)).collect();
    let line = match json {
        true => json!({ "host": host, "to": client.url(), "interval_s": interval_s, "reads": sources })
            .to_string(),
        false => format!(
            "Playmeter agent: {host} to {} every {interval_s} s, reads {}",
            client.url(),
            sources.join(", ")
        ),
    };
    // A closed standard output must not stop the agent.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// The host and the sources to read.
struct MetricsReader {
    host: Host,
    sources: Vec<AgentSource>,
}

impl MetricsReader {
    async fn read(&mut self) -> Reading {
        let (mut reading, at) = (Reading::new(now_ms()), Instant::now());
        self.host.read(&mut reading, at);
        for source in &mut self.sources {
            source.read(&mut reading, Instant::now()).await;
        }
        reading
    }
}

/// SIGINT and SIGTERM.
struct ShutdownSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl ShutdownSignals {
    fn new() -> anyhow::Result<ShutdownSignals> {
        let signals = || {
            Ok::<_, std::io::Error>(ShutdownSignals {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
            })
        };
        signals().context("listening for signals")
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Ticks once after a second, then once per interval.
fn ticker(interval: Duration) -> tokio::time::Interval {
    let mut ticker = tokio::time::interval_at(tokio::time::Instant::now() + FIRST_DELAY, interval);
    // Ticks that were missed while the machine was suspended are skipped.
    ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticker
}

async fn print(
    mut reader: MetricsReader,
    host: &str,
    interval: Duration,
    once: bool,
    json: bool,
    signals: &mut ShutdownSignals,
) -> anyhow::Result<()> {
    reader.read().await;
    let mut ticker = ticker(interval);
    loop {
        tokio::select! {
            _ = ticker.tick() => {}
            () = signals.wait() => return Ok(()),
        }
        let reading = reader.read().await;
        let text = if json { format!("{}\n", reading.json(host)) } else { reading.lines(host) };
        let mut out = std::io::stdout().lock();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() || once {
            return Ok(());
        }
    }
}

async fn once(mut reader: MetricsReader, host: &str, client: &Client) -> anyhow::Result<()> {
    reader.read().await;
    tokio::time::sleep(FIRST_DELAY).await;
    let reading = reader.read().await;
    Ok(send::send(client, &reading.lines(host))?)
}

async fn send(
    mut reader: MetricsReader,
    host: &str,
    interval: Duration,
    client: Client,
    outbox: Outbox,
    signals: &mut ShutdownSignals,
) -> anyhow::Result<()> {
    let outbox = Arc::new(outbox);
    let mut sender = spawn_sender(client, Arc::clone(&outbox))?;
    reader.read().await;
    let mut ticker = ticker(interval);
    loop {
        tokio::select! {
            _ = ticker.tick() => {}
            () = signals.wait() => break,
            result = &mut sender => return sender_result(result),
        }
        let mut reading = reader.read().await;
        reading.add("agent.readings_lost", outbox.lost() as f64);
        outbox.put(reading.lines(host));
    }
    outbox.close();
    tokio::select! {
        result = &mut sender => match result {
            // The sender logged it when the server became unreachable. It does not make the shutdown fail.
            Ok(Err(error)) if error.is_temporary() => {}
            result => sender_result(result)?,
        },
        () = signals.wait() => {}
        () = tokio::time::sleep(FLUSH_TIMEOUT) => {}
    }
    if outbox.waiting() > 0 {
        warn!(readings = outbox.waiting(), "stopping with unsent readings");
    }
    Ok(())
}

/// Starts the thread that sends. The channel gets its result when it ends.
fn spawn_sender(
    client: Client,
    outbox: Arc<Outbox>,
) -> anyhow::Result<oneshot::Receiver<Result<(), ClientError>>> {
    let (result_sender, result) = oneshot::channel();
    let run = move || drop(result_sender.send(send::run(&client, &outbox)));
    std::thread::Builder::new().name("send".into()).spawn(run).context("starting a thread")?;
    Ok(result)
}

fn sender_result(result: Result<Result<(), ClientError>, oneshot::error::RecvError>) -> anyhow::Result<()> {
    match result {
        Ok(result) => Ok(result?),
        Err(_) => bail!("the sending thread stopped unexpectedly"),
    }
}
