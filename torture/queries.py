#!/usr/bin/env python3
"""Sends expensive queries without a pause and compares the latency of normal events with and without them.

As make test does, and as make torture does:

python3 torture/queries.py --binary target/release/playmeter --events 100000
python3 torture/queries.py --binary target/release/playmeter --events 720000 --ratio-max 2.0 --memory-mib-max 2048

First it imports events of 1,000 names over 30 days, as many of each, and prints the memory of the server. Then normal
events are measured in turns: without queries, beside 4 connections that query, beside 50, without, ... Each query asks
for the distinct players of two names by country and minute over all 30 days. The test fails if a normal request fails,
if a query is answered by anything but 200, 422, 429 or 503, or if no query succeeds, also after the measurement. The
querying connections themselves yield the processor to everything else.

The ratio of the p99 of normal events beside queries to the one without is printed; the test fails if it exceeds
`--ratio-max` in most rounds. The peak memory of the server is printed; the test fails if it exceeds `--memory-mib-max`.
2,048 MiB are what the budgets allow: 512 MiB for rollups, 4 x 256 MiB for queries, and 512 MiB for everything else.
Without these options neither is judged, because other work on the machine changes them too.
"""

import argparse
import gzip
import http.client
import json
import os
import random
import statistics
import sys
import threading
import time
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path

from server import DEADLINE_S, ServerFailure, run_checks
from slow import judge_ratio, measure, unanswered

NAMES, DAYS, BATCH = 1_000, 30, 1_000
# Longer than any machine takes to count what was imported.
APPLIED_TIMEOUT_S = 300
COUNTRIES = ["FR", "DE", "BR", "JP", "US", "IN", "SE"]
METRICS_PER_QUERY = 2


class Querying:
    """Connections that query without a pause, until they are stopped."""

    def __init__(self, server, count):
        self.server, self.statuses, self.problems = server, Counter(), []
        self.seconds = []
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(count)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        time.sleep(0.5)
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    def wait_succeeded(self):
        """Waits until a query has succeeded: a slow machine may answer many with 429 or 503 first."""
        deadline_s = time.monotonic() + DEADLINE_S
        while not self.statuses[200] and not self.problems and time.monotonic() < deadline_s:
            time.sleep(0.05)
        if not self.statuses[200] and not self.problems:
            self.problems.append(f"no query of {len(self.threads)} clients succeeded within {DEADLINE_S} s")

    def _run(self, number):
        try:
            self._query(number)
        except Exception as error:
            self.problems.append(f"a client that queries failed: {error!r}")

    def _query(self, number):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
        rng, key = random.Random(number), self.server.bootstrap()["secret_key"]
        host, port = self.server.address()
        connection = http.client.HTTPConnection(host, port, timeout=DEADLINE_S)
        while not self.stopping.is_set():
            names = rng.sample(range(NAMES), METRICS_PER_QUERY)
            metrics = [{"as": f"M{at}", "metric": f"name-{name}", "measure": "uniques"} for at, name in enumerate(names)]
            query = {"metrics": metrics, "by": ["country"], "top": 7, "step": "minute", "last": f"{DAYS}d"}
            started_s = time.monotonic()
            try:
                headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
                connection.request("POST", "/v1/query", json.dumps(query), headers)
                response = connection.getresponse()
                body = response.read()
            except (OSError, http.client.HTTPException) as error:
                self.problems.append(f"a query was not answered: {error!r}")
                return
            self.statuses[response.status] += 1
            self.seconds.append(time.monotonic() - started_s)
            if response.status not in (200, 422, 429, 503):
                self.problems.append(f"a query was answered with {response.status}: {body[:200]}")
                return
            if response.status != 200:
                self.stopping.wait(0.05)


def import_events(server, count):
    """Sends `count` events spread evenly over names, days and countries."""
    key, rng = server.bootstrap()["secret_key"], random.Random(3)
    host, port = server.address()
    connection = http.client.HTTPConnection(host, port, timeout=DEADLINE_S)
    now = datetime.now(timezone.utc).replace(microsecond=0)
    for first in range(0, count, BATCH):
        lines = []
        for number in range(first, min(first + BATCH, count)):
            at = now - timedelta(seconds=(number * DAYS * 86_400 // count) + 60)
            event = {"event": f"name-{number % NAMES}", "ts": at.isoformat().replace("+00:00", "Z")}
            event |= {"player": f"player-{rng.randrange(50_000)}", "country": rng.choice(COUNTRIES)}
            lines.append(json.dumps(event))
        body = gzip.compress("\n".join(lines).encode(), 1)
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}
        deadline_s = time.monotonic() + DEADLINE_S
        while True:
            connection.request("POST", "/v1/events?import=true", body, headers)
            response = connection.getresponse()
            receipt = response.read()
            if response.status not in (429, 503) or time.monotonic() > deadline_s:
                break
            time.sleep(0.1)
        if response.status != 202 or json.loads(receipt)["accepted"] != len(lines):
            raise ServerFailure(f"the import was answered with {response.status}: {receipt[:300]}")


def wait_until_applied(server, count):
    """Waits until a query counts all imported events."""
    key = server.bootstrap()["secret_key"]
    host, port = server.address()
    deadline_s, counted = time.monotonic() + APPLIED_TIMEOUT_S, None
    while time.monotonic() < deadline_s:
        connection = http.client.HTTPConnection(host, port, timeout=DEADLINE_S)
        path = f"/v1/query?metric=events&step=all&last={DAYS + 1}d"
        connection.request("GET", path, headers={"Authorization": f"Bearer {key}"})
        response = connection.getresponse()
        body = json.loads(response.read())
        if response.status == 200:
            counted = body["series"][0]["total"]
            break
        if response.status != 503:
            raise ServerFailure(f"the count was answered with {response.status}: {body}")
        time.sleep(1)
    if counted != count:
        raise ServerFailure(f"{count} events were imported, {counted} are counted")


def memory_mib(server, field):
    """Returns a figure of the memory of the server: VmRSS or VmHWM."""
    for line in Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise ServerFailure(f"no {field}")


def compare(server, args, folder):
    """Measures in turns; yields what is wrong."""
    reports, pairs = [], {count: [] for count in args.clients}
    for number in range(args.rounds):
        alone = measure(server, args, folder)
        reports.append(alone)
        for count in args.clients:
            with Querying(server, count) as querying:
                beside = measure(server, args, folder)
                querying.wait_succeeded()
            reports.append(beside)
            yield from querying.problems
            pair = [report["latency_us"]["p99"] for report in (alone, beside)]
            pairs[count].append(pair)
            statuses = ", ".join(f"{status}: {times}" for status, times in sorted(querying.statuses.items()))
            seconds = statistics.median(querying.seconds) if querying.seconds else 0.0
            print(
                f"  round {number + 1}: p99 {pair[0] / 1000:.1f} ms alone, {pair[1] / 1000:.1f} ms beside {count} clients"
                f" that query ({statuses}; median {seconds:.2f} s), {memory_mib(server, 'VmRSS'):.0f} MiB"
            )
    yield from unanswered(reports)
    for count, pairs_of_count in pairs.items():
        yield from judge_ratio(pairs_of_count, f"{count} clients that query", args.ratio_max)
    yield from judge_memory(memory_mib(server, "VmHWM"), args.memory_mib_max)


def judge_memory(peak_mib, mib_max):
    """Prints the peak memory; yields a problem if it exceeds `mib_max`. Without `mib_max` it is not judged."""
    print(f"  memory: {peak_mib:.0f} MiB at most")
    if mib_max is not None and peak_mib > mib_max:
        yield f"the server held {peak_mib:.0f} MiB, more than {mib_max:g} MiB"


def import_and_compare(server, args, folder):
    """Imports events, prints what they cost, and measures; yields what is wrong."""
    started_s = time.monotonic()
    import_events(server, args.events)
    imported_s = time.monotonic() - started_s
    wait_until_applied(server, args.events)
    print(
        f"  {args.events} events of {NAMES} names over {DAYS} days imported in {imported_s:.0f} s and counted"
        f" after {time.monotonic() - started_s:.0f} s: {memory_mib(server, 'VmRSS'):.0f} MiB,"
        f" {memory_mib(server, 'VmHWM'):.0f} MiB at most"
    )
    yield from compare(server, args, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, type=Path)
    parser.add_argument("--events", type=int, default=100_000, help="events to import first")
    parser.add_argument("--clients", type=int, nargs="+", default=[4, 50], help="numbers of clients that query")
    parser.add_argument("--rate", type=int, default=500, help="normal requests per second")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ratio-max", type=float, help="fail if the p99 beside queries is longer by this factor")
    parser.add_argument("--memory-mib-max", type=float, help="fail if the server holds more memory")
    args = parser.parse_args()
    return run_checks(args.binary, "queries", {}, lambda server, folder: import_and_compare(server, args, folder))


if __name__ == "__main__":
    sys.exit(main())
