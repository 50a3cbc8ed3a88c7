#!/usr/bin/env python3
"""Shows that the crash tests find bugs: each of these is planted, and has to be found.

    torture/plants.py [--plant NAME] [--seed N]

| plant               | what is wrong                                  | found by                                   |
|---------------------|------------------------------------------------|--------------------------------------------|
| `forget_id_insert`  | ids are looked up but not remembered           | `kill.py`: events are stored twice         |
| `drop_checkpoint`   | views are kept without their place in the log  | `kill.py`: a restart counts them again     |
| `ack_before_sync`   | answers before `fdatasync`                     | power cuts of `crates/log/tests/crash`     |

`kill -9` cannot find the last one: what a process has written, the system keeps. Ends with `N passed, M failed`; the
exit code is 0 only if every plant was found, and the same binary without a plant passes.
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
POWER_CUT = "ack_before_sync"
POWER_CUT_TEST = "an_answer_before_the_sync_is_found_out"


def build(target_dir):
    """The program with its plants, which nothing but an environment variable wakes up."""
    command = [CARGO, "build", "--locked", "-p", "playmeter", "--features", "plants", "--target-dir", str(target_dir)]
    if subprocess.run(command, cwd=REPOSITORY).returncode != 0:
        sys.exit("plants: the program does not build with `--features plants`")
    return target_dir / "debug" / "playmeter"


def kill(binary, plant, given):
    """A run of the crash test: its exit code and its lines."""
    environment = {name: value for name, value in os.environ.items() if name != "PLAYMETER_PLANT"}
    environment |= {"PLAYMETER_PLANT": plant} if plant else {}
    command = [sys.executable, str(REPOSITORY / "torture" / "kill.py"), "--binary", str(binary), "--discard"]
    command += ["--cycles", str(given.cycles), "--seconds-max", "0.6", "--seed", str(given.seed)]
    done = subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.splitlines()


def without_plant(binary, given):
    """A test that fails without a bug shows nothing when it fails with one."""
    code, lines = kill(binary, None, given)
    return [] if code == 0 else lines


def is_found(binary, plant, given):
    """What is wrong with how the crash test took the plant."""
    code, lines = kill(binary, plant, given)
    failed = [line for line in lines if line.startswith("  FAIL")]
    if code == 1 and any(expected in line for line in failed for expected in EXPECTED[plant]):
        for line in failed:
            print(f"        {line.strip()[:150]}")
        return []
    return [f"kill.py ended with {code} and did not fail at: {EXPECTED[plant]}"] + lines


def is_found_by_power_cuts(target_dir):
    """Runs the log's own crash images, of a log that answers too early."""
    command = [CARGO, "test", "--locked", "-p", "playmeter-log", "--features", "plants"]
    command += ["--target-dir", str(target_dir), "--test", "crash", POWER_CUT_TEST]
    done = subprocess.run(command, cwd=REPOSITORY, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    found = done.returncode == 0 and "1 passed" in done.stdout
    return [] if found else done.stdout.splitlines()[-20:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plant", choices=[*EXPECTED, POWER_CUT], help="this one alone")
    parser.add_argument("--target-dir", type=Path, default=REPOSITORY / "target" / "plants")
    parser.add_argument("--cycles", type=int, default=6)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    given.seed = random.SystemRandom().randrange(10**9) if given.seed is None else given.seed
    checks = []
    if given.plant != POWER_CUT:
        binary = build(given.target_dir)
        checks.append(("nothing is found where nothing is planted", lambda: without_plant(binary, given)))
        for plant in [given.plant] if given.plant else EXPECTED:
            checks.append((f"{plant} is found", lambda plant=plant: is_found(binary, plant, given)))
    if given.plant in (None, POWER_CUT):
        checks.append((f"{POWER_CUT} is found", lambda: is_found_by_power_cuts(given.target_dir)))
    failed = 0
    for name, check in checks:
        wrong = check()
        print(f"  {'FAIL' if wrong else 'ok  '}  {name}", *wrong, sep="\n        ", flush=True)
        failed += bool(wrong)
    print(f"{len(checks) - failed} passed, {failed} failed (--seed {given.seed})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
