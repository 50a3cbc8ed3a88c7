#!/usr/bin/env python3
"""Packs a program and uses the packages as an operator would: python3 packaging/test.py --binary target/release/playmeter

The tarball is unpacked and run. The Debian package is installed in a new root folder of Debian 12, which debootstrap
creates; the service's own command runs there as its own user, receives events, survives `kill -9`, stops on SIGTERM, and
the package is removed and purged. Needs root.
"""

import argparse
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
READY_TIMEOUT_S = 60


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


def check_files(out, work):
    """Checks the tarball, the checksums and the list of contents; returns the Debian package."""
    check("OK" in run("sha256sum", "--check", "SHA256SUMS", cwd=out), "the checksums are right")
    tarball, package, contents = (next(out.glob(pattern)) for pattern in ("*.tar.gz", "*.deb", "*.cdx.json"))
    run("tar", "-xzf", tarball, "-C", work)
    tree = next(work.glob("playmeter-*"))
    check(re.match(r"playmeter \d+\.\d+\.\d+", run(tree / "bin/playmeter", "--version")), "the program runs")
    check("_playmeter" in (tree / "share/bash-completion/completions/playmeter").read_text(), "bash has completions")
    page = run("man", "--local-file", tree / "share/man/man1/playmeter-serve.1.gz", env=os.environ | {"MANPAGER": "cat"})
    check("--listen" in page and "Data folder" in page, "every command has a manual page")
    components = json.loads(contents.read_text())["components"]
    names = {component["name"] for component in components}
    check({"tokio", "fjall", "svelte"} <= names and "proptest" not in names, f"{len(names)} components are listed")
    again = work / "again"
    run(ROOT / "scripts/release", out / "image/playmeter", again)
    check((again / "SHA256SUMS").read_text() == (out / "SHA256SUMS").read_text(), "packing twice gives the same bytes")
    return package


def check_unit():
    """Checks the unit as systemd reads it."""
    unit = ROOT / "packaging/playmeter.service"
    text = unit.read_text()
    with tempfile.TemporaryDirectory() as folder:
        # The program of the unit is not installed on this machine.
        copy = Path(folder) / "playmeter.service"
        copy.write_text(text.replace("/usr/bin/playmeter", "/bin/true"))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True)
        complaints = [line for line in done.stderr.splitlines() if "playmeter" in line]
        check(not complaints, f"systemd accepts the unit {complaints or ''}")
    return re.search(r"^ExecStart=(.*)$", text, re.MULTILINE).group(1).split()


class Root:
    """A root folder with Debian 12."""

    def __init__(self, path):
        self.path, self.mounted = path, []

    def __enter__(self):
        mirror = os.environ.get("DEBIAN_MIRROR") or debian_mirror()
        run("debootstrap", "--variant=minbase", "--include=adduser", "bookworm", self.path, mirror)
        run("mount", "-t", "proc", "proc", self.path / "proc")
        self.mounted.append(self.path / "proc")
        return self

    def __exit__(self, *_):
        for mount in reversed(self.mounted):
            subprocess.run(["umount", "--lazy", mount], check=False)

    def run(self, *command):
        return run("chroot", self.path, *command)


def debian_mirror():
    """Returns the archive that this machine's apt uses."""
    files = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    text = "\n".join(file.read_text() for file in files if file.is_file())
    found = re.search(r"https?://\S*/debian/?(?=\s|$)", text)
    return found.group(0) if found else sys.exit("FAILED no Debian archive in apt's sources; set DEBIAN_MIRROR")


class Service:
    """The service's command, run as systemd would."""

    def __init__(self, root, command):
        self.root, self.command, self.process = root, command, None

    def start(self):
        # The port is chosen by the system, so that the test can run beside others.
        command = ["chroot", "--userspec=playmeter:playmeter", self.root.path, *self.command, "--listen", "127.0.0.1:0"]
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        self.process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, env=environment, text=True)
        line = self.process.stdout.readline()
        check("ready" in line or line, f"the service starts: {line.strip()[:60]}")
        while "http" not in line:
            line = self.process.stdout.readline() or sys.exit("FAILED the service ended")
        return json.loads((self.root.path / "var/lib/playmeter/bootstrap.json").read_text())

    def stop(self, number):
        self.process.send_signal(number)
        return self.process.wait(60)


def request(bootstrap, method, path, body=None, key="secret_key"):
    host, port = bootstrap["url"].removeprefix("http://").split(":")
    deadline_s = time.monotonic() + READY_TIMEOUT_S
    while True:
        try:
            connection = http.client.HTTPConnection(host, int(port), timeout=30)
            connection.request(method, path, body, {"Authorization": f"Bearer {bootstrap[key]}"})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        except ConnectionError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.1)


def check_package(package, root, command):
    """Installs the package and uses the service."""
    shutil.copy(package, root.path / "tmp/playmeter.deb")
    root.run("dpkg", "--install", "/tmp/playmeter.deb")
    status = (root.path / "etc/playmeter/playmeter.toml").stat()
    check(status.st_mode & 0o777 == 0o640 and status.st_uid == 0, "the settings can be read by the service only")
    data = (root.path / "var/lib/playmeter").stat()
    check(data.st_mode & 0o777 == 0o700 and data.st_uid != 0, "the data belongs to the service")
    service = Service(root, command)
    bootstrap = service.start()
    status, receipt = request(bootstrap, "POST", "/v1/events", '{"event":"installed","value":3}', "public_key")
    check((status, receipt["accepted"]) == (202, 1), "an event is accepted")
    service.stop(signal.SIGKILL)
    bootstrap = service.start()
    _, result = request(bootstrap, "GET", "/v1/query?metric=installed&step=all")
    check(result["series"][0]["total"] == 1, "it is counted after kill -9")
    check(service.stop(signal.SIGTERM) == 0, "the service stops on SIGTERM")
    report = json.loads(root.run("playmeter", "verify", "--data", "/var/lib/playmeter", "--json"))
    check(report["agrees"], "verify agrees")
    root.run("dpkg", "--remove", "playmeter")
    check((root.path / "var/lib/playmeter/log").exists(), "removing the package keeps the data")
    root.run("dpkg", "--purge", "playmeter")
    check(not (root.path / "var/lib/playmeter").exists(), "purging it removes the data")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="playmeter-packages-") as folder:
        work = Path(folder)
        print(run(ROOT / "scripts/release", args.binary, work / "out").rstrip())
        package = check_files(work / "out", work)
        command = check_unit()
        with Root(work / "root") as root:
            check_package(package, root, command)
    print("all checks of the packages passed")


if __name__ == "__main__":
    main()
