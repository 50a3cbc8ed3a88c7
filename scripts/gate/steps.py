"""The kinds of checks, and how the results of each are read.

A failed test is run once more, and is flaky if it passes then. Checks that compare stored data with what was acknowledged are
not retried: losing data once is a failure.
"""

import json
import re
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

from .outcome import Outcome
from .shell import TIMEOUT_S

# Longer than any test takes; the same as in .config/nextest.toml. node:test applies it to tests and to whole files.
NODE_TEST_TIMEOUT_MS = 600_000
REPORTER = Path(__file__).resolve().parent / "reporter.mjs"


def run_units(shell, name, run, is_retried=True):
    """Runs the units of a step, those that failed once more, and returns the sum.

    `run(units)` runs these units, or all of them if it gets `None`, and returns the outcome of each by its name.
    """
    outcomes = run(None)
    broken = [unit for unit in outcomes if outcomes[unit].failed]
    if broken and is_retried:
        shell.print(f"{name}: run once more: {' '.join(broken)}")
        again = run(broken)
        # A failure outside of the units has a name that is missing then.
        is_passed = not any(outcome.failed for outcome in again.values())
        for unit in broken:
            if unit not in again and is_passed:
                again[unit] = Outcome()
            if unit in again and not again[unit].failed:
                again[unit].flaky, again[unit].flaky_units = outcomes[unit].failed, 1
        outcomes |= again
    total = Outcome()
    for outcome in outcomes.values():
        total.add(outcome)
    return total


@dataclass(frozen=True)
class Command:
    """One check, which passes if the command exits with 0 in one of its `tries`."""

    name: str
    argv: list
    cwd: str = "."
    tries: int = 1
    pause_s: float = 5

    def run(self, shell):
        for number in range(self.tries):
            if number:
                shell.print(f"try {number + 1} of {self.tries}: {self.name}")
                time.sleep(self.pause_s)
            if shell.run(self.argv, self.cwd).code == 0:
                return Outcome(passed=1)
        return Outcome(failed=[self.name])


@dataclass(frozen=True)
class Check:
    """One check in this process: the function returns what is wrong, or `None`."""

    name: str
    find_problem: object

    def run(self, shell):
        problem = self.find_problem()
        if problem is None:
            return Outcome(passed=1)
        shell.print(f"FAILED {self.name}: {problem}")
        return Outcome(failed=[f"{self.name}: {problem}"])


@dataclass(frozen=True)
class Script:
    """A program that counts its own checks: unittest, or a script that ends with `N passed, M failed`."""

    name: str
    argv: list
    cwd: str = "."
    is_retried: bool = True
    environment: dict = field(default_factory=dict)
    timeout_s: int = TIMEOUT_S

    def run(self, shell):
        return run_units(shell, self.name, lambda _: {self.name: self._run_once(shell)}, self.is_retried)

    def _run_once(self, shell):
        finished = shell.run(self.argv, self.cwd, self.environment, self.timeout_s)
        outcome = read_counts(finished.lines)
        if finished.code != 0 and not outcome.failed:
            outcome.failed = [describe_exit(finished)]
        elif outcome == Outcome():
            outcome.failed = ["no check was counted"]
        outcome.failed = [f"{self.name}: {name}" for name in outcome.failed]
        return outcome


def read_counts(lines):
    """Reads what a script printed: how many checks passed and were skipped, and which failed."""
    text = "\n".join(lines)
    outcome = Outcome(skipped=sum(line.startswith("SKIPPED") for line in lines))
    if ran := re.findall(r"^Ran (\d+) tests? in ", text, re.MULTILINE):
        # Other output may have lines that look like these.
        if re.search(r"^FAILED \(", text, re.MULTILINE):
            outcome.failed = name_subtests(re.findall(r"^(?:FAIL|ERROR): (.+)$", text, re.MULTILINE))
        skipped = sum(map(int, re.findall(r"^(?:OK|FAILED) \(.*?skipped=(\d+)", text, re.MULTILINE)))
        outcome.skipped += skipped
        # Hooks are not among those that ran.
        failed = [name for name in outcome.failed if not re.match(r"(setUp|tearDown)(Class|Module) \(", name)]
        outcome.passed = max(0, sum(map(int, ran)) - skipped - len(failed))
        return outcome
    outcome.failed = re.findall(r"^(?:  FAIL  |FAILED )(.+)$", text, re.MULTILINE)
    closing = re.findall(r"^(\d+) passed, (\d+) failed", text, re.MULTILINE)
    passed, failed = map(int, closing[-1]) if closing else (sum(line.startswith("  ok ") for line in lines), 0)
    outcome.passed = passed
    if failed and not outcome.failed:
        outcome.failed = [f"{failed} checks"]
    return outcome


def name_subtests(names):
    """Returns one name for each test of unittest: that of the first subtest which failed, and how many followed."""
    subtests = {}
    for name in names:
        test = re.match(r"[\w.]+ \([^()\s]+\)", name)
        subtests.setdefault(test.group() if test else name, []).append(name)
    return [first + (f" and {len(others)} more" if others else "") for first, *others in subtests.values()]


def describe_exit(finished):
    """Returns the exit code and the last line that is not empty."""
    line = next((line.strip()[:160] for line in reversed(finished.lines) if line.strip()), "no output")
    return f"exit code {finished.code}: {line}"


@dataclass(frozen=True)
class NodeTests:
    """Files of node:test in a folder; with `server`, beside a new server of this program that all of them use."""

    name: str
    folder: str
    server: str | None = None

    def run(self, shell):
        files = sorted(path.name for path in (shell.root / self.folder).glob("*.test.mjs"))
        if not files:
            return Outcome(failed=[f"{self.name}: {self.folder} has no test file"])
        return run_units(shell, self.name, lambda broken: self._run_files(shell, broken or files))

    def _run_files(self, shell, files):
        results = shell.root / "target/check/node.jsonl"
        results.unlink(missing_ok=True)
        command = ["node", "--test", "--test-concurrency=1", f"--test-timeout={NODE_TEST_TIMEOUT_MS}"]
        command += [f"--test-reporter={REPORTER}", f"--test-reporter-destination={results}"]
        command += ["--test-reporter=spec", "--test-reporter-destination=stdout", *files]
        if self.server:
            command = [shell.root / "scripts/with-server", shell.root / self.server, "--", *command]
        finished = shell.run(command, self.folder)
        outcomes = {file: Outcome() for file in files}
        for line in results.read_text().splitlines() if results.exists() else []:
            test = json.loads(line)
            file = Path(test["file"]).name
            # Node reports a file that fails outside of its tests, or has none, like a test with the name of the file.
            is_file = test["name"].endswith(file)
            if test["outcome"] == "failed" or is_file:
                detail = f": {test['name']}" if not is_file else ": no test was run" if test["outcome"] == "passed" else ""
                outcomes[file].failed.append(f"{self.folder}/{file}{detail}")
            else:
                outcomes[file].passed += test["outcome"] == "passed"
                outcomes[file].skipped += test["outcome"] == "skipped"
        for file, outcome in outcomes.items():
            if outcome == Outcome():
                outcome.failed.append(f"{self.folder}/{file}: no test was run: {describe_exit(finished)}")
        if finished.code != 0 and not any(outcome.failed for outcome in outcomes.values()):
            # Nothing says which file it was, so all of them failed.
            for file, outcome in outcomes.items():
                outcome.failed.append(f"{self.folder}/{file}: {describe_exit(finished)}")
        return outcomes


@dataclass(frozen=True)
class Vitest:
    """The unit tests of a Node package."""

    name: str
    folder: str

    def run(self, shell):
        return run_units(shell, self.name, lambda broken: self._run_files(shell, broken or []))

    def _run_files(self, shell, units):
        # A failure outside of the tests has the name of the step: then all files are run.
        files = [] if self.name in units else units
        results = shell.root / "target/check/vitest.json"
        results.unlink(missing_ok=True)
        command = ["npx", "--no-install", "vitest", "run", "--reporter=default", "--reporter=json", f"--outputFile={results}"]
        finished = shell.run([*command, *files], self.folder)
        report = json.loads(results.read_text()) if results.exists() else {"testResults": []}
        outcomes = {}
        for result in report["testResults"]:
            file = str(Path(result["name"]).relative_to(shell.root / self.folder))
            outcomes[file] = outcome = Outcome()
            tests = result["assertionResults"]
            for test in tests:
                outcome.passed += test["status"] == "passed"
                outcome.skipped += test["status"] in ("skipped", "pending", "todo", "disabled")
                if test["status"] == "failed":
                    outcome.failed.append(f"{self.folder}/{file}: {test['fullName']}")
            if result["status"] == "failed" and not outcome.failed:
                outcome.failed.append(f"{self.folder}/{file}: {(result.get('message') or 'no test was run').strip()[:160]}")
        if not outcomes or (finished.code != 0 and not any(outcome.failed for outcome in outcomes.values())):
            outcomes[self.name] = Outcome(failed=[f"{self.name}: {describe_exit(finished)}"])
        return outcomes


@dataclass(frozen=True)
class Nextest:
    """The Rust tests. nextest runs failed ones again, as .config/nextest.toml says, and reports which were flaky."""

    name: str
    argv: list
    report: str
    cwd: str = "."
    environment: dict = field(default_factory=dict)
    timeout_s: int = TIMEOUT_S

    def run(self, shell):
        report = shell.root / self.cwd / self.report
        report.unlink(missing_ok=True)
        finished = shell.run(self.argv, self.cwd, self.environment, self.timeout_s)
        outcome = read_junit(report.read_text()) if report.exists() else Outcome()
        summary = re.search(r"tests? run: .*?(\d+) skipped", "\n".join(finished.lines))
        outcome.skipped += int(summary.group(1)) if summary else 0
        if not outcome.failed and (finished.code != 0 or not outcome.passed):
            outcome.failed.append(f"{self.name}: {describe_exit(finished)}")
        return outcome


def read_junit(text):
    """Reads a JUnit report of nextest."""
    outcome = Outcome()
    for suite in ElementTree.fromstring(text).iter("testsuite"):
        for case in suite.iter("testcase"):
            name = f"{suite.get('name')} {case.get('name')}"
            if case.find("failure") is not None or case.find("error") is not None:
                outcome.failed.append(name)
                continue
            # A test that finds what it needs missing says so, and ends.
            if "SKIPPED: " in case.findtext("system-err", ""):
                outcome.skipped += 1
                continue
            outcome.passed += 1
            if case.find("flakyFailure") is not None or case.find("flakyError") is not None:
                outcome.flaky.append(name)
                outcome.flaky_units += 1
    return outcome


@dataclass(frozen=True)
class Doctests:
    """The examples in the documentation of Rust code."""

    name: str
    argv: list

    def run(self, shell):
        finished = shell.run(self.argv)
        text = "\n".join(finished.lines)
        counts = re.findall(r"^test result: \w+\. (\d+) passed; \d+ failed; (\d+) ignored", text, re.MULTILINE)
        outcome = Outcome(sum(int(passed) for passed, _ in counts), sum(int(ignored) for _, ignored in counts))
        outcome.failed = re.findall(r"^test (.+) \.\.\. FAILED$", text, re.MULTILINE)
        if not outcome.failed and (finished.code != 0 or not counts):
            outcome.failed.append(f"{self.name}: {describe_exit(finished)}")
        return outcome
