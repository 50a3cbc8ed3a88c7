#!/usr/bin/env python3
"""Keeps many slow connections open and compares the latency of normal requests with and without them.

python3 torture/slow.py --binary target/release/playmeter --connections 1000                     as make test does
python3 torture/slow.py --binary target/release/playmeter --connections 10000 --ratio-max 2.0    as make torture does

A third of the connections dribble the head of a request, a third dribble a body, and a third send a whole request and
never read the response. They come from many loopback addresses, to stay below the server's limit per address, and each
is opened again when the server closes it. Normal requests are measured in turns: without slow connections, with them,
without, ... The test fails if a normal request fails, or if a slow connection could not be opened before the measurement.
How many stayed open and the ratio of the p99 with them to the one without are printed.

With `--ratio-max` the test also fails if the ratio exceeds it in most rounds, or if fewer than half stayed open. Without
that option neither is judged: a busy machine changes both, because the server closes slow connections by design.
"""

import argparse
import json
import random
import selectors
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

from server import DEADLINE_S, ServerFailure, run_checks

CONNECTIONS_PER_ADDRESS = 200
# Bytes per second of a slow connection: above the least speed of heads, below that of bodies.
DRIBBLE_S = 1.0
# A connection that the kernel did not open by then is opened again.
CONNECT_TIMEOUT_S = 5
# Below this, a p99 is noise of the disk and the scheduler: in ratios, two values below it are equal.
P99_FLOOR_US = 25_000


class SlowConnections:
    """A thread that keeps slow connections open, dribbles, and opens those that the server has closed."""

    def __init__(self, address, key, count):
        self.address, self.key, self.count = address, key, count
        self.open = self.least = 0
        # Those that were connected and sent their first bytes, at least once.
        self.opened, self.last_error, self.problems = set(), None, []
        self.is_measuring, self.stopping = False, threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self.thread.start()
        deadline_s = time.monotonic() + DEADLINE_S
        while len(self.opened) < self.count and not self.problems and time.monotonic() < deadline_s:
            time.sleep(0.05)
        if len(self.opened) < self.count:
            last = f", last error: {self.last_error!r}" if self.last_error else ""
            self.problems.append(f"only {len(self.opened)} of {self.count} slow connections were opened{last}")
        self.least, self.is_measuring = self.open, True
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()

    def _run(self):
        sockets = [None] * self.count
        try:
            self._dribble_all(sockets)
        except Exception as error:
            self.problems.append(f"the slow connections failed: {error!r}")
        for each in sockets:
            if each is not None:
                each.close()

    def _dribble_all(self, sockets):
        rng = random.Random(7)
        while not self.stopping.is_set():
            started_s = time.monotonic()
            for index, before in enumerate(sockets):
                if self.stopping.is_set():
                    break
                sockets[index] = self._dribble(before, index, rng)
                self.open += (sockets[index] is not None) - (before is not None)
                if self.is_measuring:
                    self.least = min(self.least, self.open)
            self.stopping.wait(max(0.0, DRIBBLE_S - (time.monotonic() - started_s)))

    def _dribble(self, each, index, rng):
        """Sends one byte more, or opens the connection. Returns it, or None if it is closed."""
        try:
            if each is None:
                return self._connect(index)
            if index % 3 < 2:
                each.send(rng.choice([b"a", b"b"]))
            # A connection that the server has closed is readable.
            with selectors.DefaultSelector() as selector:
                selector.register(each, selectors.EVENT_READ)
                is_closed = bool(selector.select(0)) and index % 3 < 2
            if not is_closed:
                return each
        except OSError as error:
            self.last_error = error
        if each is not None:
            each.close()
        return None

    def _connect(self, index):
        number = index // CONNECTIONS_PER_ADDRESS
        each = socket.socket()
        try:
            each.bind((f"127.0.{1 + number // 250}.{1 + number % 250}", 0))
            each.settimeout(CONNECT_TIMEOUT_S)
            each.connect(self.address)
            self._send_first_bytes(each, index)
        except OSError:
            each.close()
            raise
        each.setblocking(False)
        self.opened.add(index)
        return each

    def _send_first_bytes(self, each, index):
        head = f"POST /v1/events?key={self.key} HTTP/1.1\r\nHost: slow\r\nContent-Type: application/json\r\n"
        if index % 3 == 0:
            each.sendall(head.encode() + b"X-Slow: ")
        elif index % 3 == 1:
            each.sendall(head.encode() + b"Content-Length: 5000000\r\n\r\n[")
        else:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            each.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: slow\r\n\r\n" * 8)


def measure(server, args, folder):
    """Sends normal events; returns the report of the load generator."""
    path = folder / "report.json"
    command = [server.binary, "bench", "--data", server.data, "--rate", args.rate, "--seconds", args.seconds]
    command += ["--warmup", 1, "--grace", DEADLINE_S, "--json", path, "--pid", server.process.pid]
    completed = subprocess.run([*map(str, command)], capture_output=True, text=True)
    if not path.exists():
        raise ServerFailure(f"the load generator failed: {completed.stderr.strip()}")
    report = json.loads(path.read_text())
    path.unlink()
    return report


def judge_ratio(pairs, beside, ratio_max):
    """Prints the ratio of the p99 beside something to the p99 alone; yields a problem if it exceeds `ratio_max`.

    `pairs` are the p99 alone and beside it, in microseconds, of each round. The median decides. Without `ratio_max`
    nothing is judged.
    """
    ratios = [max(both, P99_FLOOR_US) / max(alone, P99_FLOOR_US) for alone, both in pairs]
    middle = statistics.median(ratios)
    print(f"  p99 beside {beside} relative to alone: {middle:.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    if ratio_max is not None and middle > ratio_max:
        yield f"the p99 of normal requests is {middle:.2f} times as long beside {beside}, at most {ratio_max:g} is allowed"


def unanswered(reports):
    """Yields the totals of each report in which a request was not answered or an event not accepted."""
    for report in reports:
        total = report["total"]
        if total["requests_answered"] != total["requests_sent"] or total["accepted"] != total["events_sent"]:
            yield f"{total['requests_answered']} of {total['requests_sent']} requests answered: {total}"


def compare(server, args, folder):
    """Measures in turns; yields what is wrong."""
    without, beside, pairs = [], [], []
    bootstrap = server.bootstrap()
    for number in range(args.rounds):
        without.append(measure(server, args, folder))
        with SlowConnections(server.address(), bootstrap["public_key"], args.connections) as slow:
            beside.append(measure(server, args, folder))
        pairs.append([report["latency_us"]["p99"] for report in (without[-1], beside[-1])])
        yield from slow.problems
        if args.ratio_max is not None and slow.least < args.connections / 2:
            yield f"only {slow.least} of {args.connections} slow connections stayed open beside the measurement"
        alone, with_slow = (p99 / 1000 for p99 in pairs[-1])
        print(
            f"  round {number + 1}: p99 {alone:.1f} ms alone, {with_slow:.1f} ms beside slow connections:"
            f" {len(slow.opened)} were opened, at least {slow.least} stayed open"
        )
    yield from unanswered(without + beside)
    yield from judge_ratio(pairs, "slow connections", args.ratio_max)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, type=Path)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=500, help="normal requests per second")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ratio-max", type=float, help="fail if the p99 beside them is longer by this factor")
    args = parser.parse_args()
    settings = {"CONNECTIONS__TOTAL_MAX": args.connections + 200}
    return run_checks(args.binary, "slow", settings, lambda server, folder: compare(server, args, folder))


if __name__ == "__main__":
    sys.exit(main())
