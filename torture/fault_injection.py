#!/usr/bin/env python3
"""Shows that the tests find bugs: injects each fault and requires that the check in the table finds it.

    torture/fault_injection.py [--fault NAME] [--seed N]

| fault               | effect                                         | found by                                   |
|---------------------|------------------------------------------------|--------------------------------------------|
| `forget_id_insert`  | ids are looked up but not stored               | `kill.py`: events are stored twice         |
| `drop_checkpoint`   | views are stored without their log position    | `kill.py`: a restart counts events twice   |
| `ack_before_sync`   | acknowledges before `fdatasync`                | power cuts of `crates/wal/tests/crash`     |
| `collector_panics`  | a decoder panics on certain bytes              | must stay isolated to that collector       |

`kill -9` cannot find `ack_before_sync`: the kernel keeps what a process has written. Ends with `N passed, M failed`.
The exit code is 0 only if every fault was found as the table says, and the same binary passes without a fault.
"""

import argparse
import os
import random
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
CARGO = os.environ.get("CARGO", "cargo")
# The checks that must fail for each fault: failing for another reason does not count as finding the fault.
EXPECTED_FAILURES = {
    "forget_id_insert": ["no event is stored or accepted twice"],
    "drop_checkpoint": [
        "counts are the same after a restart from a checkpoint",
        "the counts after the last start match the responses",
        "received is the sum of the outcomes",
    ],
}
# Faults that a Rust test injects: its package, test target and name.
RUST_TESTS = {
    "ack_before_sync": ("playmeter-wal", "crash", "an_answer_before_the_sync_is_found_out"),
    "collector_panics": ("playmeter", "e2e", "others_get_everything_while_one_panics_fifty_times"),
}


def build(target_dir):
    """Builds the server with fault injection and returns its path. An environment variable enables a fault."""
    command = [CARGO, "build", "--locked", "-p", "playmeter", "--features", "fault-injection", "--target-dir", str(target_dir)]
    if subprocess.run(command, cwd=REPOSITORY).returncode != 0:
        sys.exit("fault_injection: building with `--features fault-injection` failed")
    return target_dir / "debug" / "playmeter"


def run_crash_test(binary, fault, args):
    """Runs the crash test; returns its exit code and its output lines."""
    environment = {name: value for name, value in os.environ.items() if name != "PLAYMETER_INJECTED_FAULT"}
    environment |= {"PLAYMETER_INJECTED_FAULT": fault} if fault else {}
    command = [sys.executable, str(REPOSITORY / "torture" / "kill.py"), "--binary", str(binary), "--discard"]
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


def check_rust_test(target_dir, fault):
    """Runs the Rust test that injects the fault and checks the effect; returns its output if it fails."""
    package, test, name = RUST_TESTS[fault]
    command = [CARGO, "test", "--locked", "-p", package, "--features", "fault-injection"]
    command += ["--target-dir", str(target_dir), "--test", test, name]
    completed = subprocess.run(command, cwd=REPOSITORY, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    passed = completed.returncode == 0 and "1 passed" in completed.stdout
    return [] if passed else completed.stdout.splitlines()[-20:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fault", choices=[*EXPECTED_FAILURES, *RUST_TESTS], help="inject only this fault")
    parser.add_argument("--target-dir", type=Path, default=REPOSITORY / "target" / "fault-injection")
    parser.add_argument("--cycles", type=int, default=6)
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    args.seed = random.SystemRandom().randrange(10**9) if args.seed is None else args.seed
    checks = []
    if args.fault not in RUST_TESTS:
        binary = build(args.target_dir)
        checks.append(("no check fails without an injected fault", lambda: check_without_fault(binary, args)))
        for fault in [args.fault] if args.fault else EXPECTED_FAILURES:
            checks.append((f"{fault} is found", lambda fault=fault: check_fault_is_found(binary, fault, args)))
    for fault in [args.fault] if args.fault in RUST_TESTS else [] if args.fault else RUST_TESTS:
        checks.append((f"{fault}: its test passes", lambda fault=fault: check_rust_test(args.target_dir, fault)))
    failed = 0
    for name, check in checks:
        problems = check()
        print(f"  {'FAIL' if problems else 'ok  '}  {name}", *problems, sep="\n        ", flush=True)
        failed += bool(problems)
    print(f"{len(checks) - failed} passed, {failed} failed (--seed {args.seed})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
