"""Servers that receive packets over UDP, and the numbers that each reports.

UDP has no responses, so every server has `received_count()`: how many lines (StatsD) or packets (RTCP) it counted
itself. `address` is where packets are sent.
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
    """Playmeter with one StatsD collector."""

    remark = "aggregated per second, durable, rolled up by minute and hour; received lines are counted by a query"

    def start(self):
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        self.flags = ("--statsd", self.address)
        super().start()

    def received_count(self):
        query = {"measure": "sum", "last": "24h", "step": "all"}
        return sum(self.total(query | {"metric": name}) for name in metric_names())

    def total(self, query):
        series = self.post("/v1/query", json.dumps(query).encode())["series"]
        return round(series[0]["total"]) if series and series[0]["total"] is not None else 0


class StatsdExporter(Server):
    """Prometheus' statsd_exporter."""

    name = "statsd_exporter"
    remark = "counters in memory, nothing on disk"

    @classmethod
    def missing(cls):
        return missing_program("statsd_exporter", "go install github.com/prometheus/statsd_exporter@latest")

    def start(self):
        udp, web = free_port(), free_port()
        self.address, self.url = f"127.0.0.1:{udp}", f"http://127.0.0.1:{web}"
        self.launch(
            find_program("statsd_exporter"),
            f"--statsd.listen-udp={self.address}",
            "--statsd.listen-tcp=",
            f"--statsd.read-buffer={RECEIVE_BUFFER_BYTES}",
            f"--web.listen-address=127.0.0.1:{web}",
            "--log.level=error",
        )
        self.wait_for_port(web)

    def received_count(self):
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=30) as response:
            text = response.read().decode()
        return sum(round(float(value)) for value in re.findall(r"^bench_\d+_\d+ (\S+)$", text, re.MULTILINE))


class Telegraf(Server):
    """Telegraf with its StatsD input, writing to a file each second."""

    name = "telegraf"
    remark = "totals written to a file each second, not synced"

    @classmethod
    def missing(cls):
        return missing_program("telegraf", "go install github.com/influxdata/telegraf/cmd/telegraf@latest")

    def start(self):
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        configuration = self.folder / "telegraf.conf"
        configuration.write_text(telegraf_configuration(self.address, self.folder / "totals"))
        self.launch(find_program("telegraf"), "--config", configuration, "--quiet")
        self.wait_until(lambda: is_bound(port))

    def received_count(self):
        """Totals only grow: the last line of each name has the newest."""
        path = self.folder / "totals"
        lines = path.read_text().splitlines() if path.exists() else []
        newest = dict(re.findall(r"^(bench_\d+_\d+)\S* value=(\d+)", "\n".join(lines), re.MULTILINE))
        return sum(map(int, newest.values()))


class NodeStatsd(Server):
    """StatsD's original daemon, in Node.js."""

    name = "node-statsd"
    remark = "counters in memory, their sum written to a file"

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
        self.address = f"127.0.0.1:{port}"
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

    def received_count(self):
        path = self.folder / "totals"
        return int(path.read_text()) if path.exists() else 0


class UdpFloor(Server):
    """The machine's limit: reads the packets and finds the counters, nothing else."""

    name = "floor-udp"
    remark = "recvmmsg; counters by hash; one thread"
    parses = 1
    # Set before the start: longer than any run. The process exits after this time.
    seconds = 0

    @classmethod
    def missing(cls):
        return floors.missing("udpb")

    def start(self):
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        self.launch(floors.program("udpb"), "recv", port, 1, 64, 0, self.parses, self.seconds)
        self.wait_until(lambda: is_bound(port))

    def received_count(self):
        self.processes[0].wait(self.seconds + 10)
        output = (self.folder / "output-0.txt").read_text()
        return int(re.search(r"lines=(\d+)" if self.parses else r"pkts=(\d+)", output)[1])


class RtcpPlaymeter(Playmeter):
    """Playmeter with one RTCP collector."""

    remark = "flows in memory, their quality written once a minute and at the end"

    def start(self):
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        self.flags = ("--rtcp", self.address)
        super().start()

    def received_count(self):
        counters = json.loads(self.get("/v1/collectors"))["collectors"][0]["counters"]
        return counters["packets"] - counters["refused"]

    def flows(self):
        return json.loads(self.get("/v1/flows?per_page=1"))["running"]


class NodeRtcp(Server):
    """A plain Node.js server: one process reads, workers decode."""

    name = "node-rtcp"
    remark = "flows in memory; one process reads and passes packets to two workers as structured clones"

    @classmethod
    def missing(cls):
        return None if shutil.which("node") else "node is not installed"

    def start(self):
        udp, web = free_port(), free_port()
        self.address, self.url = f"127.0.0.1:{udp}", f"http://127.0.0.1:{web}"
        self.launch("node", PEERS / "node-rtcp" / "server.mjs", udp, web)
        self.wait_for_port(web)
        self.wait_until(self.totals)

    def totals(self):
        with urllib.request.urlopen(self.url, timeout=30) as response:
            return json.load(response)

    def received_count(self):
        return self.totals()["packets"]

    def flows(self):
        return self.totals()["flows"]


class RtcpFloor(UdpFloor):
    """Reads the packets, nothing else."""

    remark = "recvmmsg; one thread; nothing is decoded"
    parses = 0


def metric_names():
    """Returns the metric names that the generator sends."""
    return [f"bench.{number // 10}.{number % 10}" for number in range(NAMES)]


def send(server, settings, **options):
    """Runs the generator against a server and returns its report."""
    with tempfile.NamedTemporaryFile(dir=machine.SCRATCH, suffix=".json") as report:
        command = ["taskset", "-c", GENERATOR_CORE, generator(), "bench", "packets", "--to", server.address]
        command += ["--seconds", settings.seconds, "--warmup", settings.warmup, "--json", report.name]
        command += ["--pid", ",".join(map(str, server.pids))]
        for name, value in options.items():
            command += [f"--{name}", value]
        completed = subprocess.run([*map(str, command)], capture_output=True, text=True)
        if completed.returncode:
            raise RuntimeError(f"the generator failed: {completed.stderr.strip()}")
        return json.loads(Path(report.name).read_text())


def wait_for_count(server, expected, timeout_s=4.0):
    """Waits for the expected number of received items and returns the number; counters lag by a flush or two."""
    deadline = time.monotonic() + timeout_s
    while (received_count := server.received_count()) < expected and time.monotonic() < deadline:
        time.sleep(0.2)
    return received_count


def find_program(program):
    """Returns the path of a program, from PATH or from Go's bin folder."""
    return shutil.which(program) or shutil.which(program, path=Path.home() / "go" / "bin")


def missing_program(program, remedy):
    return None if find_program(program) else f"{program} is not installed: {remedy}"


def is_bound(port):
    """Returns true if a UDP socket is bound to the port. UDP itself offers no way to check readiness."""
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
