"""Runs the Autobahn suite against Playmeter's WebSockets: run.py ECHO [--cases PATTERN ...]

ECHO is the built `echo` example: an echo server on Playmeter's handshake and framing. The suite is a Python 2.7 program;
without Python 2.7 this prints SKIPPED and the reason. It is installed into target/autobahn with the versions of
requirements.txt.
"""

import argparse
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TARGET = HERE.parent.parent / "target" / "autobahn"
# Framing, pings, reserved bits, opcodes, fragmentation, UTF-8, closing, and messages in odd pieces. Section 9 measures
# speed; 12 and 13 test compression, which the server does not support.
CASES = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "10.*"]
# The installed packages need their .pth files, which PYTHONPATH does not read.
START = "import site, sys; site.addsitedir(sys.argv.pop(1)); from autobahntestsuite.wstest import run; run()"
PASSES = {"OK", "NON-STRICT", "INFORMATIONAL"}


def python27():
    """Returns the path of a Python 2.7 with pip, or None."""
    candidates = [shutil.which("python2.7")]
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=True).stdout.strip()
        candidates += sorted(map(str, pathlib.Path(root).glob("versions/2.7*/bin/python2.7")), reverse=True)
    for path in filter(None, candidates):
        if subprocess.run([path, "-m", "pip", "--version"], capture_output=True).returncode == 0:
            return path
    return None


def install(python):
    """Installs the suite unless the same versions are installed."""
    requirements = HERE / "requirements.txt"
    version = hashlib.sha256(requirements.read_bytes()).hexdigest()
    folder = TARGET / "suite"
    marker = folder / ".version"
    if not marker.exists() or marker.read_text() != version:
        shutil.rmtree(folder, ignore_errors=True)
        command = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
        subprocess.run([*command, "--target", str(folder), "-r", str(requirements)], check=True)
        marker.write_text(version)
    return folder


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
        server.wait(timeout=30)
    return json.loads((reports / "index.json").read_text())["playmeter"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("echo")
    parser.add_argument("--cases", nargs="+", default=CASES)
    args = parser.parse_args()
    python = python27()
    if python is None:
        print("SKIPPED: the Autobahn suite needs Python 2.7 with pip, which is not installed")
        return 0
    TARGET.mkdir(parents=True, exist_ok=True)
    results = run(python, install(python), args.echo, args.cases)
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
        print(line)
    if not results:
        print("no cases were run")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
