#!/usr/bin/env python3
"""Drops packets on their way to the server and checks that the reported loss is exact.

python3 torture/loss.py --binary target/release/playmeter --packets 4000     as make test does
python3 torture/loss.py --binary target/release/playmeter --packets 100000   as make torture does

nftables randomly drops 1, 5 and 20 % of the packets before they reach the server's ports, and counts them. The loss
that flows report must equal that count, and so must the gap in StatsD's counters. For StatsD the server is also paused,
so that the kernel drops packets, which are counted separately. Needs root and nft; prints SKIPPED and the reason if
they are missing, which is a failure when CI is true.
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

from server import DEADLINE_S, Client, Server, ServerFailure

PERCENTS = [1, 5, 20]
FLOWS = 8
# Less than the smallest receive buffer holds.
BURST_PACKETS = 50
# Small, so that the kernel drops packets while the server is paused.
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


class DropRules:
    """A temporary table in the kernel's packet filter; deleted at the end."""

    def __init__(self):
        self.table = f"playmeter_loss_{os.getpid()}"

    def __enter__(self):
        self._nft(f"add table ip {self.table}")
        self._nft(f"add chain ip {self.table} in {{ type filter hook input priority 0; }}")
        return self

    def __exit__(self, *_):
        self._nft(f"delete table ip {self.table}")

    def drop(self, name, port, percent):
        """Starts dropping packets."""
        self._nft(f"add counter ip {self.table} {name}")
        condition = f"numgen random mod 100 < {percent}"
        self._nft(f"add rule ip {self.table} in udp dport {port} {condition} counter name {name} drop")

    def stop(self, name):
        """Stops dropping packets; returns how many were dropped."""
        self._nft(f"flush chain ip {self.table} in")
        listing = json.loads(self._nft(f"list counter ip {self.table} {name}", "-j"))
        return next(entry["counter"]["packets"] for entry in listing["nftables"] if "counter" in entry)

    @staticmethod
    def _nft(command, *options):
        completed = subprocess.run(["nft", *options, command], capture_output=True, text=True)
        if completed.returncode != 0:
            raise ServerFailure(f"nft {command}: {completed.stderr.strip()}")
        return completed.stdout


def unavailable_reason():
    """Returns why packets cannot be dropped on this machine, or None."""
    if shutil.which("nft") is None:
        return "nft is not installed; install the Debian package nftables"
    if os.geteuid() != 0:
        return "dropping packets requires root"
    try:
        with DropRules() as rules:
            rules.drop("probe", 9, 1)
    except ServerFailure as error:
        return str(error)
    return None


class PacketSender:
    """Sends packets to one port. Each flow has a separate socket, so that its packets stay in order.

    While `waits` is set, it sends the next burst when the server has read the last one, so that only the rule drops
    packets, however busy the machine is.
    """

    def __init__(self, port):
        self.port, self.waits = port, True
        self.sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(FLOWS)]
        for flow_socket in self.sockets:
            flow_socket.connect(("127.0.0.1", port))
        self.count = 0

    def send(self, flow, text):
        self.sockets[flow].send(text.encode())
        self.count += 1
        if self.waits and self.count % BURST_PACKETS == 0:
            wait_until_read(self.port)


def wait_until_read(port):
    """Waits until no packet is left in the receive buffers of this port."""
    deadline_s = time.monotonic() + DEADLINE_S
    while any(unread_bytes(Path("/proc/net/udp").read_text(), port)):
        if time.monotonic() > deadline_s:
            raise ServerFailure(f"packets to port {port} were not read within {DEADLINE_S} s")
        time.sleep(0.001)


def unread_bytes(table, port):
    """Yields the bytes in the receive buffer of each socket on this port, from the text of `/proc/net/udp`."""
    for line in table.splitlines()[1:]:
        fields = line.split()
        if int(fields[1].split(":")[1], 16) == port:
            yield int(fields[4].split(":")[1], 16)


class TestServer:
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
        """Waits until a collector has received this many packets, kernel drops included; returns its counters."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            counters = self.collector(name)["counters"]
            if counters["received"] >= received or time.monotonic() > deadline:
                return counters
            time.sleep(0.05)


def check_flows(test_server, rules, percent, packets):
    """Checks the loss that flows report. The first and last packet of a flow are not dropped: they bound the loss."""
    port, before = test_server.port("flows"), test_server.collector("flows")["counters"]
    sender, packets_per_flow = PacketSender(port), packets // FLOWS

    def all_flows(numbers):
        for number in numbers:
            for flow in range(FLOWS):
                names = {"from": f"caller-{percent}-{flow}", "to": f"callee-{percent}-{flow}"}
                sender.send(flow, json.dumps(names | {"seq": number % 65_536}))

    all_flows([0])
    rules.drop(f"flows_{percent}", port, percent)
    all_flows(range(1, packets_per_flow))
    dropped = rules.stop(f"flows_{percent}")
    all_flows([packets_per_flow])
    counters = test_server.wait("flows", before["received"] + sender.count - dropped)
    lost, received = reported_figures(test_server.client, percent)
    yield from compare(f"flows at {percent} %: lost", lost, dropped)
    yield from compare(f"flows at {percent} %: received", received, sender.count - dropped)
    yield from compare(f"flows at {percent} %: kernel drops", counters["kernel_drops"], before["kernel_drops"])
    print(f"flows  {percent:>2} %: sent {sender.count}, dropped {dropped}, reported as lost {lost}", flush=True)


def reported_figures(client, percent):
    """Returns the loss and the received packets that this run's flows report."""
    flows = client.get("/v1/flows?per_page=1000")["flows"]
    sent = [flow["sent"] for flow in flows if flow["from"]["id"].startswith(f"caller-{percent}-")]
    return sum(flow_socket["lost"] for flow_socket in sent), sum(flow_socket["received"] for flow_socket in sent)


def check_statsd(test_server, rules, percent, packets):
    """Checks StatsD: packets dropped by the rule are missing; packets dropped by the kernel are counted."""
    port, before = test_server.port("statsd"), test_server.collector("statsd")["counters"]
    metric, sender = f"hits_{percent}", PacketSender(port)
    rules.drop(f"statsd_{percent}", port, percent)
    for number in range(packets):
        sender.send(number % FLOWS, f"{metric}:1|c")
    sender.waits = False
    test_server.server.process.send_signal(signal.SIGSTOP)
    for number in range(packets // 4):
        sender.send(number % FLOWS, f"{metric}:1|c")
    dropped = rules.stop(f"statsd_{percent}")
    test_server.server.process.send_signal(signal.SIGCONT)
    arrived = sender.count - dropped
    counters = test_server.wait("statsd", before["received"] + arrived)
    growth = {name: counters[name] - before[name] for name in ["received", "accepted", "kernel_drops"]}
    query = {"metric": metric, "measure": "sum", "last": "24h", "step": "all"}
    total = test_server.client.post("/v1/query", query)["series"][0]["total"]
    where = f"statsd at {percent} %"
    yield from compare(f"{where}: received", growth["received"], arrived)
    yield from compare(f"{where}: accepted", growth["accepted"], arrived - growth["kernel_drops"])
    yield from compare(f"{where}: the query", total, arrived - growth["kernel_drops"])
    if growth["kernel_drops"] == 0:
        yield f"{where}: the kernel dropped nothing while the server was paused, so the test shows nothing"
    kernel_drops = growth["kernel_drops"]
    print(
        f"statsd {percent:>2} %: sent {sender.count}, dropped {dropped}, by the kernel {kernel_drops}, counted {total:g}"
    )


def compare(what, actual, expected):
    if actual != expected:
        yield f"{what} is {actual}, expected {expected}"


def main():
    args = parse()
    reason = unavailable_reason()
    if reason:
        print(f"SKIPPED: {reason}")
        return 1 if os.environ.get("CI") == "true" else 0
    failures = []
    with tempfile.TemporaryDirectory(prefix="playmeter-loss-") as folder, DropRules() as rules:
        test_server = None
        try:
            test_server = TestServer(args.binary, Path(folder))
            for percent in PERCENTS:
                failures += check_flows(test_server, rules, percent, args.packets)
                failures += check_statsd(test_server, rules, percent, args.packets)
        except ServerFailure as error:
            failures.append(str(error))
        finally:
            if test_server is not None:
                test_server.server.kill()
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"{0 if failures else 1} passed, {len(failures)} failed")
    return 1 if failures else 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, type=Path)
    parser.add_argument("--packets", type=int, default=4_000, help="packets in each of six runs")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
