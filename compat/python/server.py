"""Starts a server on a new data folder for a test, and sends it requests."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("PLAYMETER_BINARY", str(ROOT / "target" / "release" / "playmeter"))
#: DuckDB's library, which `make sql-library` installs.
LIBRARY = ROOT / "sql" / "node_modules" / "@duckdb" / "node-bindings-linux-x64" / "libduckdb.so"


class Server:
    """A running server. `url`, `secret_key` and `public_key` are those of its first game."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="playmeter-python-"))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PLAYMETER_")}
        environment["PLAYMETER_SQL__LIBRARY"] = str(LIBRARY)
        command = [BINARY, "serve", "--data", str(self.folder / "data"), "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        for line in self.process.stdout:
            if "Playmeter is ready" in line:
                break
        else:
            raise RuntimeError("the server has not started")
        bootstrap = json.loads((self.folder / "data" / "bootstrap.json").read_text())
        self.url, self.secret_key, self.public_key = (bootstrap[name] for name in ("url", "secret_key", "public_key"))
        self.port = int(self.url.rsplit(":", 1)[1])

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=180)
        self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def request(self, path, body=None):
        """Sends JSON, or a GET, with the secret key; returns the response as bytes."""
        headers = {"Authorization": f"Bearer {self.secret_key}"}
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers)
        with urllib.request.urlopen(request, timeout=180) as response:
            return response.read()

    def total(self, metric, measure="count"):
        query = {"metric": metric, "measure": measure, "last": "24h", "step": "all"}
        series = json.loads(self.request("/v1/query", query))["series"]
        return series[0]["total"] if series else None
