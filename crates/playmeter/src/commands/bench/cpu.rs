//! CPU time of a process tree and load of the machine, read from `/proc`.
//!
//! CPU time per operation is the most important number of every run: on a shared machine it is reliable, unlike wall-clock
//! time.

use std::collections::BTreeMap;
use std::fs;
use std::str::FromStr;
use std::time::Duration;

/// `USER_HZ` has been 100 on every Linux for decades, independent of the tick of the kernel.
const TICK: Duration = Duration::from_millis(10);

/// The CPU time that each process of a tree had used at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuSnapshot {
    processes: BTreeMap<u32, ProcessCpu>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct ProcessCpu {
    /// User and system time of all threads, including ended ones, and of children that were waited for.
    ticks: Duration,
    /// CPU time by thread. Exact to the nanosecond, but lost when a thread ends.
    threads: BTreeMap<u32, Duration>,
}

impl CpuSnapshot {
    /// Reads the counters of these processes. Skips processes that no longer exist.
    pub(crate) fn of(pids: &[u32]) -> Self {
        let processes = pids.iter().filter_map(|pid| Some((*pid, ProcessCpu::read(*pid)?))).collect();
        Self { processes }
    }

    /// Returns the CPU time between `before` and this snapshot. All the time of a new process counts.
    pub(crate) fn since(&self, before: &Self) -> Duration {
        let idle = ProcessCpu::default();
        self.processes
            .iter()
            .map(|(pid, process)| process.since(before.processes.get(pid).unwrap_or(&idle)))
            .sum()
    }
}

impl ProcessCpu {
    fn read(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.filter_map(|entry| {
            let thread = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let schedstat = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
            Some((thread, Duration::from_nanos(field(&schedstat, 0)?)))
        });
        Some(Self { ticks: ticks(&stat)?, threads: threads.collect() })
    }

    /// Returns the exact time, unless the coarse time shows that threads or children have ended.
    fn since(&self, before: &Self) -> Duration {
        let exact: Duration = self
            .threads
            .iter()
            .map(|(thread, used)| {
                used.saturating_sub(before.threads.get(thread).copied().unwrap_or_default())
            })
            .sum();
        let coarse = self.ticks.saturating_sub(before.ticks);
        if coarse > exact + 2 * TICK { coarse } else { exact }
    }
}

/// Returns these processes and all their descendants.
pub(crate) fn tree(roots: &[u32]) -> Vec<u32> {
    let parents = parents();
    let mut found = roots.to_vec();
    let mut visited = 0;
    while let Some(parent) = found.get(visited).copied() {
        let children = parents.iter().filter(|(_, its_parent)| *its_parent == parent);
        let new: Vec<u32> = children.map(|(pid, _)| *pid).filter(|pid| !found.contains(pid)).collect();
        found.extend(new);
        visited += 1;
    }
    found
}

/// Returns all processes with their parents.
fn parents() -> Vec<(u32, u32)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some((pid, field(after_name(&stat)?, 1)?))
    })
    .collect()
}

/// Returns utime + stime + cutime + cstime of a `stat` line.
fn ticks(stat: &str) -> Option<Duration> {
    let fields = after_name(stat)?;
    let sum: u64 = (11..15).map(|index| field::<u64>(fields, index)).sum::<Option<u64>>()?;
    Some(TICK * u32::try_from(sum).ok()?)
}

/// Returns the fields after the name of the process, which may contain spaces and brackets.
fn after_name(stat: &str) -> Option<&str> {
    Some(stat.rsplit_once(')')?.1)
}

fn field<T: FromStr>(text: &str, index: usize) -> Option<T> {
    text.split_ascii_whitespace().nth(index)?.parse().ok()
}

/// Returns the resident memory of these processes together, or `None` if none exists.
pub(crate) fn memory_bytes(pids: &[u32]) -> Option<u64> {
    let kib = |pid: &u32| -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        field(status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?, 0)
    };
    pids.iter().filter_map(kib).map(|kib| kib << 10).reduce(|sum, bytes| sum + bytes)
}

/// Returns the number of cores of the machine, including those that this process may not use.
pub(crate) fn cores() -> usize {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    // The first line is the total of the others.
    stat.lines().filter(|line| line.starts_with("cpu")).count().saturating_sub(1)
}

/// Returns the load average over the last minute.
pub(crate) fn load_average() -> Option<f64> {
    field(&fs::read_to_string("/proc/loadavg").ok()?, 0)
}

/// Returns the time since boot in which at least one task waited for a CPU.
pub(crate) fn pressure() -> Option<Duration> {
    let text = fs::read_to_string("/proc/pressure/cpu").ok()?;
    let total = text.lines().find(|line| line.starts_with("some"))?.rsplit_once("total=")?.1;
    Some(Duration::from_micros(total.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(ticks_ms: u64, threads: &[(u32, u64)]) -> ProcessCpu {
        let threads = threads.iter().map(|(thread, ms)| (*thread, Duration::from_millis(*ms))).collect();
        ProcessCpu { ticks: Duration::from_millis(ticks_ms), threads }
    }

    #[track_caller]
    fn check(before: ProcessCpu, after: ProcessCpu, expected_ms: u64) {
        let of = |process| CpuSnapshot { processes: BTreeMap::from([(7, process)]) };
        assert_eq!(of(after).since(&of(before)), Duration::from_millis(expected_ms));
    }

    #[test]
    fn times_of_threads_are_added_up() {
        check(process(50, &[(1, 41), (2, 12)]), process(70, &[(1, 48), (2, 26)]), 21);
    }

    #[test]
    fn time_of_a_new_thread_counts() {
        check(process(50, &[(1, 50)]), process(80, &[(1, 51), (2, 33)]), 34);
    }

    #[test]
    fn time_of_an_ended_thread_counts() {
        check(process(50, &[(1, 25), (2, 25)]), process(250, &[(1, 45)]), 200);
    }

    #[test]
    fn process_name_with_brackets_is_skipped() {
        let stat = "7 (a) b) c) S 1 7 7 0 -1 0 0 0 0 0 3 4 5 6 20 0 1";
        assert_eq!(ticks(stat), Some(Duration::from_millis(180)));
        assert_eq!(field::<u32>(after_name(stat).expect("has a name"), 1), Some(1));
    }

    #[test]
    fn own_process_has_a_tree_and_cpu_time() {
        let pids = tree(&[std::process::id()]);
        assert_eq!(pids[0], std::process::id());
        assert!(CpuSnapshot::of(&pids).since(&CpuSnapshot::default()) > Duration::ZERO);
        assert!(memory_bytes(&pids).is_some_and(|bytes| bytes > 1 << 20));
        assert_eq!(memory_bytes(&[]), None);
    }
}
