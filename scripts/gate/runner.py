"""Runs stages one after the other; a failed one does not stop the others."""

import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from .machine import Machine
from .outcome import Outcome
from .shell import Shell
from .summary import describe_stage, summarize

# More flaky units than this mean that the machine, or the product, is too unreliable to judge the rest.
FLAKY_MAX = 8


@dataclass(frozen=True)
class Stage:
    """Steps with a name. If one of a `is_required` stage fails, nothing after it is run."""

    name: str
    steps: list
    needs: tuple = ()
    is_required: bool = False


def select(stages, names):
    """Returns these stages, or all if there are no names, with those that they need, in order; unknown names are an error."""
    by_name = {stage.name: stage for stage in stages}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise ValueError(f"no stage {', '.join(unknown)}; the stages are {', '.join(by_name)}")
    wanted = set(names or by_name) | {need for name in names for need in by_name[name].needs}
    return [stage for stage in stages if stage.name in wanted]


def run(root, stages, environment, out=sys.stdout):
    """Runs the stages in a repository, prints the summary and returns the exit code."""
    folder = Path(root) / "target/check"
    folder.mkdir(parents=True, exist_ok=True)
    machine = Machine(root, folder)
    total, done, remaining = Outcome(), [], list(stages)
    is_interrupted = False
    while remaining and not is_interrupted:
        stage = remaining.pop(0)
        shell = Shell(root, environment, folder / f"{stage.name}.log", out)
        shell.print(f"\n=== {stage.name}")
        outcome, started_s = Outcome(), time.monotonic()
        for step in stage.steps:
            try:
                outcome.add(step.run(shell))
            except KeyboardInterrupt:
                outcome.failed.append(f"{step.name}: interrupted")
                is_interrupted = True
            except Exception as error:
                traceback.print_exc(file=shell.log)
                outcome.failed.append(f"{step.name}: {error!r}")
            if is_interrupted or (stage.is_required and outcome.failed):
                break
        outcome.failed = [f"{stage.name}: {name}" for name in outcome.failed]
        outcome.flaky = [f"{stage.name}: {name}" for name in outcome.flaky]
        done.append((stage.name, time.monotonic() - started_s, outcome))
        shell.print(describe_stage(*done[-1]))
        shell.close()
        total.add(outcome)
        if stage.is_required and outcome.failed:
            break
    if total.flaky_units > FLAKY_MAX:
        total.failed.append(f"{total.flaky_units} files, scripts and Rust tests were flaky, more than {FLAKY_MAX}")
    print("", *summarize(done, [stage.name for stage in remaining], total, machine), sep="\n", file=out, flush=True)
    return 1 if total.failed else 0
