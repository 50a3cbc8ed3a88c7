"""Results as files: JSON with everything, Markdown to read."""

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
    "subscriber_bytes": ("bytes a subscriber", "{:,.0f}"),
    "age_ms_median": ("median age ms", "{:,.0f}"),
    "age_ms_max": ("oldest ms", "{:,.0f}"),
    "start_ms": ("start ms", "{:,.0f}"),
    "memory_mib": ("memory MiB", "{:,.1f}"),
    "idle_cores": ("idle cores", "{:.4f}"),
    "errors": ("errors", "{:,.0f}"),
    "load_average": ("load average", "{:.2f}"),
    "waiting_for_cpu": ("CPU waited for", "{:.0%}"),
}


def write(number, job, result, settings):
    """Writes both files and returns the path of the readable one."""
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
    """A page with a table of the medians, the ratios, the checks and the notes."""
    about = record["machine"]
    parts = [
        f"# {record['job']}: {record['title']}",
        f"Goal: {record['goal']}.",
        f"{record['time']}, commit {about['commit']}, {about['cpu']}, {about['memory_gib']} GiB, Linux {about['kernel']}. "
        f"Median (lowest to highest) of {record['rounds']} rounds of {record['seconds']:g} s after {record['warmup']:g} s; "
        f"`python3 bench/run.py {record['job']}`.",
        table(record["rows"]),
        offers(record["rows"]),
        ratios("Peers, as a multiple of ours", record["peers"]),
        ratios("Ours, as a multiple of the floor", record["floors"]),
        highest(record["highest"]),
        figures(record["figures"]),
        bullets("Checks", [check(found) for found in record["checks"]]),
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


def offers(rows):
    said = {subject: each[0]["offered"] for subject, each in rows.items() if each and "offered" in each[0]}
    return bullets("Offered", [f"{subject}: {offered}" for subject, offered in said.items()])


def ratios(title, found):
    said = [
        f"{name}: {ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f}) by {ratio['figure']}"
        for name, ratio in found.items()
        if ratio
    ]
    return bullets(title, said)


def highest(found):
    return bullets("Highest rate without error", [f"{name}: {rate(best)}" for name, best in found.items()])


def rate(best):
    if "missing" in best:
        return best["missing"]
    units = {"requests_per_second": "requests/s", "events_per_second": "events/s", "packets_per_second": "packets/s"}
    said = [f"{best[name]:,.0f} {unit}" for name, unit in units.items() if name in best]
    said += [f"p99 {best['p99_us']:,.0f} us"] if "p99_us" in best else []
    return ", ".join([*said, f"generator on {best['generator_cores']:.2f} cores"])


def figures(found):
    """A list; what a program said in its own words stays as it is."""
    said = found.get("output")
    lines = [f"{name}: {figure(value)}" for name, value in found.items() if name != "output"]
    return "\n\n".join([part for part in (bullets("Figures", lines), said and f"```\n{said}\n```") if part])


def figure(value):
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def check(found):
    return f"{'passed' if found['passed'] else '**FAILED**'} {found['check']}: {found['why']}"


def bullets(title, lines):
    """A list under a title; equal lines once, with how often."""
    if not lines:
        return ""
    counted = {line: lines.count(line) for line in lines}
    said = (f"- {line}" + (f" (x{count})" if count > 1 else "") for line, count in counted.items())
    return f"**{title}**\n\n" + "\n".join(said)
