"""Servers that tell many WebSockets of each update, and how `playmeter bench watch` talks to each.

Each has `watching`, the options of the command: where the WebSocket is, what to say to be told, where
updates are posted, and which number of a message grows.
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
# What is watched by everybody: how often one event came, all in one number.
UPDATES = {"metric": "update", "last": "24h", "step": "all"}


class LivePlaymeter(Playmeter):
    """The product, with room for all the subscribers at one address and with one key."""

    name = "playmeter"
    remark = "DDP; each update is a durable event, each delivery the change of a query's answer"
    settings = {
        f"PLAYMETER_CONNECTIONS__{name}_MAX": "20000" for name in ("TOTAL", "PER_ADDRESS", "SUBSCRIPTIONS_EACH")
    }
    watching = {"what": json.dumps(UPDATES)}

    def start(self):
        super().start()
        self.watching = self.watching | {"key": self.secret}


class Nchan(Server):
    """nginx with Nchan: what is posted goes to every WebSocket."""

    name = "nchan"
    remark = "one worker; nothing on disk"
    watching = {"path": "/subscribe", "post": "/publish", "body": NUMBERED, "script": []}

    @classmethod
    def missing(cls):
        found = shutil.which("nginx") and NCHAN_MODULE.exists()
        return None if found else "libnginx-mod-nchan is not installed"

    def start(self):
        port = free_port()
        (self.folder / "nginx.conf").write_text(nchan_configuration(port))
        self.launch("nginx", "-p", self.folder, "-c", "nginx.conf", "-e", "error.log")
        self.wait_for_port(port)
        # The port is the master's; the memory and the time are the worker's.
        self.wait_until(lambda: len(machine.tree(self.pids)) > 1)
        self.url = f"http://127.0.0.1:{port}"


class NodeServer(Server):
    """A program of `bench/peers` in Node.js."""

    folder_name = ""
    arguments = ()

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
        self.launch("node", PEERS / self.folder_name / "server.mjs", port, *self.arguments)
        self.wait_for_port(port)
        self.url = f"http://127.0.0.1:{port}"


class NodeWs(NodeServer):
    """A plain broadcast server with `ws`."""

    name = "node-ws"
    folder_name = "node-ws"
    remark = "nothing on disk"
    watching = {"path": "/", "post": "/publish", "body": NUMBERED, "script": []}


class ShareDb(NodeServer):
    """ShareDB with its in-memory store: one document that everybody watches."""

    name = "sharedb"
    folder_name = "sharedb"
    remark = "in-memory store; each update is an operation on one document"
    arguments = (SHAREDB_GAMES, SHAREDB_PLAYERS_OF_A_GAME)
    watching = {
        "path": "/",
        "post": "/publish",
        "body": NUMBERED,
        "field": "oi",
        "script": [SHAREDB_HANDSHAKE, SHAREDB_DOCUMENT],
    }
    # The ten best of each game: live queries, one for each subscriber.
    queries = watching | {"script": [SHAREDB_HANDSHAKE, SHAREDB_QUERY]}


class FanFloor(Server):
    """The cheapest fan-out there is: one loop, one send for each subscriber."""

    name = "floor-fan"
    remark = "one send for each subscriber; nothing else"

    @classmethod
    def missing(cls):
        return floors.missing("fanfloor")

    def start(self):
        port = free_pair()
        self.launch(floors.program("fanfloor"), port)
        self.wait_for_port(port)
        self.url = f"http://127.0.0.1:{port}"
        self.watching = {"path": "/", "post": f"tcp://127.0.0.1:{port + 1}", "body": NUMBERED, "script": []}


def free_pair():
    """A free port with a free one behind it, below those that the system gives to thousands of clients."""
    for port in range(20_000, 30_000, 2):
        try:
            for number in (port, port + 1):
                with socket.socket() as listener:
                    listener.bind(("127.0.0.1", number))
            return port
        except OSError:
            continue
    raise RuntimeError("no two ports are free")


def nchan_configuration(port):
    """One worker, as the others have one core; no logs, no limits that a run would meet."""
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


def watch(server, settings, subscribers, watching=None, **options):
    """Runs the subscribers beside a server until they end, and returns the report; what is wrong is part of it."""
    with tempfile.TemporaryDirectory(dir=machine.SCRATCH) as folder:
        command = watch_command(server, Path(folder), subscribers, watching)
        command += arguments({"seconds": settings.seconds, "warmup": settings.warmup} | options)
        done = subprocess.run(command, capture_output=True, text=True)
        return report_in(Path(folder), done.stderr)


class Held:
    """Subscribers that stay while something else offers load; `report` is there once they have left."""

    def __init__(self, server, subscribers, watching=None, **options):
        self.server, self.subscribers, self.watching, self.options = server, subscribers, watching, options
        self.report = None

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(dir=machine.SCRATCH)
        if not self.subscribers:
            return self
        command = watch_command(self.server, Path(self.folder.name), self.subscribers, self.watching)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([*command, "--hold", *arguments(self.options)], **pipes)
        said = self.process.stderr.readline()
        if "are watching" not in said:
            raise RuntimeError(f"nobody watches {self.server.name}: {said + self.process.stderr.read()}".strip())
        return self

    def __exit__(self, *_):
        if self.subscribers:
            _, said = self.process.communicate()
            self.report = report_in(Path(self.folder.name), said)
        self.folder.cleanup()


def watch_command(server, folder, subscribers, watching):
    """The command, on the generator's core."""
    options = dict(watching or server.watching)
    if "script" in options:
        path = folder / "script.json"
        path.write_text(json.dumps(options["script"]))
        options["script"] = path
    command = ["taskset", "-c", GENERATOR_CORE, str(generator()), "bench", "watch", "--url", server.url]
    command += ["--pid", ",".join(map(str, server.pids)), "--json", str(folder / "report.json")]
    return [*command, "--subscribers", str(subscribers), *arguments(options)]


def arguments(options):
    return [word for name, value in options.items() for word in ("--" + name.replace("_", "-"), str(value))]


def report_in(folder, said):
    path = folder / "report.json"
    if not path.exists():
        raise RuntimeError(f"the subscribers failed: {said.strip()}")
    return json.loads(path.read_text())
