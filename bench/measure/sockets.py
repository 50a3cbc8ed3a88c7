"""Servers that fan out updates to many WebSockets, and how `playmeter bench watch` talks to each.

Each has `watch_options`, the options of that command: the WebSocket's path, the messages that subscribe, where updates
are posted, and which number in a message grows.
"""

import json
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

from . import floors, machine
from .load import GENERATOR_CORE, generator
from .servers import PEERS, Playmeter, Server, free_port

NCHAN_MODULE = Path("/usr/lib/nginx/modules/ngx_nchan_module.so")
NUMBERED = '{"total":{n}}'
SHAREDB_GAMES = 100
SHAREDB_PLAYERS_OF_A_GAME = 10
SHAREDB_HANDSHAKE = {"say": json.dumps({"a": "hs", "id": None, "protocol": 1, "protocolMinor": 1}), "until": '"a":"hs"'}
SHAREDB_DOCUMENT = {"say": json.dumps({"a": "s", "c": "bench", "d": "document"}), "until": '"a":"s"'}
SHAREDB_BEST = {"game": "GAME", "$sort": {"score": -1}, "$limit": 10}
SHAREDB_QUERY = {
    "say": json.dumps({"a": "qs", "id": 1, "c": "players", "q": SHAREDB_BEST}).replace('"GAME"', "{i}"),
    "until": '"a":"qs"',
}
# The query of all subscribers: how often one event occurred, as a single number.
UPDATES_QUERY = {"metric": "update", "last": "24h", "step": "all"}


class LivePlaymeter(Playmeter):
    """Playmeter, with limits that allow all subscribers from one address and with one key."""

    name = "playmeter"
    remark = "DDP; each update is a durable event, each delivery a change of a query's result"
    settings = {
        f"PLAYMETER_CONNECTIONS__{name}_MAX": "20000" for name in ("TOTAL", "PER_ADDRESS", "SUBSCRIPTIONS_EACH")
    }
    watch_options = {"what": json.dumps(UPDATES_QUERY)}

    def start(self):
        super().start()
        self.watch_options = self.watch_options | {"key": self.secret}


class Nchan(Server):
    """nginx with Nchan: each post is sent to every WebSocket."""

    name = "nchan"
    remark = "one worker; nothing on disk"
    watch_options = {"path": "/subscribe", "post": "/publish", "body": NUMBERED, "script": []}

    @classmethod
    def missing(cls):
        found = shutil.which("nginx") and NCHAN_MODULE.exists()
        return None if found else "libnginx-mod-nchan is not installed"

    def start(self):
        port = free_port()
        (self.folder / "nginx.conf").write_text(nchan_configuration(port))
        self.launch("nginx", "-p", self.folder, "-c", "nginx.conf", "-e", "error.log")
        self.wait_for_port(port)
        # The port belongs to the master; memory and CPU time are the worker's.
        self.wait_until(lambda: len(machine.process_tree(self.pids)) > 1)
        self.url = f"http://127.0.0.1:{port}"


class NodeServer(Server):
    """A Node.js program in `bench/peers`."""

    folder_name = ""
    to_flags = ()

    @classmethod
    def missing(cls):
        for program in ("node", "npm"):
            if not shutil.which(program):
                return f"{program} is not installed"
        folder = PEERS / cls.folder_name
        if not (folder / "node_modules").exists():
            subprocess.run(["npm", "ci", "--silent"], cwd=folder, check=True)
        return None

    def start(self):
        port = free_port()
        self.launch("node", PEERS / self.folder_name / "server.mjs", port, *self.to_flags)
        self.wait_for_port(port)
        self.url = f"http://127.0.0.1:{port}"


class NodeWs(NodeServer):
    """A plain broadcast server with `ws`."""

    name = "node-ws"
    folder_name = "node-ws"
    remark = "nothing on disk"
    watch_options = {"path": "/", "post": "/publish", "body": NUMBERED, "script": []}


class ShareDb(NodeServer):
    """ShareDB with its in-memory store: all subscribers share one document."""

    name = "sharedb"
    folder_name = "sharedb"
    remark = "in-memory store; each update is an operation on one document"
    to_flags = (SHAREDB_GAMES, SHAREDB_PLAYERS_OF_A_GAME)
    watch_options = {
        "path": "/",
        "post": "/publish",
        "body": NUMBERED,
        "field": "oi",
        "script": [SHAREDB_HANDSHAKE, SHAREDB_DOCUMENT],
    }
    # The top ten of each game: live queries, one per subscriber.
    queries = watch_options | {"script": [SHAREDB_HANDSHAKE, SHAREDB_QUERY]}


class FanFloor(Server):
    """The cheapest possible fan-out: one loop, one send per subscriber."""

    name = "floor-fan"
    remark = "one send per subscriber; nothing else"

    @classmethod
    def missing(cls):
        return floors.missing("fanfloor")

    def start(self):
        port = free_port_pair()
        self.launch(floors.program("fanfloor"), port)
        self.wait_for_port(port)
        self.url = f"http://127.0.0.1:{port}"
        self.watch_options = {"path": "/", "post": f"tcp://127.0.0.1:{port + 1}", "body": NUMBERED, "script": []}


def free_port_pair():
    """Returns a free port whose successor is free, too, below the range of ephemeral ports."""
    for port in range(20_000, 30_000, 2):
        try:
            for number in (port, port + 1):
                with socket.socket() as listener:
                    listener.bind(("127.0.0.1", number))
            return port
        except OSError:
            continue
    raise RuntimeError("no two consecutive ports are free")


def nchan_configuration(port):
    """Configures one worker, as the other servers have one core; no logs, no limits that a run would reach."""
    user = "user root;" if os.geteuid() == 0 else ""
    temporary = " ".join(f"{name}_temp_path {name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    return f"""
load_module {NCHAN_MODULE};
daemon off; worker_processes 1; pid nginx.pid; error_log error.log warn; {user}
worker_rlimit_nofile 20000;
events {{ worker_connections 16384; }}
http {{
  access_log off; keepalive_requests 1000000; {temporary}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location = /subscribe {{
      nchan_subscriber websocket; nchan_channel_id bench; nchan_subscriber_first_message newest;
    }}
    location = /publish {{ nchan_publisher http; nchan_channel_id bench; nchan_message_buffer_length 100; }}
  }}
}}
"""


def watch(server, settings, subscribers, watch_options=None, **options):
    """Runs subscribers against a server until they end; returns the report, which includes errors."""
    with tempfile.TemporaryDirectory(dir=machine.SCRATCH) as folder:
        command = watch_command(server, Path(folder), subscribers, watch_options)
        command += to_flags({"seconds": settings.seconds, "warmup": settings.warmup} | options)
        done = subprocess.run(command, capture_output=True, text=True)
        return read_report(Path(folder), done.stderr)


class BackgroundSubscribers:
    """Subscribers that stay connected during another load; `report` is set once they have left."""

    def __init__(self, server, subscribers, watch_options=None, **options):
        self.server, self.subscribers, self.watch_options, self.options = server, subscribers, watch_options, options
        self.report = None

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(dir=machine.SCRATCH)
        if not self.subscribers:
            return self
        command = watch_command(self.server, Path(self.folder.name), self.subscribers, self.watch_options)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([*command, "--hold", *to_flags(self.options)], **pipes)
        output = self.process.stderr.readline()
        if "are watching" not in output:
            raise RuntimeError(
                f"subscribing to {self.server.name} failed: {output + self.process.stderr.read()}".strip()
            )
        return self

    def __exit__(self, *_):
        if self.subscribers:
            _, output = self.process.communicate()
            self.report = read_report(Path(self.folder.name), output)
        self.folder.cleanup()


def watch_command(server, folder, subscribers, watch_options):
    """Returns the command, pinned to the generator's core."""
    options = dict(watch_options or server.watch_options)
    if "script" in options:
        path = folder / "script.json"
        path.write_text(json.dumps(options["script"]))
        options["script"] = path
    command = ["taskset", "-c", GENERATOR_CORE, str(generator()), "bench", "watch", "--url", server.url]
    command += ["--pid", ",".join(map(str, server.pids)), "--json", str(folder / "report.json")]
    return [*command, "--subscribers", str(subscribers), *to_flags(options)]


def to_flags(options):
    return [word for name, value in options.items() for word in ("--" + name.replace("_", "-"), str(value))]


def read_report(folder, output):
    path = folder / "report.json"
    if not path.exists():
        raise RuntimeError(f"the subscribers failed: {output.strip()}")
    return json.loads(path.read_text())
