"""Sends metrics with Datadog's Python client to a collector on a Unix socket: metrics.py BINARY

Starts the server on a new data folder, sends metrics from one process over DogStatsD, and compares the results of queries
with what was sent.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

from datadog.dogstatsd.base import DogStatsd

TIMEOUT_S = 180


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
            measures = [
                ("dd.hits", "sum", None, 4950),
                ("dd.hits", "sum", "north", 2450),
                ("dd.load", "avg", "south", 50),
                ("dd.load", "max", None, 99),
                ("dd.players", "last", None, 7),
                ("dd.users", "uniques", None, 2),
                ("dd.packed", "sum", None, 50),
            ]
            for metric, measure, region, expected in measures:
                found = server.measure(metric, measure, region)
                assert found == expected, (metric, measure, region, found)
        finally:
            server.process.terminate()
            server.process.wait(timeout=TIMEOUT_S)
        assert not os.path.exists(server.socket), "the socket is removed"
    print(f"every metric arrived over the Unix socket\n{len(measures)} passed, 0 failed")


if __name__ == "__main__":
    main()
