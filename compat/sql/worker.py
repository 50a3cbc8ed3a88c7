"""Speaks with a worker for SQL as the server does: frames over its standard input and output."""

import json
import os
import pathlib
import platform
import struct
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORKER = os.environ.get("PLAYMETER_SQL", str(ROOT / "target/release/playmeter-sql"))
ARCH = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
LIBRARY = ROOT / f"sql/node_modules/@duckdb/node-bindings-linux-{ARCH}/libduckdb.so"
SETUP, QUERY = 1, 2
COLUMNS, DATA, DONE, FAILURE = 1, 2, 3, 4


class Failure(Exception):
    """An error that the worker returned for a query."""


class Died(Exception):
    """The worker has exited. If it crashed, its last words are on standard error."""


class Worker:
    """A worker over files of events."""

    def __init__(self, files):
        self.process = subprocess.Popen([WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={}, cwd="/")
        events = [{"path": str(path), "format": "parquet"} for path in files]
        self.send(SETUP, {
            "library": str(LIBRARY),
            "tables": {"events": events, "sessions": [], "players": [], "scores": []},
            "isolation": "required",
            "memory_bytes": 1 << 30,
            "threads": 2,
            "cpu_seconds": 600,
        })

    def send(self, kind, value):
        payload = json.dumps(value).encode()
        try:
            self.process.stdin.write(struct.pack("<IB", len(payload) + 1, kind) + payload)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Died(f"exit code {self.process.wait()}") from None

    def ask(self, sql, answer_format):
        """Returns the bytes of an answer."""
        query = {"sql": sql, "format": answer_format, "rows_max": 1 << 32, "bytes_max": 1 << 32, "timeout_ms": 300_000}
        self.send(QUERY, query)
        data = b""
        while True:
            header = self.process.stdout.read(5)
            if len(header) < 5:
                raise Died(f"exit code {self.process.wait()}")
            length, kind = struct.unpack("<IB", header)
            payload = self.process.stdout.read(length - 1)
            if kind == DATA:
                data += payload
            elif kind == DONE:
                return data
            elif kind == FAILURE:
                raise Failure(payload.decode())

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # What was not sent to a dead worker.
        self.process.wait()
        self.process.stdout.close()
