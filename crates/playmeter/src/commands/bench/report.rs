//! The report of a load test, as JSON and as a table.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::cpu;
use super::generator::{LoadMeasurements, LoadOptions};
use super::requests::IdKind;
use crate::count::Count;

/// Above this share of a core, the generator itself distorts the measurement.
const GENERATOR_CORES_MAX: f64 = 0.9;

/// The setup and the results of a load test. The JSON report has these field names.
#[derive(Debug, Serialize)]
pub(crate) struct LoadReport {
    pub(crate) setup: LoadSetup,
    pub(crate) total: LoadTotals,
    pub(crate) measured: LoadWindow,
    pub(crate) latency_us: Percentiles,
    /// Time from due to sent.
    pub(crate) lag_us: Percentiles,
    /// `None` without a process id of the server.
    pub(crate) server_cpu: Option<CpuUsage>,
    pub(crate) generator_cpu: CpuUsage,
    pub(crate) machine: MachineLoad,
    /// Caveats about the results.
    pub(crate) notes: Vec<String>,
    /// The rates that were tried to find the highest.
    pub(crate) steps: Vec<RateStep>,
    /// The highest rate that passed, in requests per second.
    pub(crate) rate_max: Option<f64>,
}

/// The setup of a load test.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LoadSetup {
    pub(crate) url: String,
    pub(crate) kind: &'static str,
    pub(crate) ack: &'static str,
    /// `keep-alive` or `close`.
    pub(crate) connection: &'static str,
    pub(crate) connections: usize,
    pub(crate) depth: usize,
    pub(crate) rate: f64,
    pub(crate) batch: usize,
    pub(crate) ids: IdKind,
    pub(crate) players: u64,
    pub(crate) names: usize,
    pub(crate) duplicates_percent: f64,
    pub(crate) warmup: f64,
    pub(crate) seconds: f64,
}

/// The counts of the whole run with its warm-up. The accounting of the server must agree with them.
#[derive(Debug, Serialize)]
pub(crate) struct LoadTotals {
    pub(crate) requests_sent: u64,
    pub(crate) requests_answered: u64,
    pub(crate) events_sent: u64,
    pub(crate) repeats_sent: u64,
    pub(crate) accepted: u64,
    pub(crate) duplicate: u64,
    pub(crate) late: u64,
    pub(crate) limited: u64,
    pub(crate) invalid: u64,
    pub(crate) answers_without_receipt: u64,
    #[serde(rename = "refused_by_status")]
    pub(crate) rejected_by_status: BTreeMap<u16, u64>,
    pub(crate) lost: u64,
    pub(crate) unanswered: u64,
    pub(crate) errors: u64,
}

/// The measured window, after the warm-up.
#[derive(Debug, Serialize)]
pub(crate) struct LoadWindow {
    pub(crate) seconds: f64,
    pub(crate) requests_answered: u64,
    pub(crate) events_accepted: u64,
    pub(crate) requests_per_second: f64,
    pub(crate) events_per_second: f64,
}

/// Percentiles in microseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) max: f64,
}

/// The CPU time of some processes in the measured window.
#[derive(Debug, Serialize)]
pub(crate) struct CpuUsage {
    pub(crate) processes: Vec<u32>,
    pub(crate) seconds: f64,
    /// Equals microseconds per event. `None` if nothing was accepted.
    pub(crate) seconds_per_million_events: Option<f64>,
    pub(crate) us_per_request: Option<f64>,
    pub(crate) cores: f64,
}

/// The load of the machine.
#[derive(Debug, Serialize)]
pub(crate) struct MachineLoad {
    pub(crate) cores: usize,
    pub(crate) load_average: Option<f64>,
    /// Share of the window in which at least one task waited for a CPU.
    pub(crate) waiting_for_cpu: Option<f64>,
}

/// A rate that was tried.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct RateStep {
    pub(crate) rate: f64,
    pub(crate) p99_us: f64,
    pub(crate) errors: u64,
    #[serde(rename = "held")]
    pub(crate) passed: bool,
}

impl LoadReport {
    pub(crate) fn new(setup: LoadSetup, options: &LoadOptions, measurements: &LoadMeasurements) -> Self {
        let stats = &measurements.stats;
        let cpu = |pids: &[u32], used| CpuUsage::new(pids, used, measurements);
        let mut report = Self {
            total: LoadTotals::new(setup.batch, measurements),
            measured: LoadWindow::new(measurements),
            latency_us: Percentiles::of(&stats.latency_ns),
            lag_us: Percentiles::of(&stats.lag_ns),
            server_cpu: (!options.pids.is_empty()).then(|| cpu(&options.pids, measurements.server_cpu)),
            generator_cpu: cpu(&[std::process::id()], measurements.generator_cpu),
            machine: MachineLoad::over(measurements.window, measurements.pressure),
            notes: Vec::new(),
            steps: Vec::new(),
            rate_max: None,
            setup,
        };
        report.notes = report.caveats();
        report
    }

    fn caveats(&self) -> Vec<String> {
        let mut caveats = Vec::new();
        if self.generator_cpu.cores > GENERATOR_CORES_MAX {
            caveats.push("the generator used a whole core and adds to the latencies".to_owned());
        }
        if self.total.answers_without_receipt > 0 {
            caveats.push("some responses had no receipt; their events count as accepted".to_owned());
        }
        if self.server_cpu.is_none() {
            caveats.push(
                "the CPU time of the server was not measured; name its process with --pid or --data"
                    .to_owned(),
            );
        }
        caveats
    }
}

impl LoadTotals {
    fn new(batch: usize, measurements: &LoadMeasurements) -> Self {
        let stats = &measurements.stats;
        Self {
            requests_sent: stats.sent,
            requests_answered: stats.answered,
            events_sent: stats.sent * batch as u64,
            repeats_sent: stats.repeats,
            accepted: stats.receipts.accepted,
            duplicate: stats.receipts.duplicate,
            late: stats.receipts.late,
            limited: stats.receipts.limited,
            invalid: stats.receipts.invalid,
            answers_without_receipt: stats.without_receipt,
            rejected_by_status: stats.rejected.clone(),
            lost: stats.lost,
            unanswered: stats.unanswered,
            errors: stats.errors(),
        }
    }
}

impl LoadWindow {
    fn new(measurements: &LoadMeasurements) -> Self {
        let seconds = measurements.window.as_secs_f64();
        Self {
            seconds,
            requests_answered: measurements.answered,
            events_accepted: measurements.accepted,
            requests_per_second: measurements.answered as f64 / seconds,
            events_per_second: measurements.accepted as f64 / seconds,
        }
    }
}

impl Percentiles {
    /// Computes the percentiles of times in nanoseconds.
    pub(crate) fn of(times_ns: &Histogram<u64>) -> Self {
        let at = |quantile| times_ns.value_at_quantile(quantile) as f64 / 1e3;
        Self { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max: at(1.0) }
    }
}

impl CpuUsage {
    fn new(pids: &[u32], used: Duration, measurements: &LoadMeasurements) -> Self {
        let seconds = used.as_secs_f64();
        let per_million = |count: u64| (count > 0).then(|| seconds * 1e6 / count as f64);
        Self {
            processes: pids.to_vec(),
            seconds,
            seconds_per_million_events: per_million(measurements.accepted),
            us_per_request: per_million(measurements.answered),
            cores: seconds / measurements.window.as_secs_f64(),
        }
    }
}

impl MachineLoad {
    /// Describes the machine in a window, of which tasks waited for a CPU for the time in `pressure`.
    pub(crate) fn over(window: Duration, pressure: Option<Duration>) -> Self {
        let share = |pressure: Duration| pressure.as_secs_f64() / window.as_secs_f64();
        Self { cores: cpu::cores(), load_average: cpu::load_average(), waiting_for_cpu: pressure.map(share) }
    }
}

impl Display for LoadReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.setup)?;
        writeln!(f, "  requests   {}", self.requests())?;
        writeln!(f, "  events     {}", self.total)?;
        writeln!(f, "  errors     {}", self.errors())?;
        writeln!(f, "  latency    {}", self.latency_us)?;
        writeln!(f, "  lag        {}", self.lag_us)?;
        if let Some(server) = &self.server_cpu {
            writeln!(f, "  server     {server}")?;
        }
        writeln!(f, "  generator  {}", self.generator_cpu)?;
        writeln!(f, "  machine    {}", self.machine)?;
        self.notes.iter().try_for_each(|note| writeln!(f, "  note       {note}"))?;
        self.steps.iter().try_for_each(|step| writeln!(f, "  step       {step}"))?;
        match self.rate_max {
            Some(rate) => writeln!(f, "  maximum    {} requests/s", Count(rate as u64)),
            None => Ok(()),
        }
    }
}

impl LoadReport {
    fn requests(&self) -> String {
        format!(
            "sent {}   answered {}   {} requests/s, {} events/s",
            Count(self.total.requests_sent),
            Count(self.total.requests_answered),
            Count(self.measured.requests_per_second as u64),
            Count(self.measured.events_per_second as u64),
        )
    }

    fn errors(&self) -> String {
        let LoadTotals { lost, unanswered, rejected_by_status, .. } = &self.total;
        let by_status = rejected_by_status.iter().map(|(status, count)| (format!("{status}"), *count));
        let without_response = [("lost".to_owned(), *lost), ("unanswered".to_owned(), *unanswered)];
        let errors = by_status.chain(without_response).filter(|(_, count)| *count > 0);
        let errors: Vec<String> = errors.map(|(label, count)| format!("{label} {}", Count(count))).collect();
        if errors.is_empty() { "none".to_owned() } else { errors.join("   ") }
    }
}

impl Display for LoadSetup {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { url, ack, connection, connections, depth, batch, ids, .. } = self;
        let (rate, ids) = (Count(self.rate as u64), format!("{ids:?}").to_lowercase());
        writeln!(f, "{url}   {}   ack {ack}", self.kind)?;
        writeln!(
            f,
            "  {rate} requests/s, batch {batch}, ids {ids}, {connections} connections {connection}, depth {depth}, \
             {} s after {} s of warm-up",
            self.seconds, self.warmup
        )
    }
}

impl Display for LoadTotals {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { accepted, duplicate, late, limited, invalid, .. } = self;
        let outcomes = [
            ("accepted", accepted),
            ("duplicate", duplicate),
            ("late", late),
            ("limited", limited),
            ("invalid", invalid),
        ];
        let texts = outcomes.map(|(outcome, count)| format!("{outcome} {}", Count(*count)));
        f.write_str(&texts.join("   "))
    }
}

impl Display for Percentiles {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { p50, p90, p99, p999, max } = self;
        let named = [("p50", p50), ("p90", p90), ("p99", p99), ("p99.9", p999), ("max", max)];
        let texts = named.map(|(name, us)| format!("{name} {}", ReadableTime(*us)));
        f.write_str(&texts.join("   "))
    }
}

impl Display for CpuUsage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { seconds, seconds_per_million_events, us_per_request, cores, .. } = self;
        if let (Some(per_million), Some(per_request)) = (seconds_per_million_events, us_per_request) {
            write!(f, "{per_million:.3} CPU-s per million events   {per_request:.2} us per request   ")?;
        }
        write!(f, "{seconds:.3} CPU-s   {cores:.2} cores")
    }
}

impl Display for MachineLoad {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} cores", self.cores)?;
        if let Some(load) = self.load_average {
            write!(f, "   load average {load:.2}")?;
        }
        if let Some(waiting) = self.waiting_for_cpu {
            write!(f, "   tasks waited for a CPU {:.0}% of the time", waiting * 100.0)?;
        }
        Ok(())
    }
}

impl Display for RateStep {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let result = if self.passed { "passed" } else { "failed" };
        let rate = Count(self.rate as u64);
        write!(f, "{rate} requests/s: p99 {}, errors {}, {result}", ReadableTime(self.p99_us), self.errors)
    }
}

/// A time in microseconds, displayed in a readable unit.
struct ReadableTime(f64);

impl Display for ReadableTime {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            us if us < 1e3 => write!(f, "{us:.0} us"),
            us if us < 1e6 => write!(f, "{:.2} ms", us / 1e3),
            us => write!(f, "{:.2} s", us / 1e6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: impl Display, expected: &str) {
        assert_eq!(value.to_string(), expected);
    }

    #[test]
    fn times_have_a_readable_unit() {
        check(ReadableTime(61.4), "61 us");
        check(ReadableTime(1_499.0), "1.50 ms");
        check(ReadableTime(2_000_000.0), "2.00 s");
    }
}
