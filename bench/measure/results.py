"""Result files: JSON with all data, Markdown for readers."""

import json
from dataclasses import asdict
from datetime import datetime, timezone

from . import machine, pairs

FOLDER = machine.ROOT / "bench" / "results"
COLUMNS = {
    "cpu_us": ("CPU us", "{:.3g}"),
    "p50_us": ("p50 us", "{:,.0f}"),
    "p99_us": ("p99 us", "{:,.0f}"),
    "p999_us": ("p99.9 us", "{:,.0f}"),
    "events_per_second": ("per second", "{:,.0f}"),
    "lost": ("lost", "{:.2%}"),
    "server_cores": ("cores", "{:.3f}"),
    "computation_us": ("computation us", "{:,.1f}"),
    "subscriber_bytes": ("bytes/subscriber", "{:,.0f}"),
    "age_ms_median": ("median age ms", "{:,.0f}"),
    "age_ms_max": ("max age ms", "{:,.0f}"),
    "start_ms": ("start ms", "{:,.0f}"),
    "memory_mib": ("memory MiB", "{:,.1f}"),
    "idle_cores": ("idle cores", "{:.4f}"),
    "errors": ("errors", "{:,.0f}"),
    "load_average": ("load average", "{:.2f}"),
    "waiting_for_cpu": ("CPU pressure", "{:.0%}"),
}


def write(number, job, result, settings):
    """Writes both files and returns the path of the Markdown file."""
    FOLDER.mkdir(exist_ok=True)
    now = datetime.now(timezone.utc)
    record = {
        "job": number,
        "title": job.title,
        "goal": job.goal,
        "time": now.isoformat(timespec="seconds"),
        "machine": machine.description(),
        "rounds": settings.rounds,
        "seconds": settings.seconds,
        "warmup": settings.warmup,
        **asdict(result),
    }
    path = FOLDER / f"{now:%Y-%m-%d}-{number}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    readable = path.with_suffix(".md")
    readable.write_text(markdown(record))
    return readable


def markdown(record):
    """Formats a page: a table of medians, then the ratios, the checks and the notes."""
    about = record["machine"]
    parts = [
        f"# {record['job']}: {record['title']}",
        f"Goal: {record['goal']}.",
        f"{record['time']}, commit {about['commit']}, {about['cpu']}, {about['memory_gib']} GiB, "
        f"Linux {about['kernel']}. Median (lowest to highest) of {record['rounds']} rounds of "
        f"{record['seconds']:g} s after {record['warmup']:g} s; "
        f"`python3 bench/run.py {record['job']}`.",
        table(record["rows"]),
        loads(record["rows"]),
        ratios("Peers relative to Playmeter", record["peers"]),
        ratios("Playmeter relative to the floor", record["floors"]),
        highest(record["highest"]),
        figures(record["figures"]),
        bullets("Checks", [describe_check(found) for found in record["checks"]]),
        bullets("Notes", record["notes"]),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def table(rows):
    shown = [name for name in COLUMNS if any(row.get(name) is not None for each in rows.values() for row in each)]
    if not shown:
        return ""
    lines = [["", *(COLUMNS[name][0] for name in shown)], ["---", *("--:" for _ in shown)]]
    lines += [[subject, *(cell(each, name) for name in shown)] for subject, each in rows.items()]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def cell(rows, name):
    found = pairs.summary(rows, name)
    if found is None:
        return ""
    form = COLUMNS[name][1].format
    middle, low, high = form(found["median"]), form(found["min"]), form(found["max"])
    return middle if low == high else f"{middle} ({low} to {high})"


def loads(rows):
    by_subject = {subject: each[0]["offered"] for subject, each in rows.items() if each and "offered" in each[0]}
    return bullets("Load", [f"{subject}: {load}" for subject, load in by_subject.items()])


def ratios(title, ratios_by_name):
    lines = [
        f"{name}: {ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f}) by {ratio['figure']}"
        for name, ratio in ratios_by_name.items()
        if ratio
    ]
    return bullets(title, lines)


def highest(rates_by_name):
    lines = [f"{name}: {describe_rate(rate)}" for name, rate in rates_by_name.items()]
    return bullets("Highest rate without errors", lines)


def describe_rate(rate):
    if "missing" in rate:
        return rate["missing"]
    units = {"requests_per_second": "requests/s", "events_per_second": "events/s", "packets_per_second": "packets/s"}
    parts = [f"{rate[name]:,.0f} {unit}" for name, unit in units.items() if name in rate]
    parts += [f"p99 {rate['p99_us']:,.0f} us"] if "p99_us" in rate else []
    return ", ".join([*parts, f"generator on {rate['generator_cores']:.2f} cores"])


def figures(values):
    """Formats figures as a list; the raw output of a program is shown unchanged."""
    output = values.get("output")
    lines = [f"{name}: {format_figure(value)}" for name, value in values.items() if name != "output"]
    return "\n\n".join([part for part in (bullets("Figures", lines), output and f"```\n{output}\n```") if part])


def format_figure(value):
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def describe_check(check):
    return f"{'passed' if check['passed'] else '**FAILED**'} {check['check']}: {check['why']}"


def bullets(title, lines):
    """Formats a list with a title; equal lines are shown once with their number."""
    if not lines:
        return ""
    counts = {line: lines.count(line) for line in lines}
    items = (f"- {line}" + (f" (x{count})" if count > 1 else "") for line, count in counts.items())
    return f"**{title}**\n\n" + "\n".join(items)
