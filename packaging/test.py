#!/usr/bin/env python3
"""Packs a program and uses the packages as an operator would: python3 packaging/test.py --binary target/release/playmeter

The tarball is unpacked and run. The Debian package is installed in a new root folder of Debian 12, which debootstrap
creates from the packages that `roots.py --fetch` downloaded; the service's own command runs there as its own user, receives
events, survives `kill -9`, stops on SIGTERM, and the package is removed and purged. Then `acceptance.py` uses the package in
another such root, and `image.py` builds the container image and runs it. Needs root.
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

from roots import REPOSITORY, Root, check, install_debian, run

# Only what is broken takes so long: a loaded machine is slow.
TIMEOUT_S = 180


def check_files(out, work):
    """Checks the tarball, the checksums and the list of contents; returns the Debian package."""
    check("OK" in run("sha256sum", "--check", "SHA256SUMS", cwd=out), "the checksums are right")
    tarball, package, contents = (next(out.glob(pattern)) for pattern in ("*.tar.gz", "*.deb", "*.cdx.json"))
    run("tar", "-xzf", tarball, "-C", work)
    tree = next(work.glob("playmeter-*"))
    check(re.match(r"playmeter \d+\.\d+\.\d+", run(tree / "bin/playmeter", "--version")), "the program runs")
    worker = subprocess.run([tree / "bin/playmeter-sql", "help"], capture_output=True, text=True)
    check("usage: playmeter-sql" in worker.stderr, "the worker for SQL is in the tarball and runs")
    check("_playmeter" in (tree / "share/bash-completion/completions/playmeter").read_text(), "bash has completions")
    page = run("man", "--local-file", tree / "share/man/man1/playmeter-serve.1.gz", env=os.environ | {"MANPAGER": "cat"})
    check("--listen" in page and "Data folder" in page, "every command has a manual page")
    components = json.loads(contents.read_text())["components"]
    names = {component["name"] for component in components}
    check({"tokio", "fjall", "svelte"} <= names and "proptest" not in names, f"{len(names)} components are listed")
    again = work / "again"
    run(REPOSITORY / "scripts/release", out / "image/playmeter", again)
    check((again / "SHA256SUMS").read_text() == (out / "SHA256SUMS").read_text(), "packing twice gives the same bytes")
    return package


def check_unit():
    """Checks the unit as systemd reads it."""
    unit = REPOSITORY / "packaging/playmeter.service"
    text = unit.read_text()
    with tempfile.TemporaryDirectory() as folder:
        # The program of the unit is not installed on this machine.
        copy = Path(folder) / "playmeter.service"
        copy.write_text(text.replace("/usr/bin/playmeter", "/bin/true"))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True)
        complaints = [line for line in done.stderr.splitlines() if "playmeter" in line]
        check(not complaints, f"systemd accepts the unit {complaints or ''}")
    return re.search(r"^ExecStart=(.*)$", text, re.MULTILINE).group(1).split()


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
        return self.process.wait(TIMEOUT_S)


def request(bootstrap, method, path, body=None, key="secret_key"):
    host, port = bootstrap["url"].removeprefix("http://").split(":")
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)
            connection.request(method, path, body, {"Authorization": f"Bearer {bootstrap[key]}"})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        except ConnectionError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.1)


def commands_of_the_guide():
    """Returns the commands of `docs/howto/systemd.md`, without those of systemd."""
    page = (REPOSITORY / "docs/howto/systemd.md").read_text()
    lines = "".join(re.findall(r"```sh\n(.*?)```", page, re.DOTALL)).splitlines()
    return [line for line in lines if not line.startswith("systemctl")]


def check_package(package, root, command):
    """Installs the package and uses the service, with the commands of the guide."""
    install, config, *of_the_user, remove, purge = [line.split() for line in commands_of_the_guide()]
    check(Path(install[-1]).name == package.name, "the guide installs this package")
    shutil.copy(package, root.path / "tmp/playmeter.deb")
    root.run(*install[:-1], "/tmp/playmeter.deb")
    check('data = "/var/lib/playmeter"' in root.run(*config), "the settings are valid")
    status = (root.path / "etc/playmeter/playmeter.toml").stat()
    check(status.st_mode & 0o777 == 0o640 and status.st_uid == 0, "the settings can be read by the service only")
    data = (root.path / "var/lib/playmeter").stat()
    check(data.st_mode & 0o777 == 0o700 and data.st_uid != 0, "the data belongs to the service")
    service = Service(root, command)
    bootstrap = service.start()
    status, receipt = request(bootstrap, "POST", "/v1/events", '{"event":"installed","value":3}', "public_key")
    check((status, receipt["accepted"]) == (202, 1), "an event is accepted")
    question = '{"sql":"SELECT count(*) FROM events"}'
    status, problem = request(bootstrap, "POST", "/v1/sql", question)
    check((status, problem["type"]) == (501, "/problems/sql_unavailable"), "without its library, SQL says what to do")
    library = next(REPOSITORY.glob("sql/node_modules/@duckdb/*/libduckdb.so"), None)
    if library:
        shutil.copy(library, root.path / "usr/bin/libduckdb.so")
        status, answer = request(bootstrap, "POST", "/v1/sql", question)
        check((status, answer.get("rows")) == (200, [[1]]), f"with its library, SQL answers {answer}")
        (root.path / "usr/bin/libduckdb.so").unlink()
    service.stop(signal.SIGKILL)
    bootstrap = service.start()
    for each in of_the_user:
        check(root.run(*each), f"the guide's command succeeds: {' '.join(each[4:])}")
    _, result = request(bootstrap, "GET", "/v1/query?metric=installed&step=all")
    check(result["series"][0]["total"] == 1, "it is counted after kill -9")
    check(service.stop(signal.SIGTERM) == 0, "the service stops on SIGTERM")
    report = json.loads(root.run("playmeter", "verify", "--data", "/var/lib/playmeter", "--json"))
    check(report["agrees"], "verify agrees")
    root.run(*remove)
    check((root.path / "var/lib/playmeter/log").exists(), "removing the package keeps the data")
    root.run(*purge)
    check(not (root.path / "var/lib/playmeter").exists(), "purging it removes the data")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="playmeter-packages-") as folder:
        work = Path(folder)
        print(run(REPOSITORY / "scripts/release", args.binary, work / "out").rstrip())
        package = check_files(work / "out", work)
        command = check_unit()
        debian = work / "debian"
        install_debian(debian)
        with Root(debian, work / "root") as root:
            check_package(package, root, command)
        arguments = ["--package", package, "--root", debian]
        subprocess.run([sys.executable, REPOSITORY / "packaging/acceptance.py", *arguments], check=True)
        arguments = ["--context", work / "out/image", "--root", debian]
        subprocess.run([sys.executable, REPOSITORY / "packaging/image.py", *arguments], check=True)
    print("all checks of the packages passed")


if __name__ == "__main__":
    main()
