//! The report of a load test with packets, as JSON and as a table.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::{PacketKind, PacketsArgs, cpu};
use crate::commands::bench::report::{MachineLoad, Percentiles};
use crate::count::Count;

/// The setup and the results of a load test. The JSON report has these field names.
#[derive(Debug, Serialize)]
pub(crate) struct PacketReport {
    pub(crate) setup: PacketSetup,
    /// The counts of the whole run with its warm-up. The accounting of the server must agree with them.
    pub(crate) sent: SentCounts,
    pub(crate) measured: PacketWindow,
    /// Time from due to sent.
    pub(crate) lag_us: Percentiles,
    /// `None` without a process id of the server.
    pub(crate) server_cpu: Option<PacketCpu>,
    pub(crate) server_memory_bytes: Option<u64>,
    pub(crate) generator_cores: f64,
    pub(crate) machine: MachineLoad,
}

/// The setup of a load test.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PacketSetup {
    pub(crate) to: String,
    load: PacketKind,
    pub(crate) lines: usize,
    pub(crate) names: usize,
    pub(crate) flows: usize,
    pub(crate) rate: f64,
    pub(crate) seconds: f64,
    pub(crate) warmup: f64,
    pub(crate) sockets: usize,
}

/// Counts of the packets that were passed to the operating system.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct SentCounts {
    pub(crate) packets: u64,
    pub(crate) lines: u64,
    pub(crate) bytes: u64,
    /// Packets that could not be sent. The other counts do not include them.
    pub(crate) failed: u64,
}

/// The measured window, after the warm-up.
#[derive(Debug, Serialize)]
pub(crate) struct PacketWindow {
    pub(crate) seconds: f64,
    #[serde(flatten)]
    pub(crate) sent: SentCounts,
    pub(crate) packets_per_second: f64,
}

/// The measurements between the end of the warm-up and the last packet.
pub(super) struct PacketMeasurements {
    pub(crate) length: Duration,
    pub(crate) sent: SentCounts,
    /// CPU time of the server and of the generator.
    pub(crate) server: Duration,
    pub(crate) generator: Duration,
    /// Time in which at least one task waited for a CPU.
    pub(crate) pressure: Option<Duration>,
}

/// The CPU time of the server in the measurements.
#[derive(Debug, Serialize)]
pub(crate) struct PacketCpu {
    pub(crate) processes: Vec<u32>,
    pub(crate) seconds: f64,
    pub(crate) cores: f64,
    /// Per packet that was sent, whether it arrived or not.
    pub(crate) us_per_packet: f64,
    pub(crate) us_per_line: Option<f64>,
}

impl SentCounts {
    pub(crate) fn add(&mut self, lines: u64, bytes: usize) {
        self.packets += 1;
        self.lines += lines;
        self.bytes += bytes as u64;
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            packets: self.packets - before.packets,
            lines: self.lines - before.lines,
            bytes: self.bytes - before.bytes,
            failed: self.failed - before.failed,
        }
    }
}

impl PacketReport {
    /// `sent` are the counts of the whole run.
    pub(super) fn new(
        args: &PacketsArgs,
        pids: &[u32],
        sent: SentCounts,
        measurements: &PacketMeasurements,
        lag_ns: &Histogram<u64>,
    ) -> Self {
        let seconds = measurements.length.as_secs_f64();
        Self {
            setup: PacketSetup::of(args),
            sent,
            measured: PacketWindow {
                seconds,
                sent: measurements.sent,
                packets_per_second: measurements.sent.packets as f64 / seconds,
            },
            lag_us: Percentiles::of(lag_ns),
            server_cpu: (!pids.is_empty()).then(|| PacketCpu::new(pids, measurements)),
            server_memory_bytes: cpu::memory_bytes(pids),
            generator_cores: measurements.generator.as_secs_f64() / seconds,
            machine: MachineLoad::over(measurements.length, measurements.pressure),
        }
    }
}

impl PacketSetup {
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

impl PacketCpu {
    fn new(pids: &[u32], measurements: &PacketMeasurements) -> Self {
        let (seconds, sent) = (measurements.server.as_secs_f64(), measurements.sent);
        Self {
            processes: pids.to_vec(),
            seconds,
            cores: seconds / measurements.length.as_secs_f64(),
            us_per_packet: seconds * 1e6 / sent.packets.max(1) as f64,
            us_per_line: (sent.lines > 0).then(|| seconds * 1e6 / sent.lines as f64),
        }
    }
}

impl Display for PacketReport {
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

impl Display for PacketSetup {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rate = Count(self.rate as u64);
        match self.load {
            PacketKind::Statsd => {
                write!(f, "statsd, {} lines per packet, {} names, ", self.lines, self.names)?
            }
            PacketKind::Rtcp => write!(f, "rtcp, {} flows, ", Count(self.flows as u64))?,
        }
        write!(f, "{rate} packets/s for {} s after {} s of warm-up", self.seconds, self.warmup)
    }
}

impl Display for PacketCpu {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} us per packet   ", self.us_per_packet)?;
        if let Some(line) = self.us_per_line {
            write!(f, "{line:.3} us per line   ")?;
        }
        write!(f, "{:.3} CPU-s   {:.2} cores", self.seconds, self.cores)
    }
}
