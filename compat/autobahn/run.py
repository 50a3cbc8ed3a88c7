"""The Autobahn suite against our WebSockets: run.py ECHO [--cases PATTERN ...]

ECHO is the built `echo` example: the product's handshake and framing under a session that sends back what it gets.
The suite is a Python 2.7 program; where there is none this says SKIPPED and why. It is installed into target/autobahn
at the versions of requirements.txt.
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
# Framing, pings, reserved bits, opcodes, fragmentation, UTF-8, closing, and messages in odd chops. Section 9 measures
# speed; 12 and 13 are about compression, which is not offered.
CASES = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "10.*"]
# A folder of packages counts as one only with its .pth files, which PYTHONPATH does not read.
START = "import site, sys; site.addsitedir(sys.argv.pop(1)); from autobahntestsuite.wstest import run; run()"
PASSES = {"OK", "NON-STRICT", "INFORMATIONAL"}


def python27():
    """The path of a Python 2.7, or None."""
    found = [shutil.which("python2.7")]
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=True).stdout.strip()
        found += sorted(map(str, pathlib.Path(root).glob("versions/2.7*/bin/python2.7")), reverse=True)
    for path in filter(None, found):
        if subprocess.run([path, "-m", "pip", "--version"], capture_output=True).returncode == 0:
            return path
    return None


def install(python):
    """Installs the suite where the same was not installed before."""
    requirements = HERE / "requirements.txt"
    version = hashlib.sha256(requirements.read_bytes()).hexdigest()
    folder = TARGET / "suite"
    done = folder / ".version"
    if not done.exists() or done.read_text() != version:
        shutil.rmtree(folder, ignore_errors=True)
        command = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
        subprocess.run([*command, "--target", str(folder), "-r", str(requirements)], check=True)
        done.write_text(version)
    return folder


def run(python, suite, echo, cases):
    """Runs these cases; returns what the suite says of each."""
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
    arguments = argparse.ArgumentParser()
    arguments.add_argument("echo")
    arguments.add_argument("--cases", nargs="+", default=CASES)
    chosen = arguments.parse_args()
    python = python27()
    if python is None:
        print("SKIPPED: the Autobahn suite needs a Python 2.7 with pip, and there is none here")
        return 0
    TARGET.mkdir(parents=True, exist_ok=True)
    results = run(python, install(python), chosen.echo, chosen.cases)
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
        print("no case was run")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
