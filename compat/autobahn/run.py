"""Runs the Autobahn suite against Playmeter's WebSockets: run.py ECHO [--cases PATTERN ...]

ECHO is the built `echo` example: an echo server on Playmeter's handshake and framing. The suite is a Python 2.7 program.
It is installed into target/compat/autobahn with the versions and hashes of requirements.txt.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from environment import install, packages

TARGET = HERE.parent.parent / "target" / "autobahn"
# Framing, pings, reserved bits, opcodes, fragmentation, UTF-8, closing, and messages in odd pieces. Section 9 measures
# speed; 12 and 13 test compression, which the server does not support.
CASES = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "10.*"]
# The installed packages need their .pth files, which PYTHONPATH does not read.
START = "import site, sys; site.addsitedir(sys.argv.pop(1)); from autobahntestsuite.wstest import run; run()"
PASSES = {"OK", "NON-STRICT", "INFORMATIONAL"}


def run(python, suite, echo, cases):
    """Runs these cases; returns the suite's result for each."""
    reports = TARGET / "reports"
    shutil.rmtree(reports, ignore_errors=True)
    server = subprocess.Popen([echo, "127.0.0.1:0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        url = f"ws://{server.stdout.readline().strip()}/websocket"
        spec = TARGET / "fuzzingclient.json"
        agent = {"agent": "playmeter", "url": url, "options": {"version": 18}}
        spec.write_text(json.dumps({"outdir": str(reports), "servers": [agent], "cases": cases, "exclude-cases": []}))
        wstest = [python, "-c", START, str(suite), "-m", "fuzzingclient", "-s", str(spec)]
        with open(TARGET / "wstest.log", "w") as log:
            subprocess.run(wstest, check=True, cwd=TARGET, stdout=log, stderr=log)
    finally:
        server.stdin.close()
        server.wait(timeout=180)
    return json.loads((reports / "index.json").read_text())["playmeter"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("echo")
    parser.add_argument("--cases", nargs="+", default=CASES)
    args = parser.parse_args()
    TARGET.mkdir(parents=True, exist_ok=True)
    results = run(install("autobahn"), packages("autobahn"), args.echo, args.cases)
    by_number = lambda case: [int(part) for part in case.split(".")]
    failed = []
    counts = {}
    for case in sorted(results, key=by_number):
        behavior, closing = results[case]["behavior"], results[case]["behaviorClose"]
        counts[behavior] = counts.get(behavior, 0) + 1
        if behavior not in PASSES or closing not in PASSES:
            failed.append(f"{case}: {behavior}, closing: {closing}")
    print(f"Autobahn: {len(results)} cases: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    for line in failed:
        print(f"FAILED {line}")
    print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
