"""Servers that take packets over UDP, and what each says came of them.

Nothing is answered over UDP, so every one has `arrived()`: how many lines (of StatsD) or packets (of RTCP) are in
its own account. `to` is where the packets go.
"""

import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from . import floors, machine
from .load import GENERATOR_CORE, generator
from .servers import PEERS, Playmeter, Server, free_port

NAMES = 500
FLUSH_S = 1
RECEIVE_BUFFER_BYTES = 4 << 20


class StatsdPlaymeter(Playmeter):
    """The product with one collector."""

    remark = "added up a second at a time, durable, counted by minute and hour; what counts is what a query answers"

    def start(self):
        port = free_port()
        self.to = f"127.0.0.1:{port}"
        self.flags = ("--statsd", self.to)
        super().start()

    def arrived(self):
        question = {"measure": "sum", "last": "24h", "step": "all"}
        return sum(self.total(question | {"metric": name}) for name in names())

    def total(self, question):
        series = self.post("/v1/query", json.dumps(question).encode())["series"]
        return round(series[0]["total"]) if series and series[0]["total"] is not None else 0


class StatsdExporter(Server):
    """Prometheus' exporter of StatsD's metrics."""

    name = "statsd_exporter"
    remark = "counters in memory, nothing on disk"

    @classmethod
    def missing(cls):
        return absent("statsd_exporter", "go install github.com/prometheus/statsd_exporter@latest")

    def start(self):
        udp, web = free_port(), free_port()
        self.to, self.url = f"127.0.0.1:{udp}", f"http://127.0.0.1:{web}"
        self.launch(
            found("statsd_exporter"),
            f"--statsd.listen-udp={self.to}",
            "--statsd.listen-tcp=",
            f"--statsd.read-buffer={RECEIVE_BUFFER_BYTES}",
            f"--web.listen-address=127.0.0.1:{web}",
            "--log.level=error",
        )
        self.wait_for_port(web)

    def arrived(self):
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=30) as response:
            text = response.read().decode()
        return sum(round(float(value)) for value in re.findall(r"^bench_\d+_\d+ (\S+)$", text, re.MULTILINE))


class Telegraf(Server):
    """Telegraf with its StatsD input, writing to a file each second."""

    name = "telegraf"
    remark = "totals written to a file each second, not synced"

    @classmethod
    def missing(cls):
        return absent("telegraf", "go install github.com/influxdata/telegraf/cmd/telegraf@latest")

    def start(self):
        port = free_port()
        self.to = f"127.0.0.1:{port}"
        configuration = self.folder / "telegraf.conf"
        configuration.write_text(telegraf_configuration(self.to, self.folder / "totals"))
        self.launch(found("telegraf"), "--config", configuration, "--quiet")
        self.wait_until(lambda: is_bound(port))

    def arrived(self):
        """Totals only grow: the last line of each name has its newest."""
        path = self.folder / "totals"
        lines = path.read_text().splitlines() if path.exists() else []
        newest = dict(re.findall(r"^(bench_\d+_\d+)\S* value=(\d+)", "\n".join(lines), re.MULTILINE))
        return sum(map(int, newest.values()))


class NodeStatsd(Server):
    """The original daemon, in Node.js."""

    name = "node-statsd"
    remark = "counters in memory, their sum kept in a file"

    @classmethod
    def missing(cls):
        for program in ("node", "npm"):
            if not shutil.which(program):
                return f"{program} is not installed"
        if not (PEERS / "node-statsd" / "node_modules").exists():
            command = ["npm", "ci", "--silent", "--omit=optional", "--ignore-scripts"]
            subprocess.run(command, cwd=PEERS / "node-statsd", check=True)
        return None

    def start(self):
        port, admin = free_port(), free_port()
        self.to = f"127.0.0.1:{port}"
        configuration = self.folder / "config.js"
        configuration.write_text(json.dumps(self.configuration(port, admin)))
        self.launch("node", PEERS / "node-statsd" / "node_modules" / "statsd" / "stats.js", configuration)
        self.wait_until(lambda: is_bound(port))

    def configuration(self, port, admin):
        return {
            "address": "127.0.0.1",
            "port": port,
            "mgmt_address": "127.0.0.1",
            "mgmt_port": admin,
            "backends": [str(PEERS / "node-statsd" / "totals.js")],
            "totals": str(self.folder / "totals"),
            "flushInterval": FLUSH_S * 1_000,
            "deleteIdleStats": True,
        }

    def arrived(self):
        path = self.folder / "totals"
        return int(path.read_text()) if path.exists() else 0


class UdpFloor(Server):
    """What the machine asks for reading the packets and finding the counters, and nothing else."""

    name = "floor-udp"
    remark = "recvmmsg; counters by hash; one thread"
    parses = 1
    # Longer than any run; it is ended by its end.
    seconds = 0

    @classmethod
    def missing(cls):
        return floors.missing("udpb")

    def start(self):
        port = free_port()
        self.to = f"127.0.0.1:{port}"
        self.launch(floors.program("udpb"), "recv", port, 1, 64, 0, self.parses, self.seconds)
        self.wait_until(lambda: is_bound(port))

    def arrived(self):
        self.processes[0].wait(self.seconds + 10)
        said = (self.folder / "output-0.txt").read_text()
        return int(re.search(r"lines=(\d+)" if self.parses else r"pkts=(\d+)", said)[1])


class RtcpPlaymeter(Playmeter):
    """The product with one collector of RTCP."""

    remark = "flows in memory, their quality written a minute at a time and at the end"

    def start(self):
        port = free_port()
        self.to = f"127.0.0.1:{port}"
        self.flags = ("--rtcp", self.to)
        super().start()

    def arrived(self):
        counters = json.loads(self.get("/v1/collectors"))["collectors"][0]["counters"]
        return counters["packets"] - counters["refused"]

    def flows(self):
        return json.loads(self.get("/v1/flows?per_page=1"))["running"]


class NodeRtcp(Server):
    """A plain Node.js server: one process reads, workers decode."""

    name = "node-rtcp"
    remark = "flows in memory; a process reads and hands packets to two workers as structured clones"

    @classmethod
    def missing(cls):
        return None if shutil.which("node") else "node is not installed"

    def start(self):
        udp, web = free_port(), free_port()
        self.to, self.url = f"127.0.0.1:{udp}", f"http://127.0.0.1:{web}"
        self.launch("node", PEERS / "node-rtcp" / "server.mjs", udp, web)
        self.wait_for_port(web)
        self.wait_until(self.totals)

    def totals(self):
        with urllib.request.urlopen(self.url, timeout=30) as response:
            return json.load(response)

    def arrived(self):
        return self.totals()["packets"]

    def flows(self):
        return self.totals()["flows"]


class RtcpFloor(UdpFloor):
    """Reading the packets alone."""

    remark = "recvmmsg; one thread; nothing is decoded"
    parses = 0


def names():
    """The names that the generator counts."""
    return [f"bench.{number // 10}.{number % 10}" for number in range(NAMES)]


def send(server, settings, **options):
    """Runs the generator against a server and returns its report."""
    with tempfile.NamedTemporaryFile(dir=machine.SCRATCH, suffix=".json") as report:
        command = ["taskset", "-c", GENERATOR_CORE, generator(), "bench", "packets", "--to", server.to]
        command += ["--seconds", settings.seconds, "--warmup", settings.warmup, "--json", report.name]
        command += ["--pid", ",".join(map(str, server.pids))]
        for name, value in options.items():
            command += [f"--{name}", value]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"the generator failed: {done.stderr.strip()}")
        return json.loads(Path(report.name).read_text())


def settled(server, expected, patience_s=4.0):
    """What arrived; accounts may be a flush or two behind the packets."""
    deadline = time.monotonic() + patience_s
    while (arrived := server.arrived()) < expected and time.monotonic() < deadline:
        time.sleep(0.2)
    return arrived


def found(program):
    """A program of the path, or where Go puts what it installs."""
    return shutil.which(program) or shutil.which(program, path=Path.home() / "go" / "bin")


def absent(program, remedy):
    return None if found(program) else f"{program} is not installed: {remedy}"


def is_bound(port):
    """Whether a socket of UDP is there; nothing can be asked over it."""
    words = (line.split() for name in ("udp", "udp6") for line in machine.lines(f"/proc/net/{name}")[1:])
    return any(int(each[1].rsplit(":", 1)[1], 16) == port for each in words)


def telegraf_configuration(address, totals):
    return f"""
[agent]
  interval = "{FLUSH_S}s"
  flush_interval = "{FLUSH_S}s"
  omit_hostname = true
[[inputs.statsd]]
  service_address = "{address}"
  delete_counters = false
  allowed_pending_messages = 100000
  read_buffer_size = {RECEIVE_BUFFER_BYTES}
  metric_separator = "_"
[[outputs.file]]
  files = ["{totals}"]
  data_format = "influx"
"""
