#!/usr/bin/env python3
"""Runs side-by-side measurements and writes their results into bench/results.

python3 bench/run.py            every job
python3 bench/run.py 1a 4b      some of them
python3 bench/run.py 6          all whose name begins so
python3 bench/run.py --quick 1b one short round, to see that it runs; writes nothing
"""

import argparse
import os
import sys

from measure import jobs, live, packets, results
from measure.jobs import Settings

JOBS = jobs.JOBS | packets.JOBS | live.JOBS


def main():
    arguments = parse()
    if os.cpu_count() < 2:
        sys.exit("the server and the generator need a core each")
    settings = Settings(arguments.rounds, arguments.seconds, arguments.warmup, arguments.max)
    if arguments.quick:
        settings = Settings(rounds=1, seconds=1.0, warmup=0.5, find_max=arguments.max)
    failed = 0
    for number in arguments.jobs or JOBS:
        job = JOBS[number]
        print(f"{number}: {job.title}", flush=True)
        result = job.run(settings)
        failed += sum(not check["passed"] for check in result.checks)
        show(number, job, result, settings, arguments.quick)
    sys.exit(1 if failed else 0)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=", ".join(JOBS))
    parser.add_argument("--rounds", type=int, default=3, help="how often each is run, in turns")
    parser.add_argument("--seconds", type=float, default=4.0, help="measured in each run")
    parser.add_argument("--warmup", type=float, default=2.0, help="seconds of load before measuring")
    parser.add_argument("--max", action="store_true", help="also look for the highest rate without error, unpinned")
    parser.add_argument("--quick", action="store_true", help="one round of a second; nothing is written")
    arguments = parser.parse_args()
    try:
        arguments.jobs = chosen(arguments.jobs)
    except KeyError as unknown:
        parser.error(f"no job {unknown.args[0]}: there are {', '.join(JOBS)}")
    return arguments


def chosen(names):
    """The jobs of these names; a number stands for all its letters."""
    found = []
    for name in names:
        those = [name] if name in JOBS else [job for job in JOBS if job.rstrip("abcdefgh") == name]
        if not those:
            raise KeyError(name)
        found += those
    return found


def show(number, job, result, settings, quick):
    if quick:
        for check in result.checks:
            print(" ", results.check(check))
        for note in result.notes:
            print("  note:", note)
        for name, value in result.figures.items():
            print(f"  {name}: {results.figure(value)}")
        return
    path = results.write(number, job, result, settings)
    print(path.read_text())


if __name__ == "__main__":
    main()
