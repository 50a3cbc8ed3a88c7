//! CPU time by mode, load averages and pressure.

use std::path::Path;

use procfs_core::{CpuPressure, CpuTime, FromReadSI, IoPressure, KernelStats, LoadAverage, MemoryPressure};

use super::{parse_file, system_info};
use crate::commands::agent::reading::Reading;

/// Reads CPU metrics.
#[derive(Default)]
pub(super) struct CpuReader {
    previous: Option<CpuTicks>,
}

/// CPU ticks since boot, of all cores together, by mode.
#[derive(Clone, Copy)]
struct CpuTicks {
    user: u64,
    system: u64,
    iowait: u64,
    steal: u64,
    idle: u64,
}

impl CpuTicks {
    /// Guest time is part of `user`. Interrupts count as system time.
    fn of(time: &CpuTime) -> CpuTicks {
        let or_zero = |ticks: Option<u64>| ticks.unwrap_or_default();
        CpuTicks {
            user: time.user + time.nice,
            system: time.system + or_zero(time.irq) + or_zero(time.softirq),
            iowait: or_zero(time.iowait),
            steal: or_zero(time.steal),
            idle: time.idle,
        }
    }

    /// Returns the ticks since a previous read. `iowait` and `idle` may decrease slightly.
    fn since(&self, previous: &CpuTicks) -> CpuTicks {
        CpuTicks {
            user: self.user.saturating_sub(previous.user),
            system: self.system.saturating_sub(previous.system),
            iowait: self.iowait.saturating_sub(previous.iowait),
            steal: self.steal.saturating_sub(previous.steal),
            idle: self.idle.saturating_sub(previous.idle),
        }
    }

    fn total(&self) -> u64 {
        self.user + self.system + self.iowait + self.steal + self.idle
    }
}

impl CpuReader {
    /// Adds the CPU metrics and returns the number of cores.
    pub(super) fn read(&mut self, proc: &Path, reading: &mut Reading) -> usize {
        let stats = KernelStats::from_file(proc.join("stat"), &system_info());
        let cores = stats.as_ref().map_or(1, |stats| stats.cpu_time.len().max(1));
        if let Ok(stats) = stats {
            self.times(&stats, reading);
        }
        if let Ok(load) = parse_file::<LoadAverage>(proc, "loadavg") {
            reading.add("host.load_1", hundredths(load.one));
            reading.add("host.load_5", hundredths(load.five));
            reading.add("host.load_15", hundredths(load.fifteen));
        }
        add_pressure(proc, reading);
        cores
    }

    fn times(&mut self, stats: &KernelStats, reading: &mut Reading) {
        reading.add("host.cores", stats.cpu_time.len() as f64);
        let now = CpuTicks::of(&stats.total);
        let Some(previous) = self.previous.replace(now) else { return };
        let spent = now.since(&previous);
        let share = |ticks: u64| 100.0 * ticks as f64 / spent.total() as f64;
        reading.add("host.cpu", share(spent.user + spent.system + spent.steal));
        reading.add("host.cpu_user", share(spent.user));
        reading.add("host.cpu_system", share(spent.system));
        reading.add("host.cpu_iowait", share(spent.iowait));
        reading.add("host.cpu_steal", share(spent.steal));
    }
}

/// Adds the pressure: the percentage of the last ten seconds in which a task had to wait.
fn add_pressure(proc: &Path, reading: &mut Reading) {
    if let Ok(cpu) = parse_file::<CpuPressure>(proc, "pressure/cpu") {
        reading.add("host.pressure_cpu", hundredths(cpu.some.avg10));
    }
    if let Ok(memory) = parse_file::<MemoryPressure>(proc, "pressure/memory") {
        reading.add("host.pressure_memory", hundredths(memory.some.avg10));
    }
    if let Ok(io) = parse_file::<IoPressure>(proc, "pressure/io") {
        reading.add("host.pressure_io", hundredths(io.some.avg10));
    }
}

/// Rounds to the two decimals that the kernel writes: 0.1 as `f32` is not 0.1 as `f64`.
fn hundredths(value: f32) -> f64 {
    (f64::from(value) * 100.0).round() / 100.0
}
