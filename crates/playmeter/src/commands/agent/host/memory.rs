//! Memory and swap, in bytes.

use std::path::Path;

use procfs_core::Meminfo;

use super::parse_file;
use crate::commands::agent::reading::Reading;

/// Adds the memory metrics. Caches that the kernel can free do not count as used.
pub(super) fn read(proc: &Path, reading: &mut Reading) {
    let Ok(memory) = parse_file::<Meminfo>(proc, "meminfo") else { return };
    // Kernels before 3.14 do not have MemAvailable.
    let available = memory.mem_available.unwrap_or(memory.mem_free + memory.buffers + memory.cached);
    reading.add("host.memory_total", memory.mem_total as f64);
    reading.add("host.memory_available", available as f64);
    reading.add("host.memory_used", memory.mem_total.saturating_sub(available) as f64);
    reading.add("host.swap_total", memory.swap_total as f64);
    reading.add("host.swap_used", memory.swap_total.saturating_sub(memory.swap_free) as f64);
}
