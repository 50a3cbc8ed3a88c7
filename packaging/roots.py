#!/usr/bin/env python3
"""Root folders with Debian 12 and what the tests of packages do in them.

    python3 packaging/roots.py --fetch     downloads the packages of such a folder; needs root
"""

import contextlib
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
DEBIAN = ["--variant=minbase", "--include=adduser", "bookworm"]
# Debian updates the release every few months and then removes the replaced packages.
FETCH_INTERVAL_S = 7 * 24 * 3600


def run(*command, **options):
    """Runs a command and returns its output."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f"FAILED {' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def check(holds, promise):
    if not holds:
        sys.exit(f"FAILED {promise}")
    print(f"  ok    {promise}", flush=True)


def skip(reason):
    """Ends the program: quietly for a developer without the tool, with an error in CI, which installs every tool."""
    sys.exit(f"FAILED skipped in CI: {reason}" if os.environ.get("CI") else print(f"SKIPPED: {reason}"))


def debian_packages():
    """Returns the archive with the packages of a minimal Debian 12, which `fetch_debian` downloads."""
    key = hashlib.sha256(" ".join(DEBIAN).encode()).hexdigest()[:12]
    return REPOSITORY / f"target/debian/{key}.tgz"


def fetch_debian():
    """Downloads the packages of a minimal Debian 12, unless there are some that are at most a week old."""
    packages = debian_packages()
    if packages.exists() and time.time() - packages.stat().st_mtime < FETCH_INTERVAL_S:
        return
    mirror = os.environ.get("DEBIAN_MIRROR") or debian_mirror()
    print(f"downloading Debian 12 from {mirror}", flush=True)
    packages.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=packages.parent) as folder:
        # Renamed when it is complete, so that an interrupted download is not used.
        incomplete = Path(folder) / packages.name
        run("debootstrap", f"--make-tarball={incomplete}", *DEBIAN, Path(folder) / "root", mirror)
        incomplete.rename(packages)


def install_debian(path):
    """Installs a minimal Debian 12 in a new folder. Downloads it only if `fetch_debian` never did."""
    if not debian_packages().exists():
        fetch_debian()
    run("debootstrap", f"--unpack-tarball={debian_packages()}", *DEBIAN, path)


def debian_mirror():
    """Returns the archive that this machine's apt uses."""
    files = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    text = "\n".join(file.read_text() for file in files if file.is_file())
    found = re.search(r"https?://\S*/debian/?(?=\s|$)", text)
    return found.group(0) if found else sys.exit("FAILED no Debian archive in apt's sources; set DEBIAN_MIRROR")


class Root:
    """A root folder with Debian 12, copied from an installed one."""

    def __init__(self, installed, path):
        run("cp", "-a", installed, path)
        self.path = path

    def __enter__(self):
        run("mount", "-t", "proc", "proc", self.path / "proc")
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "--lazy", self.path / "proc"], check=False)

    def run(self, *command):
        return run("chroot", self.path, *command)

    def run_as_service(self, *command):
        return run("chroot", "--userspec=playmeter:playmeter", self.path, *command)


@contextlib.contextmanager
def running(process):
    """Ends the process at the end."""
    try:
        yield process
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    if sys.argv[1:] != ["--fetch"]:
        sys.exit(__doc__)
    fetch_debian()
