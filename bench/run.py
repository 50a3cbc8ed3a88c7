#!/usr/bin/env python3
"""Runs side-by-side benchmarks and writes their results into bench/results.

python3 bench/run.py            every job
python3 bench/run.py 1a 4b      these jobs
python3 bench/run.py 6          all jobs whose name begins with 6
python3 bench/run.py --quick 1b one short round as a smoke test; writes nothing
"""

import argparse
import os
import sys

from measure import jobs, live, packets, results
from measure.jobs import Settings

JOBS = jobs.JOBS | packets.JOBS | live.JOBS


def main():
    args = parse()
    if os.cpu_count() < 2:
        sys.exit("at least two cores are required: one for the server, one for the generator")
    settings = Settings(args.rounds, args.seconds, args.warmup, args.max)
    if args.quick:
        settings = Settings(rounds=1, seconds=1.0, warmup=0.5, find_max=args.max)
    failed = 0
    for number in args.jobs or JOBS:
        job = JOBS[number]
        print(f"{number}: {job.title}", flush=True)
        result = job.run(settings)
        failed += sum(not check["passed"] for check in result.checks)
        report_result(number, job, result, settings, args.quick)
    sys.exit(1 if failed else 0)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=", ".join(JOBS))
    parser.add_argument("--rounds", type=int, default=3, help="number of interleaved rounds")
    parser.add_argument("--seconds", type=float, default=4.0, help="measured seconds per run")
    parser.add_argument("--warmup", type=float, default=2.0, help="seconds of load before measuring")
    parser.add_argument("--max", action="store_true", help="also find the highest rate without errors, unpinned")
    parser.add_argument("--quick", action="store_true", help="one round of one second; writes nothing")
    args = parser.parse_args()
    try:
        args.jobs = select_jobs(args.jobs)
    except KeyError as unknown:
        parser.error(f"no such job: {unknown.args[0]}; available: {', '.join(JOBS)}")
    return args


def select_jobs(names):
    """Returns the jobs with these names; a number selects all jobs that begin with it."""
    selected = []
    for name in names:
        matches = [name] if name in JOBS else [job for job in JOBS if job.rstrip("abcdefgh") == name]
        if not matches:
            raise KeyError(name)
        selected += matches
    return selected


def report_result(number, job, result, settings, quick):
    if quick:
        for check in result.checks:
            print(" ", results.describe_check(check))
        for note in result.notes:
            print("  note:", note)
        for name, value in result.figures.items():
            print(f"  {name}: {results.format_figure(value)}")
        return
    path = results.write(number, job, result, settings)
    print(path.read_text())


if __name__ == "__main__":
    main()
