"""Measures browsers on the Live page of the demo game: how many stay up to date, and the server's CPU for each."""

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
# Lets the server finish starting before the baseline is measured.
SETTLE_S = 3
# A page that shows older data is not up to date. Pages show times with a resolution of one second.
AGE_MS_MAX = 3_000
# Opening pages is the slowest part; pages that are not open by then exceed what the machine can handle.
PAGES_TIMEOUT_S = 100
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")


class Demo(Playmeter):
    """Playmeter with simulated players."""

    flags = ("--demo",)


def browser_pages(settings):
    """6g"""
    result = Result()
    reason = missing()
    if reason:
        result.notes.append(f"left out: {reason}")
        return result
    with Demo(ALL_CORES) as server:
        rows = list(run_steps(server, settings))
    fresh_rows = [row for row in rows if row["age_ms_max"] <= AGE_MS_MAX and row["connected"] == row["pages"]]
    baseline_cores = rows[0]["server_cores"]
    result.rows = {row["subject"]: [row] for row in rows[1:]}
    result.figures["server_cores without pages"] = baseline_cores
    if fresh_rows:
        last_row = fresh_rows[-1]
        result.figures["pages up to date"] = last_row["pages"]
        added_cores = last_row["server_cores"] - baseline_cores
        result.figures["server_cores per page"] = added_cores / max(last_row["pages"], 1)
    connected = len(rows) > 1 and all(row["connected"] == row["pages"] for row in rows)
    why = f"{rows[-1]['connected']} of {rows[-1]['pages']} at the end"
    result.checks.append({"check": "every page stayed connected", "passed": connected, "why": why})
    result.notes.append(
        f"server, simulated players and browsers share all cores; up to date: connected, and no data older than "
        f"{AGE_MS_MAX / 1000:g} s; in steps up to {STEPS[-1]} pages, or as many as were open within {PAGES_TIMEOUT_S} s"
    )
    return result


def missing():
    """Returns why the job cannot run on this machine, or None."""
    if Playmeter.missing():
        return Playmeter.missing()
    if not shutil.which("node") or not os.path.exists(CHROMIUM):
        return "node or chromium is not installed"
    found = (machine.ROOT / "web" / "node_modules" / "playwright-core").exists()
    return None if found else "web/node_modules is missing: run make web"


def run_steps(server, settings):
    """Measures the server without pages, then with more and more pages until they are not up to date."""
    bootstrap = json.loads((server.folder / "data" / "bootstrap.json").read_text())
    time.sleep(SETTLE_S)
    before = cpu_snapshot(server)
    time.sleep(SECONDS)
    yield {"subject": "no pages", "pages": 0, "connected": 0, "age_ms_max": 0, "server_cores": cores(server, before)}
    command = ["node", machine.ROOT / "bench" / "browsers.mjs", server.url, bootstrap["sign_in_url"]]
    command += [",".join(map(str, STEPS)), SECONDS]
    devnull = subprocess.DEVNULL
    process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=devnull, text=True)
    timer = threading.Timer(PAGES_TIMEOUT_S, process.terminate)
    timer.start()
    try:
        for line in process.stdout:
            found = json.loads(line)
            if "connected" not in found:
                before = cpu_snapshot(server)
                continue
            row = found | page_row(server, before, found["pages"])
            settings.log(
                f"  {row['subject']}: server {row['server_cores']:.3f} cores, oldest data {row['age_ms_max']:,} ms"
            )
            yield row
            if row["age_ms_max"] > AGE_MS_MAX:
                break
    finally:
        timer.cancel()
        process.terminate()
        process.wait()


def page_row(server, before, pages):
    return {
        "subject": f"{pages} pages",
        "server_cores": cores(server, before),
        "memory_mib": machine.memory_mib(server.pids),
        "load_average": machine.load_average(),
    }


def cpu_snapshot(server):
    """Returns the CPU seconds used so far, and the current time."""
    return machine.cpu_seconds(server.pids), time.monotonic()


def cores(server, before):
    cpu, at = cpu_snapshot(server)
    return (cpu - before[0]) / (at - before[1])
