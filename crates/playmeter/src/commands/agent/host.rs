//! What Linux tells of a host in `/proc`, and of its network interfaces in `/sys`.
//!
//! Parsed by `procfs-core`, which takes the files' text from anywhere and knows the modes of the processors and pressure;
//! it costs 5 CPU-seconds of building and 0.1 MB. `sysinfo` reads more systems but neither of these two, nor how busy a
//! disk is. Where there is no `/proc` the agent says so and ends.

mod cpu;
mod disks;
mod memory;
mod network;
mod processes;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use procfs_core::{ExplicitSystemInfo, FromRead, ProcResult};

use super::reading::Reading;

/// Reads a host, and remembers what it read last for what is told by the second.
pub struct Host {
    proc: PathBuf,
    sys: PathBuf,
    cpu: cpu::Cpu,
    disks: disks::Disks,
    network: network::Network,
    processes: processes::Processes,
}

impl Host {
    /// The host whose `/proc` and `/sys` are these folders.
    pub fn open(proc: PathBuf, sys: PathBuf) -> anyhow::Result<Host> {
        let stat = proc.join("stat");
        std::fs::metadata(&stat)
            .with_context(|| format!("the agent reads Linux hosts, and cannot read {}", stat.display()))?;
        Ok(Host {
            proc,
            sys,
            cpu: cpu::Cpu::default(),
            disks: disks::Disks::default(),
            network: network::Network::default(),
            processes: processes::Processes::default(),
        })
    }

    /// Adds what can be read. Rates come with the second reading.
    ///
    /// A file that is not there or reads otherwise costs its own values alone: kernels and containers differ in what
    /// they show.
    pub fn read(&mut self, reading: &mut Reading, at: Instant) {
        let cores = self.cpu.read(&self.proc, reading);
        memory::read(&self.proc, reading);
        self.disks.read(&self.proc, reading, at);
        self.network.read(&self.proc, &self.sys, reading, at);
        self.processes.read(&self.proc, reading, at, cores);
    }
}

fn file<T: FromRead>(proc: &Path, name: &str) -> ProcResult<T> {
    T::from_file(proc.join(name))
}

/// Ticks and pages, as the kernel counts them for programs.
fn system() -> ExplicitSystemInfo {
    ExplicitSystemInfo {
        boot_time_secs: 0,
        ticks_per_second: rustix::param::clock_ticks_per_second(),
        page_size: rustix::param::page_size() as u64,
        is_little_endian: cfg!(target_endian = "little"),
    }
}
