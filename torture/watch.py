#!/usr/bin/env python3
"""Many subscribers on one server: none is lost, all answer its heartbeats, all end with the newest state.

python3 torture/watch.py --binary target/release/playmeter --subscribers 500 --seconds 5      as make test does
python3 torture/watch.py --binary target/release/playmeter --subscribers 10000 --seconds 60   as make torture does

They come from many loopback addresses, so that the server's own limit for each holds; all have one key. An update comes
twice a second; `playmeter bench watch` reads what each of them gets.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from server import Broken, Server

UPDATES_PER_SECOND = 2
HEARTBEAT_S = 15
# The server allows so many connections from one address, less what is asked beside.
PER_ADDRESS = 250
WATCHED = {"metric": "update", "last": "24h", "step": "all"}


def main():
    arguments = parse()
    with tempfile.TemporaryDirectory(prefix="playmeter-watch-") as folder:
        server = Server(arguments.binary, Path(folder) / "data", Path(folder) / "server.log")
        try:
            # Others connect beside the subscribers: what posts the updates.
            enough = arguments.subscribers + 100
            server.start(CONNECTIONS__TOTAL_MAX=enough, CONNECTIONS__SUBSCRIPTIONS_EACH_MAX=enough)
            server.wait_ready()
            report, said = watch(server, arguments, Path(folder) / "report.json")
            server.terminate()
            code = server.wait_stopped()
        except Broken as broken:
            sys.exit(f"0 passed, 1 failed: {broken}")
        finally:
            server.kill()
    failures = [said] if report is None else list(judge(report, arguments))
    failures += [] if code == 0 else [f"the server ended with {code}"]
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"{0 if failures else 1} passed, {1 if failures else 0} failed")
    sys.exit(1 if failures else 0)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, type=Path)
    parser.add_argument("--subscribers", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=5)
    return parser.parse_args()


def watch(server, arguments, path):
    """The report, or None and what was said instead."""
    command = [server.binary, "bench", "watch", "--data", server.data, "--json", path]
    command += ["--subscribers", arguments.subscribers, "--addresses", -(-arguments.subscribers // PER_ADDRESS)]
    command += ["--what", json.dumps(WATCHED), "--rate", UPDATES_PER_SECOND, "--grace", 120]
    command += ["--warmup", 1, "--seconds", arguments.seconds]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    print(done.stdout, end="")
    return (json.loads(path.read_text()) if path.exists() else None), done.stderr.strip()


def judge(report, arguments):
    """What must not be."""
    subscribers, seen, measured = report["subscribers"], report["seen"], report["measured"]
    if subscribers["watching"] != arguments.subscribers or subscribers["lost"]:
        yield f"{subscribers['lost']} of {arguments.subscribers} subscribers lost: {'; '.join(subscribers['reasons'])}"
    if not measured["is_complete"] or seen["disordered"]:
        yield f"up to {seen['newest_min']} seen by all, {seen['newest_max']} by one, {seen['disordered']} out of order"
    if seen["deliveries"] + seen["merged"] != measured["updates"] * arguments.subscribers:
        yield f"{seen['deliveries']} deliveries and {seen['merged']} merged of {measured['updates']} updates each"
    beats = max(0, int(arguments.seconds // HEARTBEAT_S) - 1)
    if subscribers["pings"] < beats * arguments.subscribers:
        yield f"only {subscribers['pings']} pings answered in {arguments.seconds:g} s"


if __name__ == "__main__":
    main()
