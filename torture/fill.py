#!/usr/bin/env python3
"""Fills the disk below each part of the data folder while events arrive, and empties it again.

python3 torture/fill.py --binary target/release/playmeter --cycles 1 --seed 1    as make test does
python3 torture/fill.py --binary target/release/playmeter --cycles 10            as make torture does

It needs root, to mount tmpfs. `--seed N` repeats the same events and the same order of full disks; without it the seed
is random. It is printed at the start and at the end.

`log/`, `ids/` and `views/` are small file systems of their own, in a mount namespace that ends with the script. While
one of them is full, the server must go on serving reads or exit with an error that says why; it must never acknowledge
what it loses. When there is space again, it must accept events again by itself, or after a restart if it has exited.
Finally the ledger, the accounting and the views are compared with the log.
"""

import argparse
import errno
import http.client
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import recount
from events import PUBLIC, SECRET, SentEvents
from ledger import ACKED, Ledger
from load import Credential, Load
from server import DEADLINE_S, Client, Server, ServerFailure

MIB = 1 << 20
# Room for the segments, rows and ids of the run and for what the server keeps free.
AREA_BYTES = 160 * MIB
AREAS = ("log", "views", "ids")
# Seconds of load at least, without a full disk and with one.
LOAD_S, FULL_S = 0.5, 3.0
# What must have been acknowledged before each disk is full: a server that rejects everything proves nothing.
ACKED_MIN = 100
UNSHARED = "PLAYMETER_TORTURE_UNSHARED"


class FillTest:
    """One data folder whose parts are file systems."""

    def __init__(self, args, folder, report, seed):
        self.seed, self.loads = seed, 0
        self.report, self.folder, self.data = report, folder, folder / "data"
        self.server = Server(args.binary.resolve(), self.data, folder / "server.log")
        self.ledger, self.sent_events = Ledger(folder / "ledger"), SentEvents()
        self.cycle = 0
        self.mounts = []

    def run(self, cycles, rng):
        try:
            self._prepare()
            for _ in range(cycles):
                for area in rng.sample(AREAS, len(AREAS)):
                    self.cycle += 1
                    self._fill(area, rng)
            self._check()
        except ServerFailure as error:
            self.report.check("the server does not fail", [str(error)])
        finally:
            self.server.kill()
            if self.report.failures:
                # The file systems end with this program.
                for mount in self.mounts:
                    shutil.copytree(mount, self.folder / "kept" / mount.name, ignore=shutil.ignore_patterns("ballast"))
            for mount in self.mounts:
                subprocess.run(["umount", "--lazy", mount], check=False)

    def _prepare(self):
        """Creates the data folder and moves each part to a file system of its own."""
        self.server.start()
        self.server.wait_ready()
        self.server.terminate()
        self.server.wait_stopped()
        for area in AREAS:
            path, old = self.data / area, self.data / f"{area}.old"
            path.rename(old)
            path.mkdir(mode=0o700)
            options = f"size={AREA_BYTES},mode=0700"
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], check=True)
            self.mounts.append(path)
            shutil.copytree(old, path, dirs_exist_ok=True)
            shutil.rmtree(old)
        self._start()

    def _start(self):
        self.server.start(LOG_LEVEL="warn", LOG__SEGMENT_BYTES=4 * MIB)
        self.server.wait_ready()

    def _load(self, until, seconds_min):
        """Sends events for a time, then until `until(load)` is true, the server has exited, or the deadline is over.

        Returns the load and its problems.
        """
        bootstrap = self.server.bootstrap()
        credentials = [Credential(1, PUBLIC, bootstrap["public_key"])]
        credentials.append(Credential(1, SECRET, bootstrap["secret_key"], imports=True))
        self.loads += 1
        name = f"{self.seed}.{self.loads}"
        load = Load(name, self.server.address(), credentials, self.sent_events, [], 4, 0.005)
        load.start()
        started_s = time.monotonic()
        while self.server.exit_code() is None:
            elapsed_s = time.monotonic() - started_s
            if elapsed_s >= seconds_min and (until(load) or elapsed_s > DEADLINE_S):
                break
            time.sleep(0.05)
        problems = []
        for connection_report in load.stop():
            self.ledger.append(connection_report.rows)
            problems += connection_report.problems
        self.ledger.sync()
        return load, problems

    def _fill(self, area, rng):
        """Fills one file system under load, then makes room and waits until events are accepted again."""
        ballast = self.data / area / "ballast"
        load, problems = self._load(lambda load: load.acked() >= ACKED_MIN, LOAD_S)
        if load.acked() < ACKED_MIN:
            problems.append(f"only {load.acked()} events were accepted before the disk was full")
        fill(ballast, rng.choice([0, 1 << 16, 1 << 20]))
        # A rebuild writes a checkpoint, which meets the full disk. It may fail.
        command = [self.server.binary, "rebuild", "--data", str(self.data)]
        rebuild = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        load, more = self._load(lambda load: load.rejections() > 0, FULL_S)
        problems += more
        rebuild.kill()
        rebuild.wait()
        rejected = load.rejections()
        outcome = self._look(area, rejected, problems)
        ballast.unlink()
        if self.server.exit_code() is not None:
            self.server.process = None
            self._start()
        load, more = self._load(lambda load: load.acked() > 0, LOAD_S)
        problems += more
        if not load.acked():
            problems.append(f"no event was accepted within {DEADLINE_S} s after there was room again")
        detail = f"{outcome}, {rejected} requests rejected meanwhile, {load.acked()} events accepted afterwards"
        self.report.check(f"cycle {self.cycle}: {area}/ is full", problems, detail)

    def _look(self, area, rejected, problems):
        """Checks that the server answers reads, or has exited with an error that says why; returns which."""
        code = self.server.exit_code()
        if code is None:
            client = Client(self.server.address(), self.server.bootstrap()["secret_key"])
            client.get("/v1/load")
            client.close()
            if not rejected:
                problems.append(f"the disk was full, and nothing was rejected within {DEADLINE_S} s")
            # The log may still have room in the segment that it has prepared.
            if area != "log" and (answer := self._send_one()) != (503, "/problems/disk_full"):
                problems.append(f"an event was answered with {answer}")
            return "reads were answered"
        if code <= 0:
            problems.append(f"the server ended with {code}")
        lines = self.server.log_path.read_text(errors="replace").splitlines()
        if not any("space" in line or "full" in line for line in lines[-20:]):
            problems.append(f"the server does not say that the disk is full: {lines[-3:]}")
        return f"the server exited with {code}"

    def _send_one(self):
        """Sends an event; returns the status and the type of the problem, if the response is one."""
        connection = http.client.HTTPConnection(*self.server.address(), timeout=DEADLINE_S)
        headers = {"Authorization": f"Bearer {self.server.bootstrap()['public_key']}"}
        connection.request("POST", "/v1/events", '{"event":"fill"}', headers)
        response = connection.getresponse()
        body = json.loads(response.read())
        connection.close()
        return response.status, body.get("type")

    def _check(self):
        """Compares everything, and again after a restart."""
        clients = recount.clients_by_game(self.server)
        recount.check_running(self.report, self.data, self.folder / "ledger", clients, 1 << 20)
        recount.check_verify(self.report, self.server, "while the server runs")
        self.server.terminate()
        code = self.server.wait_stopped()
        self.report.check("the server stops on SIGTERM", [f"exit code {code}"] if code else [])
        recount.check_verify(self.report, self.server, "after the server stopped")
        acked = self.ledger.count(1, ACKED)
        few = [f"only {acked} events were acknowledged"] if acked < ACKED_MIN * self.cycle else []
        self.report.check("enough was acknowledged", few, f"{acked} events")


def fill(path, left):
    """Writes a file until no space is left, then shortens it by `left` bytes."""
    with open(path, "wb", buffering=0) as file:
        size, block = 0, bytes(MIB)
        while block:
            try:
                size += file.write(block)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                block = block[: len(block) // 2] if len(block) > 4096 else b""
        file.truncate(max(0, size - left))


def can_mount():
    """Returns true if a mount namespace of its own and a tmpfs in it are permitted."""
    mount = 'folder=$(mktemp -d) && mount -t tmpfs tmpfs "$folder"; code=$?; umount "$folder"; rmdir "$folder"; exit $code'
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount]
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, type=Path)
    parser.add_argument("--cycles", type=int, default=1)
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    if UNSHARED not in os.environ:
        if not can_mount():
            # `tmpfs` is on the list of tests that may be skipped.
            print("SKIPPED: mounting a tmpfs is not permitted here")
            return 0
        environment = os.environ | {UNSHARED: "1"}
        command = ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv]
        return subprocess.run(command, env=environment).returncode
    seed = random.SystemRandom().randrange(10**9) if args.seed is None else args.seed
    folder, report = Path(tempfile.mkdtemp(prefix="playmeter-fill-")), recount.Report()
    print(f"{folder}: {args.cycles} cycles, seed {seed}", flush=True)
    FillTest(args, folder, report, seed).run(args.cycles, random.Random(seed))
    if report.failures:
        print(f"kept {folder}: ledger, server.log, and the content of the full disks in kept/")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return report.finish(seed)


if __name__ == "__main__":
    sys.exit(main())
