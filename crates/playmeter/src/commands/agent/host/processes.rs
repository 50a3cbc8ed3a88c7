//! Processes: how many, in which state, and the largest by processor time and by memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use procfs_core::FromRead;
use procfs_core::process::Stat;

use super::system;
use crate::commands::agent::rate::Meters;
use crate::commands::agent::reading::{Parts, Reading};

/// Names that are told of by each of the two.
const TOP: usize = 5;
/// A name that was among them is told of for so long: a mean over these minutes has its small values as well.
const TOLD_FOR: Duration = Duration::from_secs(5 * 60);

/// Remembers the totals of the last reading.
#[derive(Default)]
pub(super) struct Processes {
    meters: Meters,
    names: Parts,
    /// Names that are told of, no more than `names` has room for, and when they were last among the largest.
    told: BTreeMap<String, Instant>,
}

/// All processes of one name. Pages that they share are counted for each.
#[derive(Default)]
struct Named {
    /// Share of all processors, in percent.
    cpu: f64,
    memory: f64,
}

impl Processes {
    pub(super) fn read(&mut self, proc: &Path, reading: &mut Reading, at: Instant, cores: usize) {
        let all = all(proc);
        if all.is_empty() {
            return;
        }
        states(&all, reading);
        let named = self.by_name(&all, at, cores);
        self.meters.keep(at);
        self.remember(largest(&named), reading.at_ms, at);
        for name in self.told.keys() {
            let (cpu, memory) = named.get(name.as_str()).map_or((0.0, 0.0), |of| (of.cpu, of.memory));
            reading.add_part("process.cpu", name, cpu);
            reading.add_part("process.memory", name, memory);
        }
    }

    fn remember(&mut self, largest: BTreeSet<&str>, at_ms: i64, at: Instant) {
        for name in largest.into_iter().filter(|name| self.names.admit(name, at_ms)) {
            self.told.insert(name.to_owned(), at);
        }
        // Another day has room for other names: those of yesterday ask again.
        self.told.retain(|name, last| {
            at.saturating_duration_since(*last) < TOLD_FOR && self.names.admit(name, at_ms)
        });
    }

    fn by_name<'a>(&mut self, all: &'a [Stat], at: Instant, cores: usize) -> HashMap<&'a str, Named> {
        let mut named: HashMap<&str, Named> = HashMap::new();
        let system = system();
        for process in all {
            let ticks = (process.utime + process.stime) as f64;
            // A number may be given to another process, which began later.
            let id = format!("{} {}", process.pid, process.starttime);
            let ticks = self.meters.per_second(&id, ticks, at).unwrap_or_default();
            let of = named.entry(name(process)).or_default();
            of.cpu += 100.0 * ticks / system.ticks_per_second as f64 / cores as f64;
            of.memory += (process.rss * system.page_size) as f64;
        }
        named
    }
}

/// Every process that can be read. One may end while the others are read.
fn all(proc: &Path) -> Vec<Stat> {
    let Ok(entries) = fs::read_dir(proc) else { return Vec::new() };
    let is_process = |name: &std::ffi::OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    let processes = entries.flatten().filter(|entry| is_process(&entry.file_name()));
    processes.filter_map(|entry| Stat::from_file(entry.path().join("stat")).ok()).collect()
}

/// The names with the most processor time and those with the most memory, each once.
fn largest<'a>(named: &HashMap<&'a str, Named>) -> BTreeSet<&'a str> {
    let mut largest = BTreeSet::new();
    for by in [|of: &Named| of.cpu, |of: &Named| of.memory] {
        let all = named.iter().map(|(name, of)| (*name, by(of)));
        let mut all: Vec<(&str, f64)> = all.filter(|(_, value)| *value > 0.0).collect();
        all.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(other.0)));
        largest.extend(all.into_iter().take(TOP).map(|(name, _)| name));
    }
    largest
}

/// Threads of the kernel carry numbers behind a slash: `kworker/0:1`.
fn name(process: &Stat) -> &str {
    process.comm.split('/').next().unwrap_or_default()
}

fn states(all: &[Stat], reading: &mut Reading) {
    let in_state = |state| all.iter().filter(|process| process.state == state).count() as f64;
    reading.add("host.processes", all.len() as f64);
    reading.add("host.processes_running", in_state('R'));
    reading.add("host.processes_blocked", in_state('D'));
    reading.add("host.processes_zombie", in_state('Z'));
}
