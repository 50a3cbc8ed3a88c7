//! `playmeter bench packets`: StatsD lines or RTCP reports over UDP on a timetable, and what they cost the server.
//!
//! Nothing is answered, so this side knows only what it sent: what arrived is to be read off the server's own account.
//! Each packet is a call of the operating system of its own, as it is with many small senders.

mod content;
mod report;

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use hdrhistogram::Histogram;

use super::cpu::{self, Snapshot};
use super::schedule::Schedule;
use super::{RATE_MAX, write};
use content::{Content, FLOWS_MAX, LINES_MAX, NAMES_MAX};
use report::{Report, Sent, Window};

/// A sleep that would be shorter than this comes out too long.
const SLEEP_MIN: Duration = Duration::from_micros(20);
const SOCKETS_MAX: usize = 256;
/// A minute late is as late as it gets.
const LAG_NS_MAX: u64 = 60_000_000_000;

/// Sends packets to a running server and reports what they cost it.
#[derive(clap::Args, Clone, Debug)]
pub struct PacketsArgs {
    /// Where the packets go.
    #[arg(long, value_name = "ADDR")]
    to: SocketAddr,
    /// What is in them.
    #[arg(long, value_enum, default_value_t = Load::Statsd)]
    load: Load,
    /// For statsd: counters in a packet, a line each.
    #[arg(long, default_value_t = 1)]
    lines: usize,
    /// For statsd: different names.
    #[arg(long, default_value_t = 500)]
    names: usize,
    /// For rtcp: different flows; both ends of each report in turn.
    #[arg(long, default_value_t = 100_000)]
    flows: usize,
    /// Packets a second.
    #[arg(long, default_value_t = 10_000.0)]
    rate: f64,
    /// Seconds to measure.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Seconds of packets before measuring.
    #[arg(long, default_value_t = 2.0)]
    warmup: f64,
    /// Ports that they come from, in turn.
    #[arg(long, default_value_t = 8)]
    sockets: usize,
    /// The server's processes, whose CPU time and memory are measured together with their children's.
    #[arg(long, value_delimiter = ',')]
    pid: Vec<u32>,
    /// Writes the report as JSON; `-` prints it instead of the table.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Load {
    /// `name:1|c`.
    Statsd,
    /// Compounds of a sender report with one block, and a name.
    Rtcp,
}

/// Sends what was asked for and reports it.
pub fn run(args: &PacketsArgs) -> anyhow::Result<()> {
    args.check()?;
    // The default of 50 us would make every packet that much too late.
    rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))
        .context("setting the timer slack")?;
    let report = Sender::new(args)?.run(args)?;
    write(&report, args.json.as_deref())
}

struct Sender {
    sockets: Vec<UdpSocket>,
    content: Content,
    sent: Sent,
    lag_ns: Histogram<u64>,
}

impl Sender {
    fn new(args: &PacketsArgs) -> anyhow::Result<Self> {
        let sockets = (0..args.sockets).map(|_| connected(args.to)).collect::<anyhow::Result<_>>()?;
        let content = match args.load {
            Load::Statsd => Content::statsd(args.names, args.lines),
            Load::Rtcp => Content::rtcp(args.flows),
        };
        let lag_ns = Histogram::new_with_max(LAG_NS_MAX, 3).context("making a histogram")?;
        Ok(Self { sockets, content, sent: Sent::default(), lag_ns })
    }

    fn run(mut self, args: &PacketsArgs) -> anyhow::Result<Report> {
        let (server, own) = (cpu::tree(&args.pid), [std::process::id()]);
        self.send(args.rate, args.warmup);
        let (warm, cpu_server, cpu_own) = (self.sent, Snapshot::of(&server), Snapshot::of(&own));
        let pressure = cpu::pressure();
        self.lag_ns.reset();
        let started = Instant::now();
        self.send(args.rate, args.seconds);
        let window = Window {
            length: started.elapsed(),
            sent: self.sent.since(warm),
            server: Snapshot::of(&server).since(&cpu_server),
            generator: Snapshot::of(&own).since(&cpu_own),
            pressure: cpu::pressure().zip(pressure).map(|(now, before)| now.saturating_sub(before)),
        };
        Ok(Report::new(args, &server, self.sent, &window, &self.lag_ns))
    }

    /// Sends for so many seconds, each packet when it is due or as soon after it as this side can.
    fn send(&mut self, rate: f64, seconds: f64) {
        let mut schedule = Schedule::new(rate, seconds);
        let started = Instant::now();
        while let Some(due_ns) = schedule.next_due_ns() {
            let now_ns = started.elapsed().as_nanos() as u64;
            match schedule.take(now_ns) {
                Some(due_ns) => {
                    self.lag_ns.saturating_record(now_ns - due_ns);
                    self.next();
                }
                None => rest(Duration::from_nanos(due_ns - now_ns)),
            }
        }
    }

    fn next(&mut self) {
        let number = self.sent.packets + self.sent.failed;
        let socket = &self.sockets[number as usize % self.sockets.len()];
        let (packet, lines) = self.content.packet(number);
        match socket.send(packet) {
            Ok(bytes) => self.sent.add(lines, bytes),
            // Nobody listened to an earlier one, or the system has no room: neither is a packet that was sent.
            Err(_) => self.sent.failed += 1,
        }
    }
}

fn rest(time: Duration) {
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
    fn check(&self) -> anyhow::Result<()> {
        let numbers = [self.rate, self.seconds, self.warmup];
        let usable = numbers.iter().all(|number| number.is_finite() && *number >= 0.0);
        ensure!(usable, "--rate, --seconds and --warmup are numbers from 0 on");
        ensure!(self.rate <= RATE_MAX, "--rate is at most {RATE_MAX}");
        ensure!(self.rate * self.seconds >= 1.0, "not one packet to measure: raise --rate or --seconds");
        ensure!((1..=LINES_MAX).contains(&self.lines), "--lines is from 1 to {LINES_MAX}");
        ensure!((1..=NAMES_MAX).contains(&self.names), "--names is from 1 to {NAMES_MAX}");
        ensure!((1..=FLOWS_MAX).contains(&self.flows), "--flows is from 1 to {FLOWS_MAX}");
        ensure!((1..=SOCKETS_MAX).contains(&self.sockets), "--sockets is from 1 to {SOCKETS_MAX}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(to: SocketAddr, load: Load, rate: f64) -> PacketsArgs {
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
    fn check(load: Load, rate: f64, packets: u64, lines: u64) {
        let server = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        server.set_nonblocking(true).expect("does not block");
        let args = args(server.local_addr().expect("is bound"), load, rate);
        let report = Sender::new(&args).and_then(|sender| sender.run(&args)).expect("runs");
        let mut came = 0;
        while server.recv(&mut [0; 2_048]).is_ok() {
            came += 1;
        }
        assert_eq!((report.sent.packets, report.sent.lines, report.sent.failed), (packets, lines, 0));
        assert_eq!(came, packets, "what arrives is what was told");
    }

    #[test]
    fn all_packets_of_the_timetable_are_sent_and_told() {
        check(Load::Statsd, 400.0, 60, 180);
        check(Load::Rtcp, 200.0, 30, 0);
    }

    #[track_caller]
    fn refused(change: impl FnOnce(&mut PacketsArgs), expected: &str) {
        let mut args = args(([127, 0, 0, 1], 9).into(), Load::Statsd, 100.0);
        change(&mut args);
        assert_eq!(args.check().expect_err("is refused").to_string(), expected);
    }

    #[test]
    fn what_cannot_be_sent_is_named() {
        refused(|args| args.rate = f64::NAN, "--rate, --seconds and --warmup are numbers from 0 on");
        refused(|args| args.rate = 1.0, "not one packet to measure: raise --rate or --seconds");
        refused(|args| args.lines = 0, "--lines is from 1 to 100");
        refused(|args| args.flows = 0, "--flows is from 1 to 1000000");
    }
}
