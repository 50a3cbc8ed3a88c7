#!/usr/bin/env python3
"""Shows that the tests find bugs: injects each fault and requires that the check in the table finds it.

    torture/fault_injection.py --binary target/release/playmeter --seed 1    as make test does
    torture/fault_injection.py --binary target/release/playmeter             as make torture does

| fault               | effect                                         | found by                                   |
|---------------------|------------------------------------------------|--------------------------------------------|
| `forget_id_insert`  | ids are looked up but not stored               | `kill.py`: events are stored twice         |
| `drop_checkpoint`   | views are stored without their log position    | `kill.py`: a restart counts events twice   |
| `reject_everything` | every event and command gets 503               | `kill.py`: too little was acknowledged     |

`reject_everything` is a setting of the server; the others are faults of its code. The binary is one with the feature
`fault-injection`, as `make test` builds it. Rust tests inject the other faults: `kill -9` cannot find an acknowledgement
before `fdatasync`, because the kernel keeps what a process has written; the power cuts in `crates/wal/tests/crash` do.

`--fault NAME` injects only that fault. `--seed N` repeats the same runs; without it the seed is random. It is printed at
the start and at the end. Ends with `N passed, M failed`. The exit code is 0 only if every fault was found as the table
says, and the same binary passes without a fault; if it does not, the data folder of that run is kept and its path printed.
"""

import argparse
import os
import random
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
# The checks that must fail for each fault: failing for another reason does not count as finding the fault.
EXPECTED_FAILURES = {
    "forget_id_insert": ["no event is stored or accepted twice"],
    "drop_checkpoint": [
        "counts are the same after a restart from a checkpoint",
        "the counts after the last start match the responses",
        "received is the sum of the outcomes",
    ],
    "reject_everything": ["enough was acknowledged and compared"],
}


def run_crash_test(binary, fault, args):
    """Runs the crash test; returns its exit code and its output lines."""
    environment = {name: value for name, value in os.environ.items() if name != "PLAYMETER_INJECTED_FAULT"}
    environment |= {"PLAYMETER_INJECTED_FAULT": fault} if fault else {}
    command = [sys.executable, str(REPOSITORY / "torture" / "kill.py"), "--binary", str(binary)]
    # A run with a fault is expected to fail; one without is not, and its data shows why it did.
    command += ["--discard"] if fault else []
    command += ["--cycles", str(args.cycles), "--seconds-max", "0.6", "--seed", str(args.seed)]
    completed = subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return completed.returncode, completed.stdout.splitlines()


def check_without_fault(binary, args):
    """Runs the crash test without a fault: if it failed then, failing with a fault would show nothing."""
    code, lines = run_crash_test(binary, None, args)
    return [] if code == 0 else lines


def check_fault_is_found(binary, fault, args):
    """Runs the crash test with a fault; returns the problems, none if the expected check failed."""
    code, lines = run_crash_test(binary, fault, args)
    failed = [line for line in lines if line.startswith("  FAIL")]
    if code == 1 and any(failure in line for line in failed for failure in EXPECTED_FAILURES[fault]):
        for line in failed:
            print(f"        {line.strip()[:150]}")
        return []
    return [f"kill.py ended with {code} and did not fail at: {EXPECTED_FAILURES[fault]}"] + lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fault", choices=[*EXPECTED_FAILURES], help="inject only this fault")
    parser.add_argument("--binary", required=True, type=Path)
    parser.add_argument("--cycles", type=int, default=6)
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    args.seed = random.SystemRandom().randrange(10**9) if args.seed is None else args.seed
    binary = args.binary.resolve()
    print(f"seed {args.seed}", flush=True)
    checks = [("no check fails without an injected fault", lambda: check_without_fault(binary, args))]
    for fault in [args.fault] if args.fault else EXPECTED_FAILURES:
        checks.append((f"{fault} is found", lambda fault=fault: check_fault_is_found(binary, fault, args)))
    failed = 0
    for name, check in checks:
        problems = check()
        print(f"  {'FAIL' if problems else 'ok  '}  {name}", *problems, sep="\n        ", flush=True)
        failed += bool(problems)
    print(f"{len(checks) - failed} passed, {failed} failed (--seed {args.seed})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
