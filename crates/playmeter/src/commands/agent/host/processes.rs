//! Processes: their number by state, and the largest ones by CPU time and by memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use procfs_core::FromRead;
use procfs_core::process::Stat;

use super::system_info;
use crate::commands::agent::rate::CounterRates;
use crate::commands::agent::reading::{PartLimit, Reading};

/// Number of names reported by CPU time, and by memory.
const TOP_COUNT: usize = 5;
/// Time for which a name is reported after it was last among the largest, so that means over some minutes include its
/// small values.
const REPORT_DURATION: Duration = Duration::from_secs(5 * 60);

/// Reads process metrics.
#[derive(Default)]
pub(super) struct ProcessReader {
    rates: CounterRates,
    names: PartLimit,
    /// Reported names, limited by `names`, with the time when they were last among the largest.
    reported: BTreeMap<String, Instant>,
}

/// All processes with the same name. Shared pages count once per process.
#[derive(Default)]
struct ProcessGroup {
    /// Percentage of all cores.
    cpu: f64,
    memory: f64,
}

impl ProcessReader {
    pub(super) fn read(&mut self, proc: &Path, reading: &mut Reading, at: Instant, cores: usize) {
        let all = read_all(proc);
        if all.is_empty() {
            return;
        }
        add_states(&all, reading);
        let groups = self.by_name(&all, at, cores);
        self.rates.retain_read_at(at);
        self.select(largest(&groups), reading.at_ms, at);
        for name in self.reported.keys() {
            let (cpu, memory) =
                groups.get(name.as_str()).map_or((0.0, 0.0), |group| (group.cpu, group.memory));
            reading.add_part("process.cpu", name, cpu);
            reading.add_part("process.memory", name, memory);
        }
    }

    /// Adds names to the reported ones and removes those that have expired.
    fn select(&mut self, largest: BTreeSet<&str>, at_ms: i64, at: Instant) {
        for name in largest.into_iter().filter(|name| self.names.admit(name, at_ms)) {
            self.reported.insert(name.to_owned(), at);
        }
        // The limit is per day, so names of yesterday have to be admitted again.
        self.reported.retain(|name, last| {
            at.saturating_duration_since(*last) < REPORT_DURATION && self.names.admit(name, at_ms)
        });
    }

    fn by_name<'a>(&mut self, all: &'a [Stat], at: Instant, cores: usize) -> HashMap<&'a str, ProcessGroup> {
        let mut groups: HashMap<&str, ProcessGroup> = HashMap::new();
        let system = system_info();
        for process in all {
            let ticks = (process.utime + process.stime) as f64;
            // A pid may be reused by a process that started later.
            let id = format!("{} {}", process.pid, process.starttime);
            let ticks = self.rates.per_second(&id, ticks, at).unwrap_or_default();
            let group = groups.entry(name(process)).or_default();
            group.cpu += 100.0 * ticks / system.ticks_per_second as f64 / cores as f64;
            group.memory += (process.rss * system.page_size) as f64;
        }
        groups
    }
}

/// Reads all processes. A process that ends meanwhile is skipped.
fn read_all(proc: &Path) -> Vec<Stat> {
    let Ok(entries) = fs::read_dir(proc) else { return Vec::new() };
    let is_process = |name: &std::ffi::OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let processes = entries.flatten().filter(|entry| is_process(&entry.file_name()));
    processes.filter_map(|entry| Stat::from_file(entry.path().join("stat")).ok()).collect()
}

/// Returns the names with the most CPU time and those with the most memory, without duplicates.
fn largest<'a>(groups: &HashMap<&'a str, ProcessGroup>) -> BTreeSet<&'a str> {
    let mut largest = BTreeSet::new();
    for value in [|group: &ProcessGroup| group.cpu, |group: &ProcessGroup| group.memory] {
        let all = groups.iter().map(|(name, group)| (*name, value(group)));
        let mut all: Vec<(&str, f64)> = all.filter(|(_, value)| *value > 0.0).collect();
        all.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(other.0)));
        largest.extend(all.into_iter().take(TOP_COUNT).map(|(name, _)| name));
    }
    largest
}

/// Returns the name without the number behind the slash that kernel threads have: `kworker/0:1`.
fn name(process: &Stat) -> &str {
    process.comm.split('/').next().unwrap_or_default()
}

fn add_states(all: &[Stat], reading: &mut Reading) {
    let in_state = |state| all.iter().filter(|process| process.state == state).count() as f64;
    reading.add("host.processes", all.len() as f64);
    reading.add("host.processes_running", in_state('R'));
    reading.add("host.processes_blocked", in_state('D'));
    reading.add("host.processes_zombie", in_state('Z'));
}
