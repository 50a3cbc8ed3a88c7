"""The machine's own limits: small C programs, compiled into the scratch folder on first use.

Their sources are in `$PLAYMETER_FLOORS`, else in `../shared/floors` beside the checkout. Without the sources, a run
leaves the floors out and notes it.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from . import machine


# The flags given in the source's header; the other programs need only system calls.
FLAGS = {"udpb": ["-O3", "-march=native"]}


def sources():
    return Path(os.environ.get("PLAYMETER_FLOORS", machine.ROOT.parent / "shared" / "floors"))


def missing(name):
    """Returns why this program cannot run on this machine, or None."""
    if not (sources() / f"{name}.c").exists():
        return f"no {name}.c in {sources()}: set PLAYMETER_FLOORS"
    return None if shutil.which("gcc") else "gcc is not installed"


def program(name):
    """Compiles the program if needed and returns its path."""
    folder = machine.SCRATCH / "floors"
    folder.mkdir(parents=True, exist_ok=True)
    source, binary = sources() / f"{name}.c", folder / name
    if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["gcc", *FLAGS.get(name, ["-O2"]), "-w", "-pthread", "-o", binary, source], check=True)
    return binary


def measure_fsync():
    """Returns the latency in microseconds of a synced 4 KiB write into a preallocated file, as the log does it."""
    reason = missing("fsyncb")
    if reason:
        return {"missing": reason}
    machine.SCRATCH.mkdir(parents=True, exist_ok=True)
    command = [program("fsyncb"), "4096", "2000", "pre-over-fdatasync", machine.SCRATCH / "fsync"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = dict(re.findall(r"(p50|p90|p99|max)=([\d.]+)", output))
    return {f"fsync_{name}_us": float(value) for name, value in found.items()}
