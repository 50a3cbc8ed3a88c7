#!/usr/bin/env python3
"""Packets are lost on the way, and what is told of it is exactly what was lost.

python3 torture/loss.py --binary target/release/playmeter --packets 4000     as make test does
python3 torture/loss.py --binary target/release/playmeter --packets 100000   as make torture does

nftables drops packets at random before they reach the server's ports, and counts them: 1, 5 and 20 in a hundred. What
flows report as lost has to be that count. So has what StatsD's counters lack; there the server is stopped for a
moment as well, so that the kernel has no room for some, which are counted apart. Needs root and nft; says SKIPPED
and why if it cannot have them.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from server import Broken, Client, Server

PERCENTS = [1, 5, 20]
FLOWS = 8
PATIENCE_S = 60
# A pause after so many packets: nothing is to be lost but what the rule drops.
BURST, PAUSE_S = 50, 0.002
# Small, so that the kernel drops while the server stands still.
STATSD_BUFFER = 65_536

COLLECTORS = {
    "COLLECTORS__FLOWS__TRANSPORT": "udp",
    "COLLECTORS__FLOWS__DECODER": "flow",
    "COLLECTORS__FLOWS__LISTEN": "127.0.0.1:0",
    "COLLECTORS__STATSD__TRANSPORT": "udp",
    "COLLECTORS__STATSD__DECODER": "statsd",
    "COLLECTORS__STATSD__LISTEN": "127.0.0.1:0",
    "COLLECTORS__STATSD__RECEIVE_BUFFER_BYTES": STATSD_BUFFER,
}


class Rules:
    """A table of our own in the kernel's packet filter, gone in the end."""

    def __init__(self):
        self.table = f"playmeter_loss_{os.getpid()}"

    def __enter__(self):
        self._nft(f"add table ip {self.table}")
        self._nft(f"add chain ip {self.table} in {{ type filter hook input priority 0; }}")
        return self

    def __exit__(self, *_):
        self._nft(f"delete table ip {self.table}")

    def drop(self, name, port, percent):
        """From now on."""
        self._nft(f"add counter ip {self.table} {name}")
        some = f"numgen random mod 100 < {percent}"
        self._nft(f"add rule ip {self.table} in udp dport {port} {some} counter name {name} drop")

    def stop(self, name):
        """No more; returns how many it dropped."""
        self._nft(f"flush chain ip {self.table} in")
        listed = json.loads(self._nft(f"list counter ip {self.table} {name}", "-j"))
        return next(entry["counter"]["packets"] for entry in listed["nftables"] if "counter" in entry)

    @staticmethod
    def _nft(command, *options):
        done = subprocess.run(["nft", *options, command], capture_output=True, text=True)
        if done.returncode != 0:
            raise Broken(f"nft {command}: {done.stderr.strip()}")
        return done.stdout


def unusable():
    """Why packets cannot be dropped here, or None."""
    if shutil.which("nft") is None:
        return "there is no nft; the Debian package nftables has it"
    if os.geteuid() != 0:
        return "packets can be dropped only by root"
    try:
        with Rules() as rules:
            rules.drop("probe", 9, 1)
    except Broken as broken:
        return str(broken)
    return None


class Sent:
    """Packets to one port: each flow from a socket of its own, so that they stay in order."""

    def __init__(self, port):
        self.sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(FLOWS)]
        for one in self.sockets:
            one.connect(("127.0.0.1", port))
        self.count = 0

    def send(self, flow, text):
        self.sockets[flow].send(text.encode())
        self.count += 1
        if self.count % BURST == 0:
            time.sleep(PAUSE_S)


class World:
    """A server with two collectors."""

    def __init__(self, binary, folder):
        self.server = Server(binary, folder / "data", folder / "server.log")
        self.server.start(**COLLECTORS)
        self.server.wait_ready()
        self.client = Client(self.server.address(), self.server.bootstrap()["secret_key"])

    def collector(self, name):
        rows = self.client.get("/v1/collectors")["collectors"]
        return next(row for row in rows if row["name"] == name)

    def port(self, name):
        return int(self.collector(name)["address"].rsplit(":", 1)[1])

    def wait(self, name, received):
        """The counters, once it has received so many packets, those that the kernel dropped included."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            counters = self.collector(name)["counters"]
            if counters["received"] >= received or time.monotonic() > deadline:
                return counters
            time.sleep(0.05)


def flows_lose(world, rules, percent, packets):
    """Of each flow the first and the last packet come, so that all that is missing lies between two that are there."""
    port, before = world.port("flows"), world.collector("flows")["counters"]
    sent, each = Sent(port), packets // FLOWS

    def all_flows(numbers):
        for number in numbers:
            for flow in range(FLOWS):
                names = {"from": f"caller-{percent}-{flow}", "to": f"callee-{percent}-{flow}"}
                sent.send(flow, json.dumps(names | {"seq": number % 65_536}))

    all_flows([0])
    rules.drop(f"flows_{percent}", port, percent)
    all_flows(range(1, each))
    dropped = rules.stop(f"flows_{percent}")
    all_flows([each])
    counters = world.wait("flows", before["received"] + sent.count - dropped)
    lost, received = reported(world.client, percent)
    yield from differs(f"flows at {percent} %: lost", lost, dropped)
    yield from differs(f"flows at {percent} %: received", received, sent.count - dropped)
    yield from differs(f"flows at {percent} %: kernel drops", counters["kernel_drops"], before["kernel_drops"])
    print(f"flows  {percent:>2} %: sent {sent.count}, dropped {dropped}, reported as lost {lost}", flush=True)


def reported(client, percent):
    """What the flows of this run say they lost and received."""
    flows = client.get("/v1/flows?per_page=1000")["flows"]
    own = [flow["sent"] for flow in flows if flow["from"]["id"].startswith(f"caller-{percent}-")]
    return sum(one["lost"] for one in own), sum(one["received"] for one in own)


def counters_lack(world, rules, percent, packets):
    """Packets that the rule drops are missing; those for which the kernel has no room are counted."""
    port, before = world.port("statsd"), world.collector("statsd")["counters"]
    metric, sent = f"hits_{percent}", Sent(port)
    rules.drop(f"statsd_{percent}", port, percent)
    for number in range(packets):
        sent.send(number % FLOWS, f"{metric}:1|c")
    world.server.process.send_signal(signal.SIGSTOP)
    for number in range(packets // 4):
        sent.send(number % FLOWS, f"{metric}:1|c")
    dropped = rules.stop(f"statsd_{percent}")
    world.server.process.send_signal(signal.SIGCONT)
    came = sent.count - dropped
    counters = world.wait("statsd", before["received"] + came)
    grew = {name: counters[name] - before[name] for name in ["received", "accepted", "kernel_drops"]}
    query = {"metric": metric, "measure": "sum", "last": "24h", "step": "all"}
    total = world.client.post("/v1/query", query)["series"][0]["total"]
    where = f"statsd at {percent} %"
    yield from differs(f"{where}: received", grew["received"], came)
    yield from differs(f"{where}: accepted", grew["accepted"], came - grew["kernel_drops"])
    yield from differs(f"{where}: the query", total, came - grew["kernel_drops"])
    if grew["kernel_drops"] == 0:
        yield f"{where}: the kernel dropped nothing while the server stood still, so nothing was shown"
    print(f"statsd {percent:>2} %: sent {sent.count}, dropped {dropped}, by the kernel {grew['kernel_drops']}, counted {total:g}")


def differs(what, is_so, should_be):
    if is_so != should_be:
        yield f"{what} {is_so}, not {should_be}"


def main():
    arguments = parse()
    reason = unusable()
    if reason:
        print(f"SKIPPED: {reason}")
        return 0
    failures = []
    with tempfile.TemporaryDirectory(prefix="playmeter-loss-") as folder, Rules() as rules:
        world = None
        try:
            world = World(arguments.binary, Path(folder))
            for percent in PERCENTS:
                failures += flows_lose(world, rules, percent, arguments.packets)
                failures += counters_lack(world, rules, percent, arguments.packets)
        except Broken as broken:
            failures.append(str(broken))
        finally:
            if world is not None:
                world.server.kill()
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"{0 if failures else 1} passed, {len(failures)} failed")
    return 1 if failures else 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, type=Path)
    parser.add_argument("--packets", type=int, default=4_000, help="in each of six runs")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
