//! What a run with subscribers found, as JSON for programs and as a table for people.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use serde::Serialize;

use super::crowd::{Crowd, Sight};
use super::{Mark, Snapshot, cpu};
use crate::commands::bench::report::{Machine, Percentiles};
use crate::count::Count;

/// Everything that was asked for and found in one run.
#[derive(Debug, Serialize)]
pub struct Report {
    pub setup: Setup,
    pub subscribers: Subscribers,
    pub measured: Measured,
    /// What the subscribers have seen since measuring began.
    pub seen: Sight,
    /// From when an update was due until a subscriber had it.
    pub latency_us: Percentiles,
    /// Absent when no process of the server was named.
    pub server_cpu: Option<ServerCpu>,
    pub generator_cores: f64,
    pub memory: Memory,
    pub machine: Machine,
}

/// What was asked for.
#[derive(Clone, Debug, Serialize)]
pub struct Setup {
    pub url: String,
    pub path: String,
    pub subscribers: usize,
    pub addresses: u8,
    pub rate: f64,
    pub seconds: f64,
    pub warmup: f64,
}

/// What became of the connections.
#[derive(Debug, Serialize)]
pub struct Subscribers {
    /// Reached the point where they watch.
    pub watching: usize,
    /// Were lost, before or after.
    pub lost: u64,
    /// Why the first of them were.
    pub reasons: Vec<String>,
    /// Pings that were answered.
    pub pings: u64,
}

/// The window after the warm-up.
#[derive(Debug, Serialize)]
pub struct Measured {
    pub seconds: f64,
    pub updates: u64,
    pub messages: u64,
    pub bytes: u64,
    /// Everybody had the newest state at the end. Of what was not posted here nothing is known.
    pub is_complete: bool,
}

/// CPU time of the server in the window.
#[derive(Debug, Serialize)]
pub struct ServerCpu {
    pub processes: Vec<u32>,
    pub seconds: f64,
    pub cores: f64,
    /// By number that grew at a subscriber.
    pub us_per_delivery: Option<f64>,
    /// By update and subscriber, also where states were merged.
    pub us_per_update: Option<f64>,
}

/// Resident memory of the server.
#[derive(Debug, Serialize)]
pub struct Memory {
    /// Before anybody connected.
    #[serde(rename = "alone_bytes")]
    pub alone: Option<u64>,
    /// When all watched and nothing had been posted.
    #[serde(rename = "watched_bytes")]
    pub watched: Option<u64>,
    #[serde(rename = "at_the_end_bytes")]
    pub at_the_end: Option<u64>,
}

impl Report {
    /// Puts together what was found since the mark.
    pub(super) fn new(
        setup: Setup,
        pids: &[u32],
        mark: &Mark,
        crowd: &Crowd<'_>,
        updates: u64,
        memory: Memory,
    ) -> Report {
        let window = mark.at.elapsed();
        let (seen, totals) = (crowd.sight(), crowd.totals.clone());
        let used = Snapshot::of(pids).since(&mark.server);
        let generator = Snapshot::of(&[std::process::id()]).since(&mark.generator);
        let pressure = cpu::pressure().zip(mark.pressure).map(|(now, before)| now.saturating_sub(before));
        let seen_by_all = updates * setup.subscribers as u64;
        Report {
            measured: Measured {
                seconds: window.as_secs_f64(),
                updates,
                messages: totals.messages - mark.totals.messages,
                bytes: totals.bytes - mark.totals.bytes,
                is_complete: updates == 0
                    || crowd.is_at(seen.newest_max) && seen.deliveries + seen.merged >= seen_by_all,
            },
            server_cpu: (!pids.is_empty())
                .then(|| ServerCpu::new(pids, used, window, seen.deliveries, seen_by_all)),
            subscribers: Subscribers {
                watching: totals.watching,
                lost: totals.lost,
                reasons: totals.reasons,
                pings: totals.pings,
            },
            seen,
            latency_us: Percentiles::of(&crowd.latency_ns),
            generator_cores: generator.as_secs_f64() / window.as_secs_f64(),
            memory,
            machine: Machine::over(window, pressure),
            setup,
        }
    }

    /// What must not be in a run that counts.
    pub fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.subscribers.lost > 0 {
            wrong.push(format!(
                "{} subscribers lost: {}",
                self.subscribers.lost,
                self.subscribers.reasons.join("; ")
            ));
        }
        if self.seen.disordered > 0 {
            wrong.push(format!("{} numbers came twice or out of order", self.seen.disordered));
        }
        if !self.measured.is_complete {
            let Sight { newest_min, newest_max, .. } = self.seen;
            wrong.push(format!(
                "not everybody has the newest state: {} updates, seen up to {newest_min} by all and {newest_max} by one",
                self.measured.updates
            ));
        }
        wrong
    }
}

impl ServerCpu {
    fn new(pids: &[u32], used: Duration, window: Duration, deliveries: u64, updates: u64) -> ServerCpu {
        let seconds = used.as_secs_f64();
        let per = |count: u64| (count > 0).then(|| seconds * 1e6 / count as f64);
        ServerCpu {
            processes: pids.to_vec(),
            seconds,
            cores: seconds / window.as_secs_f64(),
            us_per_delivery: per(deliveries),
            us_per_update: per(updates),
        }
    }
}

impl Memory {
    /// What one subscriber takes that has nothing to do.
    fn per_subscriber(&self, subscribers: usize) -> Option<u64> {
        Some(self.watched?.saturating_sub(self.alone?) / subscribers as u64)
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Report { setup, subscribers, measured, seen, .. } = self;
        writeln!(
            f,
            "{}{}   {} subscribers, {} updates/s",
            setup.url, setup.path, setup.subscribers, setup.rate
        )?;
        writeln!(
            f,
            "  subscribers  watching {}   lost {}   pings {}",
            subscribers.watching, subscribers.lost, subscribers.pings
        )?;
        writeln!(
            f,
            "  updates      {}   deliveries {}   merged {}   disordered {}   newest {} to {}",
            Count(measured.updates),
            Count(seen.deliveries),
            Count(seen.merged),
            seen.disordered,
            seen.newest_min,
            seen.newest_max
        )?;
        writeln!(f, "  messages     {}   bytes {}", Count(measured.messages), Count(measured.bytes))?;
        writeln!(f, "  latency      {}", self.latency_us)?;
        if let Some(server) = &self.server_cpu {
            writeln!(f, "  server       {server}")?;
        }
        writeln!(f, "  generator    {:.2} cores", self.generator_cores)?;
        if let Some(bytes) = self.memory.per_subscriber(setup.subscribers) {
            writeln!(f, "  memory       {} bytes a subscriber", Count(bytes))?;
        }
        writeln!(f, "  machine      {}", self.machine)?;
        self.wrong().iter().try_for_each(|wrong| writeln!(f, "  wrong        {wrong}"))
    }
}

impl Display for ServerCpu {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let (Some(delivery), Some(update)) = (self.us_per_delivery, self.us_per_update) {
            write!(f, "{delivery:.2} us a delivery   {update:.3} us an update and subscriber   ")?;
        }
        write!(f, "{:.3} CPU-s   {:.3} cores", self.seconds, self.cores)
    }
}
