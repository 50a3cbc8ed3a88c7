//! How the processors spent their time, and what waited for them.

use std::path::Path;

use procfs_core::{CpuPressure, CpuTime, FromReadSI, IoPressure, KernelStats, LoadAverage, MemoryPressure};

use super::{file, system};
use crate::commands::agent::reading::Reading;

/// Remembers the times of the last reading.
#[derive(Default)]
pub(super) struct Cpu {
    before: Option<Times>,
}

/// Ticks since the start, all processors together, by what they were spent on.
#[derive(Clone, Copy)]
struct Times {
    user: u64,
    system: u64,
    iowait: u64,
    steal: u64,
    idle: u64,
}

impl Times {
    /// Guests are in `user` already. Interrupts are the system's.
    fn of(time: &CpuTime) -> Times {
        let or_none = |ticks: Option<u64>| ticks.unwrap_or_default();
        Times {
            user: time.user + time.nice,
            system: time.system + or_none(time.irq) + or_none(time.softirq),
            iowait: or_none(time.iowait),
            steal: or_none(time.steal),
            idle: time.idle,
        }
    }

    /// What was added since; `iowait` and `idle` may run backwards by a little.
    fn since(&self, before: &Times) -> Times {
        Times {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            iowait: self.iowait.saturating_sub(before.iowait),
            steal: self.steal.saturating_sub(before.steal),
            idle: self.idle.saturating_sub(before.idle),
        }
    }

    fn all(&self) -> u64 {
        self.user + self.system + self.iowait + self.steal + self.idle
    }
}

impl Cpu {
    /// Says how many processors there are.
    pub(super) fn read(&mut self, proc: &Path, reading: &mut Reading) -> usize {
        let stats = KernelStats::from_file(proc.join("stat"), &system());
        let cores = stats.as_ref().map_or(1, |stats| stats.cpu_time.len().max(1));
        if let Ok(stats) = stats {
            self.times(&stats, reading);
        }
        if let Ok(load) = file::<LoadAverage>(proc, "loadavg") {
            reading.add("host.load_1", hundredths(load.one));
            reading.add("host.load_5", hundredths(load.five));
            reading.add("host.load_15", hundredths(load.fifteen));
        }
        pressure(proc, reading);
        cores
    }

    fn times(&mut self, stats: &KernelStats, reading: &mut Reading) {
        reading.add("host.cores", stats.cpu_time.len() as f64);
        let now = Times::of(&stats.total);
        let Some(before) = self.before.replace(now) else { return };
        let spent = now.since(&before);
        let share = |ticks: u64| 100.0 * ticks as f64 / spent.all() as f64;
        reading.add("host.cpu", share(spent.user + spent.system + spent.steal));
        reading.add("host.cpu_user", share(spent.user));
        reading.add("host.cpu_system", share(spent.system));
        reading.add("host.cpu_iowait", share(spent.iowait));
        reading.add("host.cpu_steal", share(spent.steal));
    }
}

/// The share of the last ten seconds in which something had to wait, in percent.
fn pressure(proc: &Path, reading: &mut Reading) {
    if let Ok(cpu) = file::<CpuPressure>(proc, "pressure/cpu") {
        reading.add("host.pressure_cpu", hundredths(cpu.some.avg10));
    }
    if let Ok(memory) = file::<MemoryPressure>(proc, "pressure/memory") {
        reading.add("host.pressure_memory", hundredths(memory.some.avg10));
    }
    if let Ok(io) = file::<IoPressure>(proc, "pressure/io") {
        reading.add("host.pressure_io", hundredths(io.some.avg10));
    }
}

/// The kernel writes two digits behind the point; 0.1 as `f32` is not 0.1 as `f64`.
fn hundredths(value: f32) -> f64 {
    (f64::from(value) * 100.0).round() / 100.0
}
