//! `playmeter bench packets`: a load test with StatsD lines or RTCP reports over UDP.
//!
//! There are no responses, so the report only contains what was sent. Compare it with the accounting of the server to see
//! what arrived. Each packet is a separate system call, as with many small senders.

mod payload;
mod report;

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hdrhistogram::Histogram;

use super::cpu::{self, CpuSnapshot};
use super::schedule::Schedule;
use super::{RATE_MAX, write_report};
use payload::{FLOWS_MAX, LINES_MAX, NAMES_MAX, PacketPayload};
use report::{PacketMeasurements, PacketReport, SentCounts};

/// A shorter sleep would end late.
const SLEEP_MIN: Duration = Duration::from_micros(20);
const SOCKETS_MAX: usize = 256;
/// Lags of more than a minute are recorded as a minute.
const LAG_NS_MAX: u64 = 60_000_000_000;

#[derive(clap::Args, Clone, Debug)]
pub(crate) struct PacketsArgs {
    /// Address to send the packets to
    #[arg(long, value_name = "ADDR")]
    to: SocketAddr,
    /// Content of the packets
    #[arg(long, value_enum, default_value_t = PacketKind::Statsd)]
    load: PacketKind,
    /// For statsd: counters per packet, one per line
    #[arg(long, default_value_t = 1)]
    lines: usize,
    /// For statsd: number of different names
    #[arg(long, default_value_t = 500)]
    names: usize,
    /// For rtcp: number of different flows, whose ends report in turn
    #[arg(long, default_value_t = 100_000)]
    flows: usize,
    /// Packets per second
    #[arg(long, default_value_t = 10_000.0)]
    rate: f64,
    /// Seconds to measure
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Seconds of load before the measurement
    #[arg(long, default_value_t = 2.0)]
    warmup: f64,
    /// Number of source ports, used in turn
    #[arg(long, default_value_t = 8)]
    sockets: usize,
    /// Process ids of the server, to measure their CPU time and memory and those of their children
    #[arg(long, value_delimiter = ',')]
    pid: Vec<u32>,
    /// Write the report as JSON to this file; `-` prints it instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum PacketKind {
    /// StatsD counters: `name:1|c`
    Statsd,
    /// RTCP compounds: a sender report with one block, and a name
    Rtcp,
}

/// Runs the load test and writes its report.
pub(crate) fn run(args: &PacketsArgs) -> anyhow::Result<()> {
    args.validate()?;
    // With the default of 50 us, every packet would be that much too late.
    rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))
        .context("setting the timer slack")?;
    let report = PacketSender::new(args)?.run(args)?;
    write_report(&report, args.json.as_deref())
}

struct PacketSender {
    sockets: Vec<UdpSocket>,
    payload: PacketPayload,
    sent: SentCounts,
    lag_ns: Histogram<u64>,
}

impl PacketSender {
    fn new(args: &PacketsArgs) -> anyhow::Result<Self> {
        let sockets = (0..args.sockets).map(|_| connected(args.to)).collect::<anyhow::Result<_>>()?;
        let payload = match args.load {
            PacketKind::Statsd => PacketPayload::statsd(args.names, args.lines),
            PacketKind::Rtcp => PacketPayload::rtcp(args.flows),
        };
        let lag_ns = Histogram::new_with_max(LAG_NS_MAX, 3).context("creating a histogram")?;
        Ok(Self { sockets, payload, sent: SentCounts::default(), lag_ns })
    }

    fn run(mut self, args: &PacketsArgs) -> anyhow::Result<PacketReport> {
        let (server, own) = (cpu::tree(&args.pid), [std::process::id()]);
        self.send(args.rate, args.warmup);
        let (warm, cpu_server, cpu_own) = (self.sent, CpuSnapshot::of(&server), CpuSnapshot::of(&own));
        let pressure = cpu::pressure();
        self.lag_ns.reset();
        let started = Instant::now();
        self.send(args.rate, args.seconds);
        let measurements = PacketMeasurements {
            length: started.elapsed(),
            sent: self.sent.since(warm),
            server: CpuSnapshot::of(&server).since(&cpu_server),
            generator: CpuSnapshot::of(&own).since(&cpu_own),
            pressure: cpu::pressure().zip(pressure).map(|(now, before)| now.saturating_sub(before)),
        };
        Ok(PacketReport::new(args, &server, self.sent, &measurements, &self.lag_ns))
    }

    /// Sends packets for this many seconds, each when it is due or as soon as possible afterwards.
    fn send(&mut self, rate: f64, seconds: f64) {
        let mut schedule = Schedule::new(rate, seconds);
        let started = Instant::now();
        while let Some(due_ns) = schedule.next_due_ns() {
            let now_ns = started.elapsed().as_nanos() as u64;
            match schedule.pop_due(now_ns) {
                Some(due_ns) => {
                    self.lag_ns.saturating_record(now_ns - due_ns);
                    self.send_next();
                }
                None => wait(Duration::from_nanos(due_ns - now_ns)),
            }
        }
    }

    fn send_next(&mut self) {
        let number = self.sent.packets + self.sent.failed;
        let socket = &self.sockets[number as usize % self.sockets.len()];
        let (packet, lines) = self.payload.packet(number);
        match socket.send(packet) {
            Ok(bytes) => self.sent.add(lines, bytes),
            // The port of an earlier packet was closed, or the send buffer is full: this packet was not sent.
            Err(_) => self.sent.failed += 1,
        }
    }
}

fn wait(time: Duration) {
    if time > SLEEP_MIN {
        std::thread::sleep(time);
    } else {
        std::hint::spin_loop();
    }
}

fn connected(to: SocketAddr) -> anyhow::Result<UdpSocket> {
    let any: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).context("opening a socket")?;
    socket.connect(to).with_context(|| format!("--to {to}"))?;
    Ok(socket)
}

impl PacketsArgs {
    fn validate(&self) -> anyhow::Result<()> {
        let numbers = [self.rate, self.seconds, self.warmup];
        let are_valid = numbers.iter().all(|number| number.is_finite() && *number >= 0.0);
        ensure!(are_valid, "--rate, --seconds and --warmup must be 0 or greater");
        ensure!(self.rate <= RATE_MAX, "--rate must be at most {RATE_MAX}");
        ensure!(self.rate * self.seconds >= 1.0, "no packet would be measured; raise --rate or --seconds");
        ensure!((1..=LINES_MAX).contains(&self.lines), "--lines must be between 1 and {LINES_MAX}");
        ensure!((1..=NAMES_MAX).contains(&self.names), "--names must be between 1 and {NAMES_MAX}");
        ensure!((1..=FLOWS_MAX).contains(&self.flows), "--flows must be between 1 and {FLOWS_MAX}");
        ensure!((1..=SOCKETS_MAX).contains(&self.sockets), "--sockets must be between 1 and {SOCKETS_MAX}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(to: SocketAddr, load: PacketKind, rate: f64) -> PacketsArgs {
        PacketsArgs {
            to,
            load,
            lines: 3,
            names: 10,
            flows: 10,
            rate,
            seconds: 0.1,
            warmup: 0.05,
            sockets: 2,
            pid: Vec::new(),
            json: None,
        }
    }

    #[track_caller]
    fn check(load: PacketKind, rate: f64, packets: u64, lines: u64) {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        server.set_nonblocking(true).expect("it can be non-blocking");
        let args = args(server.local_addr().expect("it is bound"), load, rate);
        let report = PacketSender::new(&args).and_then(|sender| sender.run(&args)).expect("the run ends");
        let mut received = 0;
        while server.recv(&mut [0; 2_048]).is_ok() {
            received += 1;
        }
        assert_eq!((report.sent.packets, report.sent.lines, report.sent.failed), (packets, lines, 0));
        assert_eq!(received, packets, "all packets that were counted arrive");
    }

    #[test]
    fn all_packets_of_the_schedule_are_sent_and_counted() {
        check(PacketKind::Statsd, 400.0, 60, 180);
        check(PacketKind::Rtcp, 200.0, 30, 0);
    }

    #[track_caller]
    fn check_error(change: impl FnOnce(&mut PacketsArgs), expected: &str) {
        let mut args = args(([127, 0, 0, 1], 9).into(), PacketKind::Statsd, 100.0);
        change(&mut args);
        assert_eq!(args.validate().expect_err("it is invalid").to_string(), expected);
    }

    #[test]
    fn invalid_arguments_are_named() {
        check_error(|args| args.rate = f64::NAN, "--rate, --seconds and --warmup must be 0 or greater");
        check_error(|args| args.rate = 1.0, "no packet would be measured; raise --rate or --seconds");
        check_error(|args| args.lines = 0, "--lines must be between 1 and 100");
        check_error(|args| args.flows = 0, "--flows must be between 1 and 1000000");
    }
}
