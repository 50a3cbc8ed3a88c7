"""Real browsers on the Live page of the demo game: how many the machine carries, and what each costs the server."""

import json
import os
import shutil
import subprocess
import threading
import time

from . import machine
from .jobs import ALL_CORES, Result
from .servers import Playmeter

STEPS = (1, 5, 10, 20, 30, 40)
SECONDS = 6
# What a start takes is not what nobody watching takes.
SETTLE_S = 3
# A page that shows something older does not keep up. What it shows is told to the second.
AGE_MS_MAX = 3_000
# Opening pages is the dearest of it; what is not open by then is more than the machine carries in good time.
STRESS_S = 100
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")


class Demo(Playmeter):
    """The product with its simulated players."""

    flags = ("--demo",)


def stress(settings):
    """6g"""
    result = Result()
    reason = missing()
    if reason:
        result.notes.append(f"left out: {reason}")
        return result
    with Demo(ALL_CORES) as server:
        rows = list(steps(server, settings))
    carried = [row for row in rows if row["age_ms_max"] <= AGE_MS_MAX and row["connected"] == row["pages"]]
    alone = rows[0]["server_cores"]
    result.rows = {row["subject"]: [row] for row in rows[1:]}
    result.figures["server_cores without pages"] = alone
    if carried:
        most = carried[-1]
        result.figures["pages carried"] = most["pages"]
        result.figures["server_cores for a page"] = (most["server_cores"] - alone) / max(most["pages"], 1)
    connected = len(rows) > 1 and all(row["connected"] == row["pages"] for row in rows)
    why = f"{rows[-1]['connected']} of {rows[-1]['pages']} at the end"
    result.checks.append({"check": "every page stayed connected", "passed": connected, "why": why})
    result.notes.append(
        f"server, simulated players and browsers share all cores; carried: connected, and nothing shown is older than "
        f"{AGE_MS_MAX / 1000:g} s; in steps up to {STEPS[-1]} pages, or as many as were open within {STRESS_S} s"
    )
    return result


def missing():
    """Why browsers cannot run here, or None."""
    if Playmeter.missing():
        return Playmeter.missing()
    if not shutil.which("node") or not os.path.exists(CHROMIUM):
        return "node or chromium is not installed"
    found = (machine.ROOT / "web" / "node_modules" / "playwright-core").exists()
    return None if found else "web/node_modules is not there: make web"


def steps(server, settings):
    """The server without pages, and then with more and more until they do not keep up."""
    bootstrap = json.loads((server.folder / "data" / "bootstrap.json").read_text())
    time.sleep(SETTLE_S)
    before = spent(server)
    time.sleep(SECONDS)
    yield {"subject": "no pages", "pages": 0, "connected": 0, "age_ms_max": 0, "server_cores": cores(server, before)}
    command = ["node", machine.ROOT / "bench" / "browsers.mjs", server.url, bootstrap["sign_in_url"]]
    command += [",".join(map(str, STEPS)), SECONDS]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=quiet, text=True)
    late = threading.Timer(STRESS_S, process.terminate)
    late.start()
    try:
        for line in process.stdout:
            found = json.loads(line)
            if "connected" not in found:
                before = spent(server)
                continue
            row = found | page_row(server, before, found["pages"])
            settings.say(f"  {row['subject']}: server {row['server_cores']:.3f} cores, oldest {row['age_ms_max']:,} ms")
            yield row
            if row["age_ms_max"] > AGE_MS_MAX:
                break
    finally:
        late.cancel()
        process.terminate()
        process.wait()


def page_row(server, before, pages):
    return {
        "subject": f"{pages} pages",
        "server_cores": cores(server, before),
        "memory_mib": machine.memory_mib(server.pids),
        "load_average": machine.load_average(),
    }


def spent(server):
    """CPU seconds so far, and when that was."""
    return machine.cpu_seconds(server.pids), time.monotonic()


def cores(server, before):
    cpu, at = spent(server)
    return (cpu - before[0]) / (at - before[1])
