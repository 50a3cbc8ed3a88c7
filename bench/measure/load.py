"""Generates load: every server gets it from the same generator, `playmeter bench`."""

import json
import os
import random
import struct
import subprocess
import tempfile
import time
from pathlib import Path

from . import machine
from .servers import Playmeter

GENERATOR_CORE = "1"
NAMES = ["level_start", "start", "level_end", "death", "score", "purchase", "ad", "view", "share", "end"]
COUNTRIES = ["US", "GB", "DE", "FR", "BR", "IN", "RU", "CN", "JP", "AU"]
PLATFORMS = ["web", "ios", "android"]


def generator():
    return Path(os.environ.get("PLAYMETER_GENERATOR", Playmeter.binary()))


def run_load(server, seconds, warmup, core=GENERATOR_CORE, **options):
    """Runs the generator against a server and returns its report, which includes errors."""
    with tempfile.NamedTemporaryFile(dir=machine.SCRATCH, suffix=".json") as report:
        command = [generator(), "bench", "--url", server.url, "--seconds", seconds, "--warmup", warmup]
        command += ["--pid", ",".join(map(str, server.pids)), "--json", report.name]
        command += ["--key", server.key] if server.key else []
        for name, value in options.items():
            flag = "--" + name.replace("_", "-")
            command += [flag] if value is True else [flag, value]
        pinned = ["taskset", "-c", core, *map(str, command)] if core else [*map(str, command)]
        completed = subprocess.run(pinned, capture_output=True, text=True)
        text = Path(report.name).read_text()
        if not text:
            raise RuntimeError(f"the generator failed: {completed.stderr.strip()}")
        return json.loads(text)


def request_file(folder, requests):
    """Writes a file of requests for `--kind requests`: each request is preceded by its length."""
    path = folder / "requests.bin"
    path.write_bytes(b"".join(struct.pack("<I", len(request)) + request for request in requests))
    return path


def get(path, key=None):
    """Returns the bytes of a GET request."""
    authorization = f"Authorization: Bearer {key}\r\n" if key else ""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{authorization}\r\n".encode()


def post(path, body, content_type="text/plain"):
    """Returns the bytes of a POST request."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {content_type}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def line_requests(batch, count=64):
    """Returns batches of events in Influx line protocol: name and dimensions as tags, one value."""
    source = random.Random(1)
    now_ms = int(time.time() * 1000)
    requests = []
    for _ in range(count):
        lines = (influx_line(source, now_ms - source.randrange(60_000)) for _ in range(batch))
        requests.append(post("/write?precision=ms", "\n".join(lines).encode()))
    return requests


def influx_line(source, at_ms):
    tags = f"event={source.choice(NAMES)},country={source.choice(COUNTRIES)},platform={source.choice(PLATFORMS)}"
    return f"events,{tags},level={source.randrange(200)} value={source.randrange(1000)} {at_ms}"


def event_requests(batch, count=64):
    """Returns batches of events as JSON, for generators that only replay requests."""
    source = random.Random(1)
    now_ms = int(time.time() * 1000)

    def event():
        return {
            "event": source.choice(NAMES),
            "ts": now_ms,
            "player": f"p{source.randrange(1_000_000):06}",
            "level": str(source.randrange(200)),
            "value": source.randrange(1000),
            "country": source.choice(COUNTRIES),
            "platform": source.choice(PLATFORMS),
        }

    bodies = ([event() for _ in range(batch)] if batch > 1 else event() for _ in range(count))
    packed = (json.dumps(body, separators=(",", ":")).encode() for body in bodies)
    return [post("/v1/events", body, "application/json") for body in packed]
