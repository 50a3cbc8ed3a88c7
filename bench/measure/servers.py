"""Servers under load: each is started in a new folder on a free port and stopped by its process id.

A server is a context manager; inside it, `url`, `key` and `pids` identify the server and its processes.
`missing()` returns why it cannot run on this machine, so that a run continues without it.
"""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from . import floors, machine

START_TIMEOUT_S = 20
STOP_TIMEOUT_S = 15
PEERS = machine.ROOT / "bench" / "peers"


class Server:
    """A server and the processes it consists of."""

    name = ""
    # What a reader has to know to compare fairly.
    remark = ""

    def __init__(self, cores="0"):
        self.cores = cores
        self.url = self.key = self.secret = None
        self.processes = []

    @classmethod
    def missing(cls):
        """Returns why this server cannot run on this machine, or None."""
        return None

    def __enter__(self):
        machine.SCRATCH.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix=f"{self.name.split()[0]}-", dir=machine.SCRATCH))
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def pids(self):
        return [process.pid for process in self.processes]

    def start(self):
        raise NotImplementedError

    def launch(self, *command, **environment):
        """Starts a program on this server's cores; its output goes to a file in the folder."""
        pinned = ["taskset", "-c", self.cores, *map(str, command)]
        output = (self.folder / f"output-{len(self.processes)}.txt").open("wb")
        # Variables that configure this script would be unknown settings to the server.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PLAYMETER_")}
        process = subprocess.Popen(
            pinned, cwd=self.folder, stdout=output, stderr=subprocess.STDOUT, env=inherited | environment
        )
        output.close()
        self.processes.append(process)
        return process

    def wait_until(self, ready):
        """Waits until `ready` returns a true value and returns it; raises an error if a program exits first."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            result = ready()
            if result:
                return result
            for index, process in enumerate(self.processes):
                if process.poll() is not None:
                    output = (self.folder / f"output-{index}.txt").read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"{self.name} exited with {process.returncode}: {output}")
            time.sleep(0.001)
        raise RuntimeError(f"{self.name} was not ready within {START_TIMEOUT_S} s")

    def wait_for_port(self, port):
        self.wait_until(lambda: accepts_connections("127.0.0.1", port))

    def accepted(self):
        """Returns how many events the server says it accepted, or None if it has no accounting."""
        return None


class Playmeter(Server):
    """Playmeter, from an optimised build."""

    name = "playmeter"
    remark = "validated, deduplicated, durable, counted by minute, hour and day; raw events kept"
    # Environment variables of the process.
    settings = {}
    flags = ()

    @staticmethod
    def binary():
        target = Path(os.environ.get("CARGO_TARGET_DIR", machine.ROOT / "target"))
        return Path(os.environ.get("PLAYMETER_BINARY", target / "release" / "playmeter"))

    @classmethod
    def missing(cls):
        return None if cls.binary().exists() else f"{cls.binary()} is missing: run cargo build --release -p playmeter"

    def start(self):
        data = self.folder / "data"
        self.launch(self.binary(), "serve", "--data", data, "--listen", "127.0.0.1:0", *self.flags, **self.settings)
        bootstrap = self.wait_until(lambda: read_json(data / "bootstrap.json"))
        self.url, self.key, self.secret = bootstrap["url"], bootstrap["public_key"], bootstrap["secret_key"]
        host, port = self.url.removeprefix("http://").rsplit(":", 1)
        self.wait_until(lambda: accepts_connections(host, int(port)))

    def accepted(self):
        return json.loads(self.get("/v1/load"))["totals"]["accepted"]

    def get(self, path):
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {self.secret}"})
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.read()

    def post(self, path, body):
        headers = {"Authorization": f"Bearer {self.secret}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data=body, headers=headers)
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)


class NodeRedis(Server):
    """A plain Node.js server in front of Redis, whose append-only file is synced for every write."""

    name = "node-redis"
    remark = "validated, deduplicated, durable, counted by minute, hour and day; raw events not kept"

    @classmethod
    def missing(cls):
        for program in ("node", "npm", "redis-server"):
            if not shutil.which(program):
                return f"{program} is not installed"
        if not (PEERS / "node-redis" / "node_modules").exists():
            subprocess.run(["npm", "ci", "--silent"], cwd=PEERS / "node-redis", check=True)
        return None

    def start(self):
        path = self.folder / "redis.sock"
        self.launch(*redis_command(self.folder), "--port", 0, "--unixsocket", path)
        self.wait_until(path.exists)
        port = free_port()
        node = ("node", "--max-semi-space-size=64", PEERS / "node-redis" / "server.mjs", port)
        self.launch(*node, REDIS_PATH=str(path))
        self.wait_for_port(port)
        self.url = f"http://127.0.0.1:{port}"


class Redis(Server):
    """Redis alone; its append-only file is synced for every write."""

    name = "redis"
    remark = "append-only file synced for every write"

    @classmethod
    def missing(cls):
        return None if shutil.which("redis-server") else "redis-server is not installed"

    def start(self):
        self.port = free_port()
        self.launch(*redis_command(self.folder), "--port", self.port, "--bind", "127.0.0.1")
        self.wait_for_port(self.port)


class RedisInMemory(Redis):
    """Redis without persistence: counters at their cheapest."""

    name = "redis-in-memory"
    remark = "nothing on disk"

    def start(self):
        self.port = free_port()
        self.launch("redis-server", "--port", self.port, "--bind", "127.0.0.1", "--save", "", "--dir", self.folder)
        self.wait_for_port(self.port)


class VictoriaMetrics(Server):
    """VictoriaMetrics, one node, as packaged by the distribution."""

    name = "victoria-metrics"
    remark = "samples only: no ids, no players; responds before anything is on disk"

    @classmethod
    def missing(cls):
        return None if shutil.which("victoria-metrics") else "victoria-metrics is not installed"

    def start(self):
        port = free_port()
        self.launch(
            "victoria-metrics",
            f"-storageDataPath={self.folder / 'data'}",
            f"-httpListenAddr=127.0.0.1:{port}",
            "-retentionPeriod=12",
        )
        self.url = f"http://127.0.0.1:{port}"
        self.wait_until(lambda: self.is_healthy())

    def is_healthy(self):
        try:
            return self.get("/health") == b"OK"
        except OSError:
            return False

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=30) as response:
            return response.read()

    def post(self, path, body):
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data=body), timeout=30) as response:
            return response.read()


class HttpFloor(Server):
    """The cheapest possible HTTP server: the machine's cost of a request and a response."""

    mode = "null"
    name = "floor-null"
    remark = "reads the request, responds 204"

    @classmethod
    def missing(cls):
        return floors.missing("httpfloor")

    def start(self):
        port = free_port()
        self.launch(floors.program("httpfloor"), port, self.mode, self.folder / "log")
        self.wait_for_port(port)
        self.url = f"http://127.0.0.1:{port}"


class HttpLogFloor(HttpFloor):
    """The same, but appends every request to a log that is synced before the response."""

    mode = "log"
    name = "floor-log"
    remark = "appends the body, responds 204 after a group commit"


def redis_command(folder):
    """Returns the command for Redis at its most durable. Rewriting of the file is off: it would be extra work."""
    command = ["redis-server", "--dir", folder, "--appendonly", "yes", "--appendfsync", "always"]
    return [*command, "--save", "", "--auto-aof-rewrite-percentage", 0, "--daemonize", "no"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def accepts_connections(host, port):
    try:
        socket.create_connection((host, port), timeout=1).close()
        return True
    except OSError:
        return False


def read_json(path):
    try:
        return json.loads(path.read_text())
    except (OSError, json.JSONDecodeError):
        return None
