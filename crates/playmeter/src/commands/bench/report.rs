//! What a run found, as JSON for programs and as a table for people.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::cpu;
use super::http::{Offer, Outcome};
use super::requests::Ids;
use crate::count::Count;

/// Above this share of one core it is the generator that is being measured.
const GENERATOR_CORES_MAX: f64 = 0.9;

/// Everything that was asked for and found in one run.
#[derive(Debug, Serialize)]
pub struct Report {
    pub setup: Setup,
    pub total: Total,
    pub measured: Measured,
    pub latency_us: Percentiles,
    /// Sending minus due time.
    pub lag_us: Percentiles,
    /// Absent when no process of the server was named.
    pub server_cpu: Option<Cpu>,
    pub generator_cpu: Cpu,
    pub machine: Machine,
    /// What a reader has to know before believing the figures.
    pub notes: Vec<String>,
    /// The rates tried, if the highest was looked for.
    pub steps: Vec<Step>,
    /// The highest rate that held, in requests a second.
    pub rate_max: Option<f64>,
}

/// What was asked for.
#[derive(Clone, Debug, Serialize)]
pub struct Setup {
    pub url: String,
    pub kind: &'static str,
    pub ack: &'static str,
    /// `keep-alive` or `close`.
    pub connection: &'static str,
    pub connections: usize,
    pub depth: usize,
    pub rate: f64,
    pub batch: usize,
    pub ids: Ids,
    pub players: u64,
    pub names: usize,
    pub duplicates_percent: f64,
    pub warmup: f64,
    pub seconds: f64,
}

/// Counts of the whole run, warm-up included: what the server's own accounting has to say too.
#[derive(Debug, Serialize)]
pub struct Total {
    pub requests_sent: u64,
    pub requests_answered: u64,
    pub events_sent: u64,
    pub repeats_sent: u64,
    pub accepted: u64,
    pub duplicate: u64,
    pub late: u64,
    pub limited: u64,
    pub invalid: u64,
    pub answers_without_receipt: u64,
    pub refused_by_status: BTreeMap<u16, u64>,
    pub lost: u64,
    pub unanswered: u64,
    pub errors: u64,
}

/// The window after the warm-up.
#[derive(Debug, Serialize)]
pub struct Measured {
    pub seconds: f64,
    pub requests_answered: u64,
    pub events_accepted: u64,
    pub requests_per_second: f64,
    pub events_per_second: f64,
}

/// Times in microseconds.
#[derive(Debug, Serialize)]
pub struct Percentiles {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// CPU time in the measured window.
#[derive(Debug, Serialize)]
pub struct Cpu {
    pub processes: Vec<u32>,
    pub seconds: f64,
    /// Which is also microseconds per event. Absent when nothing was accepted.
    pub seconds_per_million_events: Option<f64>,
    pub us_per_request: Option<f64>,
    pub cores: f64,
}

/// How much else was going on.
#[derive(Debug, Serialize)]
pub struct Machine {
    pub cores: usize,
    pub load_average: Option<f64>,
    /// The share of the window in which at least one task waited for a CPU.
    pub waiting_for_cpu: Option<f64>,
}

/// One rate that was tried.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Step {
    pub rate: f64,
    pub p99_us: f64,
    pub errors: u64,
    pub held: bool,
}

impl Report {
    /// Puts together what `offer` found.
    pub fn new(setup: Setup, offer: &Offer, outcome: &Outcome) -> Self {
        let tally = &outcome.tally;
        let cpu = |pids: &[u32], used| Cpu::new(pids, used, outcome);
        let mut report = Self {
            total: Total::new(setup.batch, outcome),
            measured: Measured::new(outcome),
            latency_us: Percentiles::of(&tally.latency_ns),
            lag_us: Percentiles::of(&tally.lag_ns),
            server_cpu: (!offer.pids.is_empty()).then(|| cpu(&offer.pids, outcome.server_cpu)),
            generator_cpu: cpu(&[std::process::id()], outcome.generator_cpu),
            machine: Machine::over(outcome.window, outcome.pressure),
            notes: Vec::new(),
            steps: Vec::new(),
            rate_max: None,
            setup,
        };
        report.notes = report.doubts();
        report
    }

    fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        if self.generator_cpu.cores > GENERATOR_CORES_MAX {
            doubts.push("the generator used a whole core: latencies are partly its own".to_owned());
        }
        if self.total.answers_without_receipt > 0 {
            doubts.push("answers came without a receipt; their events count as accepted".to_owned());
        }
        if self.server_cpu.is_none() {
            doubts.push(
                "without --pid or a data folder's server.pid, the server's CPU time is not measured"
                    .to_owned(),
            );
        }
        doubts
    }
}

impl Total {
    fn new(batch: usize, outcome: &Outcome) -> Self {
        let tally = &outcome.tally;
        Self {
            requests_sent: tally.sent,
            requests_answered: tally.answered,
            events_sent: tally.sent * batch as u64,
            repeats_sent: tally.repeats,
            accepted: tally.receipts.accepted,
            duplicate: tally.receipts.duplicate,
            late: tally.receipts.late,
            limited: tally.receipts.limited,
            invalid: tally.receipts.invalid,
            answers_without_receipt: tally.without_receipt,
            refused_by_status: tally.refused.clone(),
            lost: tally.lost,
            unanswered: tally.unanswered,
            errors: tally.errors(),
        }
    }
}

impl Measured {
    fn new(outcome: &Outcome) -> Self {
        let seconds = outcome.window.as_secs_f64();
        Self {
            seconds,
            requests_answered: outcome.answered,
            events_accepted: outcome.accepted,
            requests_per_second: outcome.answered as f64 / seconds,
            events_per_second: outcome.accepted as f64 / seconds,
        }
    }
}

impl Percentiles {
    /// Of times in nanoseconds.
    pub fn of(times_ns: &Histogram<u64>) -> Self {
        let at = |quantile| times_ns.value_at_quantile(quantile) as f64 / 1e3;
        Self { p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max: at(1.0) }
    }
}

impl Cpu {
    fn new(pids: &[u32], used: Duration, outcome: &Outcome) -> Self {
        let seconds = used.as_secs_f64();
        let per_million = |count: u64| (count > 0).then(|| seconds * 1e6 / count as f64);
        Self {
            processes: pids.to_vec(),
            seconds,
            seconds_per_million_events: per_million(outcome.accepted),
            us_per_request: per_million(outcome.answered),
            cores: seconds / outcome.window.as_secs_f64(),
        }
    }
}

impl Machine {
    /// As it was in a window, in which some task waited for a CPU so long.
    pub fn over(window: Duration, pressure: Option<Duration>) -> Self {
        let share = |pressure: Duration| pressure.as_secs_f64() / window.as_secs_f64();
        Self { cores: cpu::cores(), load_average: cpu::load_average(), waiting_for_cpu: pressure.map(share) }
    }
}

impl Display for Report {
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
        self.steps.iter().try_for_each(|step| writeln!(f, "  tried      {step}"))?;
        match self.rate_max {
            Some(rate) => writeln!(f, "  highest    {} requests/s without error", Count(rate as u64)),
            None => Ok(()),
        }
    }
}

impl Report {
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
        let Total { lost, unanswered, refused_by_status, .. } = &self.total;
        let by_status = refused_by_status.iter().map(|(status, count)| (format!("{status}"), *count));
        let without = [("lost".to_owned(), *lost), ("unanswered".to_owned(), *unanswered)];
        let some = by_status.chain(without).filter(|(_, count)| *count > 0);
        let words: Vec<String> = some.map(|(what, count)| format!("{what} {}", Count(count))).collect();
        if words.is_empty() { "none".to_owned() } else { words.join("   ") }
    }
}

impl Display for Setup {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { url, ack, connection, connections, depth, batch, ids, .. } = self;
        let (rate, ids) = (Count(self.rate as u64), format!("{ids:?}").to_lowercase());
        writeln!(f, "{url}   {}   ack {ack}", self.kind)?;
        writeln!(
            f,
            "  {rate} requests/s of {batch}, ids {ids}, {connections} connections {connection}, depth {depth}, \
             {} s after {} s of warm-up",
            self.seconds, self.warmup
        )
    }
}

impl Display for Total {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { accepted, duplicate, late, limited, invalid, .. } = self;
        let outcomes = [
            ("accepted", accepted),
            ("duplicate", duplicate),
            ("late", late),
            ("limited", limited),
            ("invalid", invalid),
        ];
        let words = outcomes.map(|(outcome, count)| format!("{outcome} {}", Count(*count)));
        f.write_str(&words.join("   "))
    }
}

impl Display for Percentiles {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { p50, p90, p99, p999, max } = self;
        let named = [("p50", p50), ("p90", p90), ("p99", p99), ("p99.9", p999), ("max", max)];
        let words = named.map(|(name, us)| format!("{name} {}", Time(*us)));
        f.write_str(&words.join("   "))
    }
}

impl Display for Cpu {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { seconds, seconds_per_million_events, us_per_request, cores, .. } = self;
        if let (Some(per_million), Some(per_request)) = (seconds_per_million_events, us_per_request) {
            write!(f, "{per_million:.3} CPU-s per million events   {per_request:.2} us per request   ")?;
        }
        write!(f, "{seconds:.3} CPU-s   {cores:.2} cores")
    }
}

impl Display for Machine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} cores", self.cores)?;
        if let Some(load) = self.load_average {
            write!(f, "   load average {load:.2}")?;
        }
        if let Some(waiting) = self.waiting_for_cpu {
            write!(f, "   some task waited for a CPU {:.0}% of the time", waiting * 100.0)?;
        }
        Ok(())
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let held = if self.held { "held" } else { "too much" };
        let rate = Count(self.rate as u64);
        write!(f, "{rate} requests/s: p99 {}, errors {}, {held}", Time(self.p99_us), self.errors)
    }
}

/// Microseconds in the unit that reads best.
struct Time(f64);

impl Display for Time {
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
    fn check(shown: impl Display, expected: &str) {
        assert_eq!(shown.to_string(), expected);
    }

    #[test]
    fn times_have_the_unit_that_reads_best() {
        check(Time(61.4), "61 us");
        check(Time(1_499.0), "1.50 ms");
        check(Time(2_000_000.0), "2.00 s");
    }
}
