"""Information about the machine and its processes, read from /proc."""

import os
import platform
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# On the same disk as the checkout: in a tmpfs every sync would be free.
SCRATCH = ROOT / "bench" / "scratch"


def description():
    """Describes the machine and the commit."""
    cpus = [line.split(":", 1)[1].strip() for line in lines("/proc/cpuinfo") if line.startswith("model name")]
    memory_kib = next(int(line.split()[1]) for line in lines("/proc/meminfo") if line.startswith("MemTotal"))
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return {
        "cpu": f"{len(cpus)} x {cpus[0] if cpus else platform.machine()}",
        "memory_gib": round(memory_kib / 2**20, 1),
        "kernel": platform.release(),
        "commit": commit.stdout.strip(),
    }


def load_average():
    return os.getloadavg()[0]


def process_tree(roots):
    """Returns the given processes and all their descendants."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
    found = list(roots)
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid and child not in found]
    return found


def cpu_seconds(pids):
    """Returns the CPU time of these processes and their children, with nanosecond resolution for living threads."""
    total = 0
    for pid in process_tree(pids):
        for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            try:
                total += int(task.read_text().split()[0])
            except OSError:
                continue
    return total / 1e9


def memory_mib(pids):
    """Returns the resident memory of these processes and their children."""
    kib = 0
    for pid in process_tree(pids):
        kib += sum(int(line.split()[1]) for line in lines(f"/proc/{pid}/status") if line.startswith("VmRSS"))
    return kib / 1024


def lines(path):
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
