//! The report of a load test with subscribers, as JSON and as a table.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use serde::Serialize;

use super::subscriber_pool::{DeliveryCounts, SubscriberPool};
use super::{CpuSnapshot, WatchBaseline, cpu};
use crate::commands::bench::report::{MachineLoad, Percentiles};
use crate::count::Count;

/// The setup and the results of a load test. The JSON report has these field names.
#[derive(Debug, Serialize)]
pub(crate) struct WatchReport {
    pub(crate) setup: WatchSetup,
    pub(crate) subscribers: SubscriberCounts,
    pub(crate) measured: WatchWindow,
    /// Deliveries in the measured window.
    #[serde(rename = "seen")]
    pub(crate) delivered: DeliveryCounts,
    /// Time from the due time of an update until a subscriber received it.
    pub(crate) latency_us: Percentiles,
    /// `None` without a process id of the server.
    pub(crate) server_cpu: Option<WatchCpu>,
    pub(crate) generator_cores: f64,
    pub(crate) memory: ServerMemory,
    pub(crate) machine: MachineLoad,
}

/// The setup of a load test.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct WatchSetup {
    pub(crate) url: String,
    pub(crate) path: String,
    pub(crate) subscribers: usize,
    pub(crate) addresses: u8,
    pub(crate) rate: f64,
    pub(crate) seconds: f64,
    pub(crate) warmup: f64,
}

/// Counts of the connections.
#[derive(Debug, Serialize)]
pub(crate) struct SubscriberCounts {
    /// Subscribers that became ready.
    #[serde(rename = "watching")]
    pub(crate) subscribed: usize,
    /// Subscribers that were lost, before or after they became ready.
    pub(crate) lost: u64,
    /// The reasons of the first losses.
    pub(crate) reasons: Vec<String>,
    /// Pings that were answered.
    pub(crate) pings: u64,
}

/// The measured window, after the warm-up.
#[derive(Debug, Serialize)]
pub(crate) struct WatchWindow {
    pub(crate) seconds: f64,
    pub(crate) updates: u64,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// True if all subscribers had the newest state at the end, or if no updates were posted.
    pub(crate) is_complete: bool,
}

/// The CPU time of the server in the window.
#[derive(Debug, Serialize)]
pub(crate) struct WatchCpu {
    pub(crate) processes: Vec<u32>,
    pub(crate) seconds: f64,
    pub(crate) cores: f64,
    /// Per increase of the number at a subscriber.
    pub(crate) us_per_delivery: Option<f64>,
    /// Per update and subscriber, including merged states.
    pub(crate) us_per_update: Option<f64>,
}

/// The resident memory of the server.
#[derive(Debug, Serialize)]
pub(crate) struct ServerMemory {
    /// Before the subscribers connected.
    #[serde(rename = "alone_bytes")]
    pub(crate) before: Option<u64>,
    /// After all have subscribed, before the first update.
    #[serde(rename = "watched_bytes")]
    pub(crate) subscribed: Option<u64>,
    #[serde(rename = "at_the_end_bytes")]
    pub(crate) at_end: Option<u64>,
}

impl WatchReport {
    pub(super) fn new(
        setup: WatchSetup,
        pids: &[u32],
        baseline: &WatchBaseline,
        pool: &SubscriberPool<'_>,
        updates: u64,
        memory: ServerMemory,
    ) -> WatchReport {
        let window = baseline.at.elapsed();
        let (delivered, totals) = (pool.delivery_counts(), pool.totals.clone());
        let used = CpuSnapshot::of(pids).since(&baseline.server);
        let generator = CpuSnapshot::of(&[std::process::id()]).since(&baseline.generator);
        let pressure = cpu::pressure().zip(baseline.pressure).map(|(now, before)| now.saturating_sub(before));
        let deliveries_expected = updates * setup.subscribers as u64;
        WatchReport {
            measured: WatchWindow {
                seconds: window.as_secs_f64(),
                updates,
                messages: totals.messages - baseline.totals.messages,
                bytes: totals.bytes - baseline.totals.bytes,
                is_complete: updates == 0
                    || pool.has_reached(delivered.newest_max)
                        && delivered.deliveries + delivered.merged >= deliveries_expected,
            },
            server_cpu: (!pids.is_empty())
                .then(|| WatchCpu::new(pids, used, window, delivered.deliveries, deliveries_expected)),
            subscribers: SubscriberCounts {
                subscribed: totals.subscribed,
                lost: totals.lost,
                reasons: totals.reasons,
                pings: totals.pings,
            },
            delivered,
            latency_us: Percentiles::of(&pool.latency_ns),
            generator_cores: generator.as_secs_f64() / window.as_secs_f64(),
            memory,
            machine: MachineLoad::over(window, pressure),
            setup,
        }
    }

    /// Returns the errors that make a run invalid.
    pub(crate) fn errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        if self.subscribers.lost > 0 {
            errors.push(format!(
                "{} subscribers lost: {}",
                self.subscribers.lost,
                self.subscribers.reasons.join("; ")
            ));
        }
        if self.delivered.disordered > 0 {
            errors.push(format!("{} numbers were repeated or out of order", self.delivered.disordered));
        }
        if !self.measured.is_complete {
            let DeliveryCounts { newest_min, newest_max, .. } = self.delivered;
            errors.push(format!(
                "not all subscribers have the newest state: {} updates, the slowest received {newest_min} and the fastest {newest_max}",
                self.measured.updates
            ));
        }
        errors
    }
}

impl WatchCpu {
    fn new(pids: &[u32], used: Duration, window: Duration, deliveries: u64, updates: u64) -> WatchCpu {
        let seconds = used.as_secs_f64();
        let per = |count: u64| (count > 0).then(|| seconds * 1e6 / count as f64);
        WatchCpu {
            processes: pids.to_vec(),
            seconds,
            cores: seconds / window.as_secs_f64(),
            us_per_delivery: per(deliveries),
            us_per_update: per(updates),
        }
    }
}

impl ServerMemory {
    /// Returns the memory per idle subscriber.
    fn per_subscriber(&self, subscribers: usize) -> Option<u64> {
        Some(self.subscribed?.saturating_sub(self.before?) / subscribers as u64)
    }
}

impl Display for WatchReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let WatchReport { setup, subscribers, measured, delivered, .. } = self;
        writeln!(
            f,
            "{}{}   {} subscribers, {} updates/s",
            setup.url, setup.path, setup.subscribers, setup.rate
        )?;
        writeln!(
            f,
            "  subscribers  ready {}   lost {}   pings {}",
            subscribers.subscribed, subscribers.lost, subscribers.pings
        )?;
        writeln!(
            f,
            "  updates      {}   deliveries {}   merged {}   disordered {}   newest {} to {}",
            Count(measured.updates),
            Count(delivered.deliveries),
            Count(delivered.merged),
            delivered.disordered,
            delivered.newest_min,
            delivered.newest_max
        )?;
        writeln!(f, "  messages     {}   bytes {}", Count(measured.messages), Count(measured.bytes))?;
        writeln!(f, "  latency      {}", self.latency_us)?;
        if let Some(server) = &self.server_cpu {
            writeln!(f, "  server       {server}")?;
        }
        writeln!(f, "  generator    {:.2} cores", self.generator_cores)?;
        if let Some(bytes) = self.memory.per_subscriber(setup.subscribers) {
            writeln!(f, "  memory       {} bytes per subscriber", Count(bytes))?;
        }
        writeln!(f, "  machine      {}", self.machine)?;
        self.errors().iter().try_for_each(|error| writeln!(f, "  error        {error}"))
    }
}

impl Display for WatchCpu {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let (Some(delivery), Some(update)) = (self.us_per_delivery, self.us_per_update) {
            write!(f, "{delivery:.2} us per delivery   {update:.3} us per update and subscriber   ")?;
        }
        write!(f, "{:.3} CPU-s   {:.3} cores", self.seconds, self.cores)
    }
}
