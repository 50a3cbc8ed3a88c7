use std::fs;
use std::time::Duration;

use super::*;

/// The files of a `/proc` in the format of Linux 6.1.
const BEFORE: [(&str, &str); 10] = [
    (
        "stat",
        "cpu  1000 100 500 8000 200 30 20 150 40 0\ncpu0 500 50 250 4000 100 15 10 75 20 0\n\
        cpu1 500 50 250 4000 100 15 10 75 20 0\nintr 1 2\nctxt 9\nbtime 1700000000\nprocesses 77\n\
        procs_running 2\nprocs_blocked 0\nsoftirq 1 2\n",
    ),
    ("loadavg", "0.10 1.25 2.00 2/345 6789\n"),
    (
        "meminfo",
        "MemTotal:        8000000 kB\nMemFree:         1000000 kB\nMemAvailable:    5000000 kB\n\
        Buffers:          100000 kB\nCached:          3000000 kB\nSwapCached:            0 kB\nActive:          1 kB\n\
        Inactive:        1 kB\nSwapTotal:       2000000 kB\nSwapFree:        1500000 kB\nDirty:           1 kB\n\
        Writeback:       0 kB\nMapped:          1 kB\nSlab:            1 kB\nCommitted_AS:    1 kB\n\
        VmallocTotal:    1 kB\nVmallocUsed:     1 kB\nVmallocChunk:    1 kB\n",
    ),
    (
        "pressure/cpu",
        "some avg10=1.57 avg60=0.80 avg300=0.20 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    ),
    (
        "pressure/memory",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    ),
    (
        "diskstats",
        "   8       0 sda 100 0 2000 10 50 0 1000 20 0 500 30 0 0 0 0 0 0\n\
           8       1 sda1 100 0 2000 10 50 0 1000 20 0 500 30 0 0 0 0 0 0\n\
         259       0 nvme0n1 10 0 200 1 5 0 100 2 0 50 3 0 0 0 0 0 0\n\
         259       1 nvme0n1p1 10 0 200 1 5 0 100 2 0 50 3 0 0 0 0 0 0\n\
         253       0 dm-0 100 0 2000 10 50 0 1000 20 0 500 30 0 0 0 0 0 0\n\
           8      16 sdb 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n\
           7       0 loop0 9 0 9 9 9 0 9 9 0 9 9 0 0 0 0 0 0\n",
    ),
    (
        "self/net/dev",
        "Inter-|   Receive                                                |  Transmit\n \
        face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
        lo: 999 9 0 0 0 0 0 0 999 9 0 0 0 0 0 0\n  eth0: 10000 100 1 2 0 0 0 0 20000 200 0 0 0 0 0 0\n\
        veth1a: 500 5 0 0 0 0 0 0 500 5 0 0 0 0 0 0\n",
    ),
    (
        "7/stat",
        "7 (game server) S 1 7 7 0 -1 4194560 10 0 0 0 100 50 0 0 20 0 3 0 5000 90000000 1000 \
        18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
    ),
    (
        "8/stat",
        "8 (game server) R 1 7 7 0 -1 4194560 10 0 0 0 10 0 0 0 20 0 3 0 5001 90000000 500 \
        18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
    ),
    (
        "9/stat",
        "9 (kworker/0:1-x) D 2 0 0 0 -1 69238880 0 0 0 0 0 0 0 0 20 0 1 0 60 0 0 \
        18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
    ),
];

/// The files that changed ten seconds later.
const AFTER: [(&str, &str); 4] = [
    (
        "stat",
        "cpu  1500 100 700 9000 280 50 50 320 40 0\ncpu0 1 1 1 1 1 1 1 1 1 0\ncpu1 1 1 1 1 1 1 1 1 1 0\nintr 1 2\n\
        ctxt 9\nbtime 1700000000\nprocesses 77\nprocs_running 2\nprocs_blocked 0\nsoftirq 1 2\n",
    ),
    (
        "diskstats",
        "   8       0 sda 200 0 4000 10 150 0 21000 20 0 3000 30 0 0 0 0 0 0\n\
            8       1 sda1 200 0 4000 10 150 0 21000 20 0 3000 30 0 0 0 0 0 0\n\
          259       0 nvme0n1 10 0 200 1 5 0 100 2 0 50 3 0 0 0 0 0 0\n\
          259       1 nvme0n1p1 10 0 900 1 5 0 900 2 0 50 3 0 0 0 0 0 0\n\
          253       0 dm-0 200 0 4000 10 150 0 21000 20 0 3000 30 0 0 0 0 0 0\n\
            7       0 loop0 9 0 999 9 9 0 999 9 0 9 9 0 0 0 0 0 0\n",
    ),
    (
        "self/net/dev",
        "Inter-|   Receive                                                |  Transmit\n \
        face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n  \
        eth0: 30000 100 1 7 0 0 0 0 20500 200 0 0 0 0 0 0\n",
    ),
    (
        "7/stat",
        "7 (game server) S 1 7 7 0 -1 4194560 10 0 0 0 500 150 0 0 20 0 3 0 5000 90000000 1000 \
        18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
    ),
];

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("it is in the folder")).expect("the folder can be created");
        fs::write(path, text).expect("the file can be written");
    }
}

/// Opens a host with `/proc` and `/sys` in the same folder.
fn open(folder: &Path) -> Host {
    Host::open(folder.to_owned(), folder.to_owned()).expect("it has a stat")
}

/// Returns the second reading, ten seconds after the first, as text.
fn second_reading(before: &[(&str, &str)], after: &[(&str, &str)]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), before);
    let mut host = open(folder.path());
    let at = Instant::now();
    host.read(&mut Reading::new(0), at);
    write(folder.path(), after);
    let mut reading = Reading::new(10_000);
    host.read(&mut reading, at + Duration::from_secs(10));
    reading.summary()
}

/// Checks the values of all metrics with this prefix in the second reading.
fn check(prefix: &str, expected: &[&str]) {
    let values = second_reading(&BEFORE, &AFTER);
    let matching = values.iter().filter(|value| value.starts_with(prefix)).collect::<Vec<_>>();
    assert_eq!(matching, expected, "{prefix} of {values:#?}");
}

#[test]
fn cpu_time_is_reported_by_mode() {
    // 2,000 ticks: 500 user, 250 system and interrupts, 1,000 idle, 80 waiting for disks, 170 stolen.
    check(
        "host.cpu",
        &[
            "host.cpu 46",
            "host.cpu_user 25",
            "host.cpu_system 12.5",
            "host.cpu_iowait 4",
            "host.cpu_steal 8.5",
        ],
    );
    check("host.cores", &["host.cores 2"]);
    check("host.load", &["host.load_1 0.1", "host.load_5 1.25", "host.load_15 2"]);
}

#[test]
fn memory_that_the_kernel_can_free_is_not_used() {
    check(
        "host.memory",
        &["host.memory_total 8192000000", "host.memory_available 5120000000", "host.memory_used 3072000000"],
    );
    check("host.swap", &["host.swap_total 2048000000", "host.swap_used 512000000"]);
}

#[test]
fn missing_or_damaged_files_are_skipped() {
    check("host.pressure", &["host.pressure_cpu 1.57", "host.pressure_memory 0"]);
    let values = second_reading(&BEFORE[..1], &[]);
    assert_eq!(values, ["host.cores 2"], "no CPU time has passed");
    for damaged in ["", "cpu\n", "cpu  x\n", "\u{0}"] {
        second_reading(
            &[("stat", damaged), ("meminfo", damaged), ("diskstats", damaged), ("7/stat", damaged)],
            &[],
        );
    }
}

#[test]
fn partitions_and_virtual_devices_are_not_counted_twice() {
    check(
        "device.",
        &[
            "device.read sda 102400",
            "device.write sda 1024000",
            "device.busy sda 25",
            "device.read nvme0n1 0",
            "device.write nvme0n1 0",
            "device.busy nvme0n1 0",
        ],
    );
    check("host.disk_", &["host.disk_read 102400", "host.disk_write 1024000"]);
}

/// Checks which of the devices are reported as disks.
fn check_disks(all: &[&str], expected: &[&str]) {
    let line = |name: &&str| format!("   8       0 {name} 1 0 2 1 5 0 1 2 0 5 3 0 0 0 0 0 0\n");
    let stats: String = all.iter().map(line).collect();
    let values = second_reading(&[BEFORE[0], ("diskstats", &stats)], &[]);
    let disks: Vec<&str> = values.iter().filter_map(|value| value.strip_prefix("device.busy ")).collect();
    assert_eq!(disks, expected, "of {all:?}");
}

#[test]
fn partition_is_distinguished_from_a_disk_with_the_same_prefix() {
    check_disks(&["rbd1", "rbd10", "rbd1p1", "rbd10p12"], &["rbd1 0", "rbd10 0"]);
    check_disks(&["nvme0n1", "nvme0n10", "nvme0n1p2"], &["nvme0n1 0", "nvme0n10 0"]);
    check_disks(&["sda", "sda1", "sda10", "sdaa", "sdaa2"], &["sda 0", "sdaa 0"]);
    check_disks(&["mmcblk0", "mmcblk0boot0", "mmcblk0p1"], &["mmcblk0 0", "mmcblk0boot0 0"]);
}

/// Checks whether a file system of this type and source is reported.
fn check_mount(fs_type: &str, source: &str, is_reported: bool) {
    let mount = format!("22 1 8:1 / / ro,relatime shared:1 - {fs_type} {source} ro\n");
    let values = second_reading(&[BEFORE[0], ("self/mountinfo", &mount)], &[]);
    for metric in ["host.disk_full ", "mount.used / ", "mount.total / "] {
        let is_present = values.iter().any(|value| value.starts_with(metric));
        assert_eq!(is_present, is_reported, "{metric}of {fs_type} {source} in {values:#?}");
    }
}

#[test]
fn read_only_and_remote_file_systems_are_not_reported() {
    check_mount("ext4", "/dev/sda1", true);
    check_mount("overlay", "overlay", true);
    check_mount("zfs", "tank/root", true);
    for fs_type in ["iso9660", "udf", "squashfs", "erofs"] {
        check_mount(fs_type, "/dev/sr0", false);
    }
    check_mount("nfs4", "host:/files", false);
}

#[test]
fn virtual_interfaces_are_not_reported() {
    check(
        "interface.",
        &["interface.received eth0 2000", "interface.sent eth0 50", "interface.errors eth0 0.5"],
    );
    check("host.network", &["host.network_received 2000", "host.network_sent 50", "host.network_errors 0.5"]);
}

/// Checks the bytes per second of a host whose interfaces received this many bytes; `hardware` lists the physical ones.
fn check_received(interfaces: &[(&str, u64)], hardware: &[&str], expected: &str) {
    let dev = |times: u64| -> String {
        let line = |(name, bytes): &(&str, u64)| {
            format!("{name}: {} 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n", bytes * times)
        };
        let lines: String = interfaces.iter().map(line).collect();
        format!("Inter-|\n face |\n{lines}")
    };
    let devices: Vec<String> =
        hardware.iter().map(|name| format!("class/net/{name}/device/vendor")).collect();
    let (first, second) = (dev(1), dev(2));
    let mut before = vec![BEFORE[0], ("self/net/dev", &first)];
    before.extend(devices.iter().map(|path| (path.as_str(), "0x8086\n")));
    let values = second_reading(&before, &[("self/net/dev", &second)]);
    let received: Vec<&str> =
        values.iter().filter_map(|value| value.strip_prefix("host.network_received ")).collect();
    assert_eq!(received, [expected], "of {interfaces:?}");
    let parts = values.iter().filter(|value| value.starts_with("interface.received ")).count();
    assert_eq!(parts, interfaces.len(), "each interface is reported: {values:#?}");
}

#[test]
fn only_hardware_interfaces_count_in_the_total() {
    check_received(&[("eth0", 100), ("eth1", 200), ("bond0", 300)], &["eth0", "eth1"], "30");
    check_received(
        &[("enp1s0", 100), ("enp1s0.7", 50), ("wg0", 20), ("bridge", 90)],
        &["enp1s0", "wlan0"],
        "10",
    );
    check_received(&[("eth0", 100), ("eth1", 200)], &[], "30");
}

#[test]
fn processes_with_the_same_name_are_added_up() {
    check(
        "host.processes",
        &[
            "host.processes 3",
            "host.processes_running 1",
            "host.processes_blocked 1",
            "host.processes_zombie 0",
        ],
    );
    let page = rustix::param::page_size();
    let cpu = 100.0 * 50.0 / rustix::param::clock_ticks_per_second() as f64 / 2.0;
    check(
        "process.",
        &[&format!("process.cpu game server {cpu}"), &format!("process.memory game server {}", 1_500 * page)],
    );
}

#[test]
fn large_process_is_reported_for_five_more_minutes() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), &BEFORE[..1]);
    let (mut host, start) = (open(folder.path()), Instant::now());
    let mut check = |seconds: u64, pages: &[(&str, u64)], expected: &[(&str, u64)]| {
        for (pid, (name, pages)) in (1..).zip(pages) {
            let stat = format!("{pid} ({name}) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 3 0 {pid} 1 {pages}");
            write(folder.path(), &[(&format!("{pid}/stat"), &format!("{stat}{}\n", " 0".repeat(28)))]);
        }
        let mut reading = Reading::new(seconds as i64 * 1_000);
        host.read(&mut reading, start + Duration::from_secs(seconds));
        let page = rustix::param::page_size() as u64;
        let expected: Vec<String> =
            expected.iter().map(|(name, pages)| format!("process.memory {name} {}", pages * page)).collect();
        let values = reading.summary().into_iter();
        let actual: Vec<String> = values.filter(|value| value.starts_with("process.memory ")).collect();
        assert_eq!(actual, expected, "after {seconds} s");
    };
    let large = [("a", 9), ("b", 9), ("c", 9), ("d", 9), ("e", 9), ("f", 1)];
    check(0, &large, &large[..5]);
    let later = [("gone", 0), ("b", 9), ("c", 9), ("d", 9), ("e", 2), ("f", 3), ("g", 4)];
    let reported = [("a", 0), ("b", 9), ("c", 9), ("d", 9), ("e", 2), ("f", 3), ("g", 4)];
    check(10, &later, &reported);
    check(299, &later, &reported);
    check(300, &later, &[("b", 9), ("c", 9), ("d", 9), ("f", 3), ("g", 4)]);
}

#[test]
fn reported_process_names_are_limited_per_day() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), &BEFORE[..1]);
    let mut host = open(folder.path());
    let mut names = std::collections::HashSet::new();
    for round in 0..100 {
        let stat = BEFORE[7].1.replace("game server", &format!("job{round}"));
        write(folder.path(), &[("7/stat", &stat)]);
        let mut reading = Reading::new(round * 10_000);
        host.read(&mut reading, Instant::now());
        let values = reading.summary().into_iter();
        let reported = values
            .filter_map(|value| value.strip_prefix("process.memory ")?.split(' ').next().map(str::to_owned));
        names.extend(reported);
    }
    assert_eq!(names.len(), 64);
}

#[test]
fn missing_proc_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let error =
        Host::open(folder.path().join("proc"), "/sys".into()).err().expect("it does not exist").to_string();
    assert!(error.starts_with("the agent only supports Linux; cannot read"), "{error}");
}

#[test]
fn real_host_is_read() {
    let mut host = Host::open("/proc".into(), "/sys".into()).expect("tests run on Linux");
    host.read(&mut Reading::new(0), Instant::now());
    std::thread::sleep(Duration::from_millis(200));
    let mut reading = Reading::new(0);
    host.read(&mut reading, Instant::now());
    let values = reading.summary();
    for metric in ["host.cpu ", "host.memory_total ", "host.disk_full ", "mount.used / ", "host.processes "] {
        assert!(values.iter().any(|value| value.starts_with(metric)), "{metric} in {values:#?}");
    }
}
