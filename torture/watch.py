#!/usr/bin/env python3
"""Opens many subscribers on one server: none is lost, all answer its heartbeats, all receive the newest state.

python3 torture/watch.py --binary target/release/playmeter --subscribers 500 --seconds 5      as make test does
python3 torture/watch.py --binary target/release/playmeter --subscribers 10000 --seconds 60   as make torture does

They connect from many loopback addresses, to stay below the server's limit per address; all use one key. An update is
posted twice a second; `playmeter bench watch` checks what each subscriber receives.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from server import DEADLINE_S, Server, ServerFailure

UPDATES_PER_SECOND = 2
HEARTBEAT_S = 15
# The server's limit of connections per address, less some for other requests.
CONNECTIONS_PER_ADDRESS = 250
QUERY = {"metric": "update", "last": "24h", "step": "all"}


def main():
    args = parse()
    with tempfile.TemporaryDirectory(prefix="playmeter-watch-") as folder:
        server = Server(args.binary, Path(folder) / "data", Path(folder) / "server.log")
        try:
            # Leaves room for connections other than subscribers, such as those that post updates.
            connections_max = args.subscribers + 100
            server.start(CONNECTIONS__TOTAL_MAX=connections_max, CONNECTIONS__SUBSCRIPTIONS_EACH_MAX=connections_max)
            server.wait_ready()
            report, error_output = watch(server, args, Path(folder) / "report.json")
            server.terminate()
            code = server.wait_stopped()
        except ServerFailure as error:
            sys.exit(f"0 passed, 1 failed: {error}")
        finally:
            server.kill()
    failures = [error_output] if report is None else list(find_failures(report, args))
    failures += [] if code == 0 else [f"the server exited with {code}"]
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


def watch(server, args, path):
    """Returns the report, or None and the error output."""
    command = [server.binary, "bench", "watch", "--data", server.data, "--json", path]
    command += ["--subscribers", args.subscribers, "--addresses", -(-args.subscribers // CONNECTIONS_PER_ADDRESS)]
    command += ["--what", json.dumps(QUERY), "--rate", UPDATES_PER_SECOND, "--grace", DEADLINE_S]
    command += ["--warmup", 1, "--seconds", args.seconds]
    completed = subprocess.run([*map(str, command)], capture_output=True, text=True)
    print(completed.stdout, end="")
    return (json.loads(path.read_text()) if path.exists() else None), completed.stderr.strip()


def find_failures(report, args):
    """Yields a description of each failure."""
    subscribers, seen, measured = report["subscribers"], report["seen"], report["measured"]
    if subscribers["watching"] != args.subscribers or subscribers["lost"]:
        yield f"{subscribers['lost']} of {args.subscribers} subscribers lost: {'; '.join(subscribers['reasons'])}"
    if not measured["is_complete"] or seen["disordered"]:
        yield f"up to {seen['newest_min']} seen by all, {seen['newest_max']} by one, {seen['disordered']} out of order"
    if seen["deliveries"] + seen["merged"] != measured["updates"] * args.subscribers:
        yield f"{seen['deliveries']} deliveries and {seen['merged']} merged of {measured['updates']} updates each"
    heartbeats_min = max(0, int(args.seconds // HEARTBEAT_S) - 1)
    if subscribers["pings"] < heartbeats_min * args.subscribers:
        yield f"only {subscribers['pings']} pings answered in {args.seconds:g} s"


if __name__ == "__main__":
    main()
