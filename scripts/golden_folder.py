#!/usr/bin/env python3
"""Writes the golden data folder of the current format.

    scripts/golden_folder.py PLAYMETER OUT.tar.gz

Run it once for each released format, with the released program, and commit the archive: later versions have to open the
folder and to find in it what `e2e golden_folders::` expects. The folder is small, and has data of every kind that is stored.
"""

import gzip
import io
import json
import pathlib
import signal
import subprocess
import sys
import tarfile
import tempfile
import urllib.request

# What a start creates again, or does not need.
LEFT_OUT = {"lock", "control.sock", "server.pid", "reserve", "next.spare"}


class Server:
    def __init__(self, program, data):
        command = [program, "serve", "--data", data, "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=data.parent)
        self.process.stdout.readline()
        self.bootstrap = json.loads((data / "bootstrap.json").read_text())

    def send(self, method, path, body, key="secret_key"):
        headers = {"Authorization": f"Bearer {self.bootstrap[key]}", "Content-Type": "application/json"}
        url = self.bootstrap["url"] + path
        request = urllib.request.Request(url, json.dumps(body).encode(), headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0


def fill(server, data, program):
    events = [
        {
            "event": "score",
            "id": f"00000000-0000-4000-8000-{number:012x}",
            "player": f"player-{number % 7}",
            "session": f"session-{number % 11}",
            "value": number,
            "country": ["FR", "DE", "JP"][number % 3],
            "props": {"weapon": ["axe", "bow"][number % 2]},
        }
        for number in range(500)
    ]
    server.send("POST", "/v1/events", events, "public_key")
    server.send("PUT", "/v1/vars/speed", {"value": 5})
    create = [program, "games", "create", "second", "--name", "Second game", "--data", data]
    subprocess.run(create, check=True, stdout=subprocess.DEVNULL)


def archive(data, out):
    """Writes the folder with fixed times and owners, so that the archive depends on the content only."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in sorted(data.rglob("*")):
            if path.name in LEFT_OUT and path.parent.name != "views":
                continue
            entry = tar.gettarinfo(path, str(path.relative_to(data)))
            entry.mtime = entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            if path.is_file():
                with path.open("rb") as file:
                    tar.addfile(entry, file)
            elif path.is_dir():
                tar.addfile(entry)
    out.write_bytes(gzip.compress(buffer.getvalue(), 9, mtime=0))


def main():
    program, out = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as root:
        data = pathlib.Path(root) / "data"
        server = Server(program, data)
        fill(server, data, program)
        server.stop()
        # A part of the log that is not in the views yet.
        server = Server(program, data)
        server.send("POST", "/v1/events", [{"event": "last", "id": "00000000-0000-4000-8000-0000000f0000"}], "public_key")
        server.process.kill()
        server.process.wait()
        archive(data, out)
    print(f"{out}: {out.stat().st_size} bytes")


main()
