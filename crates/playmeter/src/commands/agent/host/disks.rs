//! Usage of file systems, and throughput and utilisation of disks.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use procfs_core::process::{MountInfo, MountInfos};
use procfs_core::{DiskStat, DiskStats};

use super::parse_file;
use crate::commands::agent::rate::CounterRates;
use crate::commands::agent::reading::{PartLimit, Reading};

/// The unit of `/proc/diskstats`, independent of the sector size of the disk.
const SECTOR_BYTES: f64 = 512.0;
/// Prefixes of devices that are not disks, or that consist of disks that are counted themselves.
const NOT_DISKS: [&str; 8] = ["loop", "ram", "zram", "sr", "fd", "dm-", "md", "nbd"];
/// File systems that store data of this host without a device of their own. File systems of other hosts are excluded:
/// `statvfs` on them may block forever.
const WITHOUT_DEVICE: [&str; 2] = ["zfs", "btrfs"];
/// Read-only file systems, which are always full.
const READ_ONLY: [&str; 4] = ["iso9660", "udf", "squashfs", "erofs"];

/// Reads disk and file system metrics.
#[derive(Default)]
pub(super) struct DiskReader {
    rates: CounterRates,
    devices: PartLimit,
    mounts: PartLimit,
}

impl DiskReader {
    pub(super) fn read(&mut self, proc: &Path, reading: &mut Reading, at: Instant) {
        if let Ok(stats) = parse_file::<DiskStats>(proc, "diskstats") {
            self.add_throughput(&stats.0, reading, at);
        }
        if let Ok(mounts) = parse_file::<MountInfos>(proc, "self/mountinfo") {
            self.add_usage(mounts, reading);
        }
        self.rates.retain_read_at(at);
    }

    fn add_throughput(&mut self, all: &[DiskStat], reading: &mut Reading, at: Instant) {
        let mut sum = None;
        for disk in all.iter().filter(|disk| is_disk(disk, all)) {
            let [read, write, busy] = [
                ("read", disk.sectors_read as f64 * SECTOR_BYTES),
                ("write", disk.sectors_written as f64 * SECTOR_BYTES),
                ("busy", disk.time_in_progress as f64),
            ]
            .map(|(counter, total)| self.rates.per_second(&format!("{} {counter}", disk.name), total, at));
            if let (Some(read), Some(write)) = (read, write) {
                let (reads, writes) = sum.get_or_insert((0.0, 0.0));
                (*reads, *writes) = (*reads + read, *writes + write);
            }
            if self.devices.admit(&disk.name, reading.at_ms) {
                reading.add_part("device.read", &disk.name, read);
                reading.add_part("device.write", &disk.name, write);
                // Milliseconds per second are tenths of a percent. The clock of the kernel may be slightly ahead.
                reading.add_part("device.busy", &disk.name, busy.map(|busy| (busy / 10.0).min(100.0)));
            }
        }
        reading.add("host.disk_read", sum.map(|(read, _)| read));
        reading.add("host.disk_write", sum.map(|(_, write)| write));
    }

    fn add_usage(&mut self, mounts: MountInfos, reading: &mut Reading) {
        let mut fullest: Option<f64> = None;
        for (_, mount) in by_device(mounts) {
            let Some((used, total)) = used_and_total(&mount) else { continue };
            let share = 100.0 * used / total;
            fullest = Some(fullest.map_or(share, |fullest| fullest.max(share)));
            let name = mount.mount_point.to_string_lossy();
            if self.mounts.admit(&name, reading.at_ms) {
                reading.add_part("mount.used", &name, used);
                reading.add_part("mount.total", &name, total);
            }
        }
        reading.add("host.disk_full", fullest);
    }
}

/// Returns true for a whole disk that was ever used. Partitions are part of the numbers of their disk.
fn is_disk(disk: &DiskStat, all: &[DiskStat]) -> bool {
    let is_part_of = |whole: &DiskStat| {
        let rest = disk.name.strip_prefix(&whole.name).unwrap_or_default();
        // If the name of a disk ends with a digit, the kernel puts a `p` before the number of the partition.
        let ends_with_digit = whole.name.ends_with(|character: char| character.is_ascii_digit());
        let digits = if ends_with_digit { rest.strip_prefix('p').unwrap_or_default() } else { rest };
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let was_used = disk.reads + disk.writes > 0;
    was_used && !NOT_DISKS.iter().any(|prefix| disk.name.starts_with(prefix)) && !all.iter().any(is_part_of)
}

/// Returns one mount per file system, the one with the shortest path: bind mounts repeat the same file system.
fn by_device(mounts: MountInfos) -> BTreeMap<String, MountInfo> {
    let mut found: BTreeMap<String, MountInfo> = BTreeMap::new();
    for mut mount in mounts.0.into_iter().filter(stores_data) {
        mount.mount_point = unescaped(&mount.mount_point);
        let length = |mount: &MountInfo| mount.mount_point.as_os_str().len();
        let has_shorter = found.get(&mount.majmin).is_some_and(|other| length(other) <= length(&mount));
        if !has_shorter {
            found.insert(mount.majmin.clone(), mount);
        }
    }
    found
}

/// Decodes the octal escapes (`\040`) that the kernel writes for spaces, tabs, newlines and backslashes.
fn unescaped(path: &Path) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = path.as_os_str().as_encoded_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|_| *first == b'\\').and_then(|digits| str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

fn stores_data(mount: &MountInfo) -> bool {
    let source = mount.mount_source.as_deref().unwrap_or_default();
    let is_on_device = source.starts_with("/dev/") && !source.starts_with("/dev/loop");
    let is_root_of_container = mount.fs_type == "overlay" && mount.mount_point == Path::new("/");
    let fs_type = mount.fs_type.as_str();
    let is_writable = !READ_ONLY.contains(&fs_type);
    is_writable && (is_on_device || is_root_of_container || WITHOUT_DEVICE.contains(&fs_type))
}

/// Returns used and total bytes as `df` does: blocks that are reserved for root count as neither.
fn used_and_total(mount: &MountInfo) -> Option<(f64, f64)> {
    let space = rustix::fs::statvfs(&mount.mount_point).ok()?;
    let bytes = |blocks: u64| blocks as f64 * space.f_frsize as f64;
    let used = bytes(space.f_blocks.saturating_sub(space.f_bfree));
    let total = used + bytes(space.f_bavail);
    (total > 0.0).then_some((used, total))
}
