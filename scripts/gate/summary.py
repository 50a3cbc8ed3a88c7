"""The last lines of a run: what failed, what was flaky, the stages and the machine."""

# More failed or flaky tests share lines, so that the summary is never longer than a screen.
LINES_OF_NAMES_MAX = 10


def describe_stage(name, seconds, outcome):
    """Returns the line of a stage."""
    counts = f"{outcome.passed:5} passed  {len(outcome.failed):3} failed  {len(outcome.flaky):3} flaky"
    return f"{name:<10} {seconds:6.0f} s  {counts}  {outcome.skipped:3} skipped"


def list_names(title, names):
    """Returns at most ten lines after the title that contain all names."""
    per_line = -(-len(names) // LINES_OF_NAMES_MAX)
    lines = ["; ".join(names[at : at + per_line]) for at in range(0, len(names), per_line or 1)]
    return [f"{title}:", *(f"  {line}" for line in lines)] if names else []


def summarize(stages, not_run, total, machine):
    """Returns at most 40 lines; the last one has the form that test runners end with."""
    lines = list_names("Failed", total.failed) + list_names("Flaky: failed and then passed", total.flaky)
    lines += [describe_stage(*stage) for stage in stages]
    lines += [f"not run    {' '.join(not_run)}"] if not_run else []
    counts = f"{total.passed} passed, {len(total.failed)} failed, {total.skipped} skipped"
    return [*lines, *machine.describe(), counts]
