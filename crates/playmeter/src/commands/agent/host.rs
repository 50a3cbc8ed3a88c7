//! The metrics of a Linux host, from `/proc` and, for network interfaces, `/sys`.
//!
//! Parsed by `procfs-core`, which accepts text from any source and supports CPU modes and pressure. It adds 5 CPU-seconds
//! to the build and 0.1 MB to the program. `sysinfo` supports more systems, but neither of these two, nor disk
//! utilisation. Without `/proc` the agent fails to start.

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

/// A host, with the last values of its counters.
pub(crate) struct Host {
    proc: PathBuf,
    sys: PathBuf,
    cpu: cpu::CpuReader,
    disks: disks::DiskReader,
    network: network::NetworkReader,
    processes: processes::ProcessReader,
}

impl Host {
    /// Opens the host whose `/proc` and `/sys` are these folders. Fails if `/proc` cannot be read.
    pub(crate) fn open(proc: PathBuf, sys: PathBuf) -> anyhow::Result<Host> {
        let stat = proc.join("stat");
        std::fs::metadata(&stat)
            .with_context(|| format!("the agent only supports Linux; cannot read {}", stat.display()))?;
        Ok(Host {
            proc,
            sys,
            cpu: cpu::CpuReader::default(),
            disks: disks::DiskReader::default(),
            network: network::NetworkReader::default(),
            processes: processes::ProcessReader::default(),
        })
    }

    /// Adds the values that can be read. Rates are available from the second reading on.
    ///
    /// A missing or unknown file only omits its own values: kernels and containers differ in the files that they provide.
    pub(crate) fn read(&mut self, reading: &mut Reading, at: Instant) {
        let cores = self.cpu.read(&self.proc, reading);
        memory::read(&self.proc, reading);
        self.disks.read(&self.proc, reading, at);
        self.network.read(&self.proc, &self.sys, reading, at);
        self.processes.read(&self.proc, reading, at, cores);
    }
}

fn parse_file<T: FromRead>(proc: &Path, name: &str) -> ProcResult<T> {
    T::from_file(proc.join(name))
}

/// The sizes of ticks and pages.
fn system_info() -> ExplicitSystemInfo {
    ExplicitSystemInfo {
        boot_time_secs: 0,
        ticks_per_second: rustix::param::clock_ticks_per_second(),
        page_size: rustix::param::page_size() as u64,
        is_little_endian: cfg!(target_endian = "little"),
    }
}
