"""What must be known about a machine to judge a failed run on it."""

import os
import shutil
import subprocess
import time
from pathlib import Path

FREE_BYTES_MIN = 20_000_000_000
FSYNCS = 200


def find_missing_space(root):
    """Returns a problem if the disk has less space than a first build and the tests need."""
    free = shutil.disk_usage(root).free
    if free < FREE_BYTES_MIN:
        return f"{free / 1e9:.1f} GB of disk are free, {FREE_BYTES_MIN / 1e9:.0f} GB are needed"
    return None


def measure_fsync_ms(folder):
    """Returns the p99 of writing and syncing 4 KiB, in milliseconds."""
    path, times = Path(folder) / "fsync", []
    with open(path, "wb", buffering=0) as file:
        for _ in range(FSYNCS):
            started_s = time.perf_counter()
            file.write(bytes(4096))
            os.fsync(file.fileno())
            times.append(time.perf_counter() - started_s)
    path.unlink()
    return sorted(times)[FSYNCS * 99 // 100] * 1000


def read_cpu_stall_s():
    """Returns the seconds since the start of the machine in which a task waited for a CPU, or `None` if not known."""
    try:
        some = Path("/proc/pressure/cpu").read_text().splitlines()[0]
    except OSError:
        return None
    return int(some.rpartition("total=")[2]) / 1e6


def read_version(*command):
    """Returns the first line that a program prints about its version."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return f"no {command[0]}"
    return next(iter(done.stdout.splitlines()), f"no {command[0]}").strip()


class Machine:
    """Facts of the machine from the start of a run to its end."""

    def __init__(self, root, scratch):
        self.root, self.started_s = root, time.monotonic()
        self.fsync_ms, self.stall_s = measure_fsync_ms(scratch), read_cpu_stall_s()

    def describe(self):
        """Returns two lines: versions, and the state of the disk and the CPUs."""
        versions = read_version("rustc", "--version"), "node " + read_version("node", "--version")
        versions += (read_version("chromium", "--version"),)
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        stall_s, elapsed_s = read_cpu_stall_s(), max(time.monotonic() - self.started_s, 0.001)
        stalled = "unknown" if stall_s is None else f"{100 * (stall_s - self.stall_s) / elapsed_s:.0f} % of the run"
        free = shutil.disk_usage(self.root).free / 1e9
        state = f"{os.cpu_count()} CPUs, load {load}, CPU pressure {stalled}, {free:.1f} GB of disk free"
        return [", ".join(versions), f"{state}, fsync p99 at the start {self.fsync_ms:.1f} ms"]
