//! CPU time of a process tree, and how busy the machine was, read from `/proc`.
//!
//! CPU time per operation is the first figure of every run: it holds on a shared machine, where
//! wall clock does not.

use std::collections::BTreeMap;
use std::fs;
use std::str::FromStr;
use std::time::Duration;

/// `USER_HZ` has been 100 on every Linux for decades, whatever the kernel's own tick is.
const TICK: Duration = Duration::from_millis(10);

/// How much CPU each process of a tree had used at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    processes: BTreeMap<u32, Process>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Process {
    /// User and system time of all threads that ever were, and of children that were waited for.
    ticks: Duration,
    /// Time on the CPU by thread, exact to the nanosecond, but gone with the thread.
    threads: BTreeMap<u32, Duration>,
}

impl Snapshot {
    /// Reads the counters of these processes; one that no longer exists is left out.
    pub fn of(pids: &[u32]) -> Self {
        let processes = pids.iter().filter_map(|pid| Some((*pid, Process::read(*pid)?))).collect();
        Self { processes }
    }

    /// CPU time used between `before` and this snapshot. A process that is new counts whole.
    pub fn since(&self, before: &Self) -> Duration {
        let idle = Process::default();
        self.processes
            .iter()
            .map(|(pid, process)| process.since(before.processes.get(pid).unwrap_or(&idle)))
            .sum()
    }
}

impl Process {
    fn read(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.filter_map(|entry| {
            let thread = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let schedstat = fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
            Some((thread, Duration::from_nanos(field(&schedstat, 0)?)))
        });
        Some(Self { ticks: ticks(&stat)?, threads: threads.collect() })
    }

    /// The exact figure, unless the coarse one shows that threads or children ended unseen.
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

/// The processes given and all their descendants.
pub fn tree(roots: &[u32]) -> Vec<u32> {
    let parents = parents();
    let mut found = roots.to_vec();
    let mut looked_at = 0;
    while let Some(parent) = found.get(looked_at).copied() {
        let children = parents.iter().filter(|(_, its_parent)| *its_parent == parent);
        let new: Vec<u32> = children.map(|(pid, _)| *pid).filter(|pid| !found.contains(pid)).collect();
        found.extend(new);
        looked_at += 1;
    }
    found
}

/// Every process with its parent.
fn parents() -> Vec<(u32, u32)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some((pid, field(after_name(&stat)?, 1)?))
    })
    .collect()
}

/// utime + stime + cutime + cstime of a `stat` line.
fn ticks(stat: &str) -> Option<Duration> {
    let fields = after_name(stat)?;
    let sum: u64 = (11..15).map(|index| field::<u64>(fields, index)).sum::<Option<u64>>()?;
    Some(TICK * u32::try_from(sum).ok()?)
}

/// What follows the process's name, which may itself hold spaces and brackets.
fn after_name(stat: &str) -> Option<&str> {
    Some(stat.rsplit_once(')')?.1)
}

fn field<T: FromStr>(text: &str, index: usize) -> Option<T> {
    text.split_ascii_whitespace().nth(index)?.parse().ok()
}

/// Resident memory of these processes together; `None` when there is none of them.
pub fn memory_bytes(pids: &[u32]) -> Option<u64> {
    let kib = |pid: &u32| -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        field(status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?, 0)
    };
    pids.iter().filter_map(kib).map(|kib| kib << 10).reduce(|sum, bytes| sum + bytes)
}

/// Cores of the machine, also those this process may not use.
pub fn cores() -> usize {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    // The first line sums up the others.
    stat.lines().filter(|line| line.starts_with("cpu")).count().saturating_sub(1)
}

/// The load average over the last minute.
pub fn load_average() -> Option<f64> {
    field(&fs::read_to_string("/proc/loadavg").ok()?, 0)
}

/// How long, since boot, at least one task waited for a CPU.
pub fn pressure() -> Option<Duration> {
    let text = fs::read_to_string("/proc/pressure/cpu").ok()?;
    let total = text.lines().find(|line| line.starts_with("some"))?.rsplit_once("total=")?.1;
    Some(Duration::from_micros(total.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(ticks_ms: u64, threads: &[(u32, u64)]) -> Process {
        let threads = threads.iter().map(|(thread, ms)| (*thread, Duration::from_millis(*ms))).collect();
        Process { ticks: Duration::from_millis(ticks_ms), threads }
    }

    #[track_caller]
    fn check(before: Process, after: Process, expected_ms: u64) {
        let of = |process| Snapshot { processes: BTreeMap::from([(7, process)]) };
        assert_eq!(of(after).since(&of(before)), Duration::from_millis(expected_ms));
    }

    #[test]
    fn threads_are_summed_exactly() {
        check(process(50, &[(1, 41), (2, 12)]), process(70, &[(1, 48), (2, 26)]), 21);
    }

    #[test]
    fn a_new_thread_counts_whole() {
        check(process(50, &[(1, 50)]), process(80, &[(1, 51), (2, 33)]), 34);
    }

    #[test]
    fn an_ended_thread_is_not_forgotten() {
        check(process(50, &[(1, 25), (2, 25)]), process(250, &[(1, 45)]), 200);
    }

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let stat = "7 (a) b) c) S 1 7 7 0 -1 0 0 0 0 0 3 4 5 6 20 0 1";
        assert_eq!(ticks(stat), Some(Duration::from_millis(180)));
        assert_eq!(field::<u32>(after_name(stat).expect("has a name"), 1), Some(1));
    }

    #[test]
    fn the_own_process_is_in_its_own_tree_and_has_used_time() {
        let pids = tree(&[std::process::id()]);
        assert_eq!(pids[0], std::process::id());
        assert!(Snapshot::of(&pids).since(&Snapshot::default()) > Duration::ZERO);
        assert!(memory_bytes(&pids).is_some_and(|bytes| bytes > 1 << 20));
        assert_eq!(memory_bytes(&[]), None);
    }
}
