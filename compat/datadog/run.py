"""Runs Datadog's Python client against a collector on a Unix socket: run.py BINARY

Starts the server on a new data folder, sends metrics from one process over DogStatsD, and compares the results of queries
with what was sent. The client is installed into target/datadog with the versions of requirements.txt.
"""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
TARGET = HERE.parent.parent / "target" / "datadog"
TIMEOUT_S = 30


def install():
    """Installs the client unless the same versions are installed."""
    requirements = HERE / "requirements.txt"
    version = hashlib.sha256(requirements.read_bytes()).hexdigest()
    marker = TARGET / ".version"
    if not marker.exists() or marker.read_text() != version:
        shutil.rmtree(TARGET, ignore_errors=True)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
        command.append("--root-user-action=ignore")
        subprocess.run([*command, "--target", str(TARGET), "-r", str(requirements)], check=True)
        marker.write_text(version)
    sys.path.insert(0, str(TARGET))


class Server:
    """A server with a collector on a Unix socket."""

    def __init__(self, binary, folder):
        self.socket = f"{folder}/dsd.socket"
        settings = pathlib.Path(folder, "settings.toml")
        collector = f'[collectors.dogstatsd]\ntransport = "unixgram"\ndecoder = "statsd"\npath = "{self.socket}"\n'
        settings.write_text(collector + 'permissions = "600"\ntags = ["region"]\n')
        args = [binary, "serve", "--data", f"{folder}/data", "--listen", "127.0.0.1:0", "--config", str(settings)]
        env = {name: value for name, value in os.environ.items() if not name.startswith("PLAYMETER_")}
        self.process = subprocess.Popen(args, stdout=subprocess.PIPE, text=True, env=env)
        while "Playmeter is ready" not in (line := self.process.stdout.readline()):
            assert line, "the server did not start"
        bootstrap = json.loads(pathlib.Path(folder, "data", "bootstrap.json").read_text())
        self.url, self.key = bootstrap["url"], bootstrap["secret_key"]

    def get(self, path, body=None):
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers)) as response:
            return json.load(response)

    def counters(self):
        (collector,) = self.get("/v1/collectors")["collectors"]
        return collector["counters"]

    def measure(self, metric, measure, region=None):
        query = {"metric": metric, "measure": measure, "last": "24h", "step": "all"}
        if region is not None:
            query["where"] = {"region": region}
        return self.get("/v1/query", query)["series"][0]["total"]


def send(path):
    """Sends metrics of every kind and returns how many."""
    from datadog.dogstatsd.base import DogStatsd

    client = DogStatsd(socket_path=path, disable_telemetry=True, disable_buffering=True, socket_timeout=TIMEOUT_S)
    for number in range(100):
        tags = [f"region:{['north', 'south'][number % 2]}"]
        client.increment("dd.hits", number, tags=tags)
        client.histogram("dd.load", number, tags=tags)
    client.gauge("dd.players", 7)
    client.set("dd.users", "ann")
    client.set("dd.users", "bo")
    client.set("dd.users", "ann")
    with client:
        for number in range(50):
            client.increment("dd.packed")
    return 254


def main():
    binary = os.path.abspath(sys.argv[1])
    install()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(binary, folder)
        try:
            assert os.stat(server.socket).st_mode & 0o777 == 0o600
            sent = send(server.socket)
            deadline = time.monotonic() + TIMEOUT_S
            while (counters := server.counters())["accepted"] < sent:
                assert time.monotonic() < deadline, counters
                time.sleep(0.05)
            assert (counters["accepted"], counters["received"]) == (sent, sent), counters
            for metric, measure, region, expected in [
                ("dd.hits", "sum", None, 4950),
                ("dd.hits", "sum", "north", 2450),
                ("dd.load", "avg", "south", 50),
                ("dd.load", "max", None, 99),
                ("dd.players", "last", None, 7),
                ("dd.users", "uniques", None, 2),
                ("dd.packed", "sum", None, 50),
            ]:
                found = server.measure(metric, measure, region)
                assert found == expected, (metric, measure, region, found)
        finally:
            server.process.terminate()
            server.process.wait(timeout=TIMEOUT_S)
        assert not os.path.exists(server.socket), "the socket is removed"
    print("datadog: every metric arrived over the Unix socket")


if __name__ == "__main__":
    main()
