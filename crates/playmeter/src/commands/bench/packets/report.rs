//! What a run of packets found, as JSON for programs and as a table for people.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::{Load, PacketsArgs, cpu};
use crate::commands::bench::report::{Machine, Percentiles};
use crate::count::Count;

/// Everything that was asked for and found in one run.
#[derive(Debug, Serialize)]
pub struct Report {
    pub setup: Setup,
    /// In the whole run, warm-up included: what the server's own account has to say.
    pub sent: Sent,
    pub measured: Measured,
    /// Sending minus due time.
    pub lag_us: Percentiles,
    /// Absent when no process of the server was named.
    pub server_cpu: Option<ServerCpu>,
    pub server_memory_bytes: Option<u64>,
    pub generator_cores: f64,
    pub machine: Machine,
}

/// What was asked for.
#[derive(Clone, Debug, Serialize)]
pub struct Setup {
    pub to: String,
    load: Load,
    pub lines: usize,
    pub names: usize,
    pub flows: usize,
    pub rate: f64,
    pub seconds: f64,
    pub warmup: f64,
    pub sockets: usize,
}

/// What was handed to the operating system.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Sent {
    pub packets: u64,
    pub lines: u64,
    pub bytes: u64,
    /// Could not be sent; not in the figures above.
    pub failed: u64,
}

/// The window after the warm-up.
#[derive(Debug, Serialize)]
pub struct Measured {
    pub seconds: f64,
    #[serde(flatten)]
    pub sent: Sent,
    pub packets_per_second: f64,
}

/// What happened between the end of the warm-up and the last packet.
pub(super) struct Window {
    pub length: Duration,
    pub sent: Sent,
    /// CPU time of the server and of this side.
    pub server: Duration,
    pub generator: Duration,
    /// How long some task waited for a core.
    pub pressure: Option<Duration>,
}

/// CPU time of the server in the window.
#[derive(Debug, Serialize)]
pub struct ServerCpu {
    pub processes: Vec<u32>,
    pub seconds: f64,
    pub cores: f64,
    /// By packet that was sent, whether it arrived or not.
    pub us_per_packet: f64,
    pub us_per_line: Option<f64>,
}

impl Sent {
    pub fn add(&mut self, lines: u64, bytes: usize) {
        self.packets += 1;
        self.lines += lines;
        self.bytes += bytes as u64;
    }

    pub fn since(self, before: Self) -> Self {
        Self {
            packets: self.packets - before.packets,
            lines: self.lines - before.lines,
            bytes: self.bytes - before.bytes,
            failed: self.failed - before.failed,
        }
    }
}

impl Report {
    /// Puts together what was found; `sent` is that of the whole run.
    pub(super) fn new(
        args: &PacketsArgs,
        pids: &[u32],
        sent: Sent,
        window: &Window,
        lag_ns: &Histogram<u64>,
    ) -> Self {
        let seconds = window.length.as_secs_f64();
        Self {
            setup: Setup::of(args),
            sent,
            measured: Measured {
                seconds,
                sent: window.sent,
                packets_per_second: window.sent.packets as f64 / seconds,
            },
            lag_us: Percentiles::of(lag_ns),
            server_cpu: (!pids.is_empty()).then(|| ServerCpu::new(pids, window)),
            server_memory_bytes: cpu::memory_bytes(pids),
            generator_cores: window.generator.as_secs_f64() / seconds,
            machine: Machine::over(window.length, window.pressure),
        }
    }
}

impl Setup {
    fn of(args: &PacketsArgs) -> Self {
        Self {
            to: args.to.to_string(),
            load: args.load,
            lines: args.lines,
            names: args.names,
            flows: args.flows,
            rate: args.rate,
            seconds: args.seconds,
            warmup: args.warmup,
            sockets: args.sockets,
        }
    }
}

impl ServerCpu {
    fn new(pids: &[u32], window: &Window) -> Self {
        let (seconds, sent) = (window.server.as_secs_f64(), window.sent);
        Self {
            processes: pids.to_vec(),
            seconds,
            cores: seconds / window.length.as_secs_f64(),
            us_per_packet: seconds * 1e6 / sent.packets.max(1) as f64,
            us_per_line: (sent.lines > 0).then(|| seconds * 1e6 / sent.lines as f64),
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { setup, sent, measured, .. } = self;
        writeln!(f, "{}   {}", setup.to, setup)?;
        writeln!(
            f,
            "  sent       packets {}   lines {}   bytes {}   failed {}   {} packets/s measured",
            Count(sent.packets),
            Count(sent.lines),
            Count(sent.bytes),
            Count(sent.failed),
            Count(measured.packets_per_second as u64)
        )?;
        writeln!(f, "  lag        {}", self.lag_us)?;
        if let Some(server) = &self.server_cpu {
            writeln!(f, "  server     {server}")?;
        }
        if let Some(bytes) = self.server_memory_bytes {
            writeln!(f, "  memory     {} bytes", Count(bytes))?;
        }
        writeln!(f, "  generator  {:.2} cores", self.generator_cores)?;
        writeln!(f, "  machine    {}", self.machine)
    }
}

impl Display for Setup {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rate = Count(self.rate as u64);
        match self.load {
            Load::Statsd => write!(f, "statsd, {} lines a packet over {} names, ", self.lines, self.names)?,
            Load::Rtcp => write!(f, "rtcp, {} flows, ", Count(self.flows as u64))?,
        }
        write!(f, "{rate} packets/s for {} s after {} s of warm-up", self.seconds, self.warmup)
    }
}

impl Display for ServerCpu {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} us a packet   ", self.us_per_packet)?;
        if let Some(line) = self.us_per_line {
            write!(f, "{line:.3} us a line   ")?;
        }
        write!(f, "{:.3} CPU-s   {:.2} cores", self.seconds, self.cores)
    }
}
