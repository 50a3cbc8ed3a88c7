#!/usr/bin/env python3
"""Keeps many slow connections open and compares the latency of normal requests with and without them.

python3 torture/slow.py --binary target/release/playmeter --connections 1000    as make test does
python3 torture/slow.py --binary target/release/playmeter --connections 10000   as make torture does

A third of the connections dribble the head of a request, a third dribble a body, and a third send a whole request and
never read the response. They come from many loopback addresses, to stay below the server's limit per address, and each
is opened again when the server closes it. Normal requests are measured in turns: without slow connections, with them,
without, ... The test fails if the p99 with them is more than twice the one without in most rounds, if a normal request
fails, or if fewer slow connections than half of those asked for were open while it measured.
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
RATIO_MAX = 2.0
# Below this, a p99 is noise of the disk and the scheduler: two values below it are equal.
P99_FLOOR_US = 25_000


class SlowConnections:
    """A thread that keeps slow connections open, dribbles, and opens those that the server has closed."""

    def __init__(self, address, key, count):
        self.address, self.key, self.count = address, key, count
        self.open = self.opened = self.least = 0
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self.thread.start()
        deadline_s = time.monotonic() + 60
        while self.open < self.count * 0.9 and time.monotonic() < deadline_s:
            time.sleep(0.05)
        self.least = self.open
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()

    def _run(self):
        sockets, rng = [None] * self.count, random.Random(7)
        while not self.stopping.is_set():
            started_s = time.monotonic()
            for index in range(self.count):
                if self.stopping.is_set():
                    break
                sockets[index] = self._dribble(sockets[index], index, rng)
            self.open = sum(each is not None for each in sockets)
            self.least = min(self.least, self.open)
            self.stopping.wait(max(0.0, DRIBBLE_S - (time.monotonic() - started_s)))
        for each in sockets:
            if each is not None:
                each.close()

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
        except OSError:
            pass
        if each is not None:
            each.close()
        return None

    def _connect(self, index):
        number = index // CONNECTIONS_PER_ADDRESS
        each = socket.socket()
        each.bind((f"127.0.{1 + number // 250}.{1 + number % 250}", 0))
        each.settimeout(5)
        each.connect(self.address)
        self.opened += 1
        head = f"POST /v1/events?key={self.key} HTTP/1.1\r\nHost: slow\r\nContent-Type: application/json\r\n"
        if index % 3 == 0:
            each.sendall(head.encode() + b"X-Slow: ")
        elif index % 3 == 1:
            each.sendall(head.encode() + b"Content-Length: 5000000\r\n\r\n[")
        else:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            each.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: slow\r\n\r\n" * 8)
        each.setblocking(False)
        return each


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


def compare(server, args, folder):
    """Measures in turns; yields what is wrong."""
    without, beside, pairs = [], [], []
    bootstrap = server.bootstrap()
    for number in range(args.rounds):
        without.append(measure(server, args, folder))
        with SlowConnections(server.address(), bootstrap["public_key"], args.connections) as slow:
            beside.append(measure(server, args, folder))
        pairs.append([report["latency_us"]["p99"] for report in (without[-1], beside[-1])])
        alone, with_slow = (p99 / 1000 for p99 in pairs[-1])
        print(f"  round {number + 1}: p99 {alone:.1f} ms alone, {with_slow:.1f} ms beside {slow.least} slow connections")
        if slow.least < args.connections / 2:
            yield f"only {slow.least} of {args.connections} slow connections were open"
    for report in without + beside:
        total = report["total"]
        if total["requests_answered"] != total["requests_sent"] or total["accepted"] != total["events_sent"]:
            yield f"{total['requests_answered']} of {total['requests_sent']} requests answered: {total}"
    ratios = [max(pair[1], P99_FLOOR_US) / max(pair[0], P99_FLOOR_US) for pair in pairs]
    print(f"  p99 beside them relative to alone: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    if statistics.median(ratios) > RATIO_MAX:
        yield f"the p99 of normal requests is {statistics.median(ratios):.2f} times as long beside slow connections"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, type=Path)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=500, help="normal requests per second")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    settings = {"CONNECTIONS__TOTAL_MAX": args.connections + 200}
    return run_checks(args.binary, "slow", settings, lambda server, folder: compare(server, args, folder))


if __name__ == "__main__":
    sys.exit(main())
