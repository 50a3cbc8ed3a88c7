//! The operating system's figures for this process and its files.

use std::path::Path;

use serde_json::{Value, json};

/// Returns `{cpu_s, memory_bytes, threads, open_files}`; `null` where the system has no figure.
pub(super) fn figures() -> Value {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let open_files = std::fs::read_dir("/proc/self/fd").map(|files| files.count() as u64).ok();
    json!({
        "cpu_s": cpu_s(),
        "memory_bytes": status_number(&status, "VmRSS:").map(|kib| kib * 1024),
        "threads": status_number(&status, "Threads:"),
        "open_files": open_files,
    })
}

/// Returns the CPU time of all threads in seconds.
fn cpu_s() -> Option<f64> {
    let usage = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(usage.tv_sec as f64 + usage.tv_nsec as f64 / 1e9)
}

fn status_number(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the total bytes of all files below a folder. Files that are created or deleted meanwhile may be missed.
pub(super) fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => folder_bytes(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_field_is_found_by_name() {
        let status = "Name:\tplaymeter\nVmRSS:\t   13540 kB\nThreads:\t9\n";
        assert_eq!(status_number(status, "VmRSS:"), Some(13_540));
        assert_eq!(status_number(status, "Threads:"), Some(9));
        assert_eq!(status_number(status, "VmSwap:"), None);
    }
}
