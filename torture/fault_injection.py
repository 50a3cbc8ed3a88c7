#!/usr/bin/env python3
"""Shows that the tests find bugs: each fault is injected and has to be found by the check beside it.

    torture/fault_injection.py [--fault NAME] [--seed N]

| fault               | what is wrong                                  | found by                                   |
|---------------------|------------------------------------------------|--------------------------------------------|
| `forget_id_insert`  | ids are looked up but not remembered           | `kill.py`: events are stored twice         |
| `drop_checkpoint`   | views are kept without their place in the log  | `kill.py`: a restart counts them again     |
| `ack_before_sync`   | answers before `fdatasync`                     | power cuts of `crates/wal/tests/crash`     |
| `collector_panics`  | a decoder panics at some bytes                 | nobody: the other collectors notice nothing |

`kill -9` cannot find `ack_before_sync`: what a process has written, the system keeps. Ends with `N passed, M failed`; the
exit code is 0 only if every fault came to what the table says, and the same binary without a fault passes.
"""

import argparse
import os
import random
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
CARGO = os.environ.get("CARGO", "cargo")
# What has to be among the checks that fail: finding a bug by accident is not finding it.
EXPECTED = {
    "forget_id_insert": ["no event is stored or accepted twice"],
    "drop_checkpoint": [
        "a start after a checkpoint counts the same",
        "the last start counts what was answered",
        "received is the sum of the outcomes",
    ],
}
# Faults that a test of the repository takes: its package and name.
TESTED = {
    "ack_before_sync": ("playmeter-wal", "crash", "an_answer_before_the_sync_is_found_out"),
    "collector_panics": ("playmeter", "doors", "others_get_everything_while_one_panics_fifty_times"),
}


def build(target_dir):
    """The program with its injected faults, which nothing but an environment variable wakes up."""
    command = [CARGO, "build", "--locked", "-p", "playmeter", "--features", "fault-injection", "--target-dir", str(target_dir)]
    if subprocess.run(command, cwd=REPOSITORY).returncode != 0:
        sys.exit("fault_injection: the program does not build with `--features fault-injection`")
    return target_dir / "debug" / "playmeter"


def kill(binary, fault, given):
    """A run of the crash test: its exit code and its lines."""
    environment = {name: value for name, value in os.environ.items() if name != "PLAYMETER_INJECTED_FAULT"}
    environment |= {"PLAYMETER_INJECTED_FAULT": fault} if fault else {}
    command = [sys.executable, str(REPOSITORY / "torture" / "kill.py"), "--binary", str(binary), "--discard"]
    command += ["--cycles", str(given.cycles), "--seconds-max", "0.6", "--seed", str(given.seed)]
    done = subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.splitlines()


def without_injected_fault(binary, given):
    """A test that fails without a bug shows nothing when it fails with one."""
    code, lines = kill(binary, None, given)
    return [] if code == 0 else lines


def is_found(binary, fault, given):
    """What is wrong with how the crash test took the fault."""
    code, lines = kill(binary, fault, given)
    failed = [line for line in lines if line.startswith("  FAIL")]
    if code == 1 and any(expected in line for line in failed for expected in EXPECTED[fault]):
        for line in failed:
            print(f"        {line.strip()[:150]}")
        return []
    return [f"kill.py ended with {code} and did not fail at: {EXPECTED[fault]}"] + lines


def is_taken_by_test(target_dir, fault):
    """Runs the test that injects the fault itself and says what has to come of it."""
    package, test, name = TESTED[fault]
    command = [CARGO, "test", "--locked", "-p", package, "--features", "fault-injection"]
    command += ["--target-dir", str(target_dir), "--test", test, name]
    done = subprocess.run(command, cwd=REPOSITORY, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    found = done.returncode == 0 and "1 passed" in done.stdout
    return [] if found else done.stdout.splitlines()[-20:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fault", choices=[*EXPECTED, *TESTED], help="this one alone")
    parser.add_argument("--target-dir", type=Path, default=REPOSITORY / "target" / "fault-injection")
    parser.add_argument("--cycles", type=int, default=6)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    given.seed = random.SystemRandom().randrange(10**9) if given.seed is None else given.seed
    checks = []
    if given.fault not in TESTED:
        binary = build(given.target_dir)
        checks.append(("nothing is found without an injected fault", lambda: without_injected_fault(binary, given)))
        for fault in [given.fault] if given.fault else EXPECTED:
            checks.append((f"{fault} is found", lambda fault=fault: is_found(binary, fault, given)))
    for fault in [given.fault] if given.fault in TESTED else [] if given.fault else TESTED:
        checks.append((f"{fault}: its test passes", lambda fault=fault: is_taken_by_test(given.target_dir, fault)))
    failed = 0
    for name, check in checks:
        wrong = check()
        print(f"  {'FAIL' if wrong else 'ok  '}  {name}", *wrong, sep="\n        ", flush=True)
        failed += bool(wrong)
    print(f"{len(checks) - failed} passed, {failed} failed (--seed {given.seed})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
