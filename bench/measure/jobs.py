"""The jobs: what is measured, at which rate, beside whom, and the goal.

A job returns its rows by subject, the ratios against each peer and floor, checks and notes. CPU
time per operation is the first figure: it depends on the rate, so within a job all have the same.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from urllib.parse import quote

from . import floors, load, machine, pairs
from .servers import (
    HttpFloor,
    HttpLogFloor,
    NodeRedis,
    Playmeter,
    Redis,
    RedisInMemory,
    Server,
    VictoriaMetrics,
)

ALL_CORES = f"0-{os.cpu_count() - 1}"
COUNTER_SERIES = 1_000_000
BOARD_PLAYERS = 10_000_000
# A rate holds while nearly everyone is answered within this.
P99_MS_MAX = 250

# Programs of other crates that measure inside one process. The last line each prints is a JSON
# object of figures: `{"increment_us": 0.12, ...}`.
EXAMPLES = {
    "3a": [
        "cargo",
        "run",
        "--release",
        "--quiet",
        "-p",
        "playmeter-embedded",
        "--example",
        "counters",
        "--",
        "increments",
    ],
    "3b": ["cargo", "run", "--release", "--quiet", "-p", "playmeter-embedded", "--example", "counters", "--", "day"],
    "5a": ["cargo", "run", "--release", "--quiet", "-p", "playmeter-liveops", "--example", "boards", "--", "rank"],
    "5b": ["cargo", "run", "--release", "--quiet", "-p", "playmeter-liveops", "--example", "boards", "--", "restart"],
    "8": ["cargo", "run", "--release", "--quiet", "-p", "playmeter-server", "--example", "geo"],
}


@dataclass
class Settings:
    """How long and how often."""

    rounds: int = 3
    seconds: float = 4.0
    warmup: float = 2.0
    find_max: bool = False
    say: object = print


@dataclass
class Result:
    """What a job found."""

    rows: dict = field(default_factory=dict)
    # Their figure over ours: above 1, they need more.
    peers: dict = field(default_factory=dict)
    # Our figure over the floor's.
    floors: dict = field(default_factory=dict)
    highest: dict = field(default_factory=dict)
    figures: dict = field(default_factory=dict)
    checks: list = field(default_factory=list)
    notes: list = field(default_factory=list)


@dataclass(frozen=True)
class Subject:
    """A server under one load."""

    name: str
    server: type[Server]
    rate: int
    batch: int = 1
    ack: str = "disk"
    cores: str = "0"
    # "ours" is compared with each "peer" and "floor"; "other" is shown beside them.
    role: str = "other"
    line_protocol: bool = False

    def offer(self, server, settings, core=load.GENERATOR_CORE, **options):
        if self.line_protocol:
            requests = load.request_file(server.folder, load.line_requests(self.batch))
            options |= {"kind": "requests", "requests": requests}
        elif self.ack != "disk":
            options["ack"] = self.ack
        options = {"rate": self.rate, "batch": self.batch, **options}
        return load.offer(server, settings.seconds, settings.warmup, core, **options)


def ingest(settings, subjects):
    """Offers each subject its load in turns and compares what it cost."""
    result = Result()
    subjects = present(subjects, result)

    def run(subject):
        with subject.server(subject.cores) as server:
            report = subject.offer(server, settings)
            check_accounting(result, subject, server, report)
        return row(subject.name, report)

    result.rows = {
        subject.name: rows for subject, rows in pairs.alternate(subjects, run, settings.rounds, settings.say).items()
    }
    compare(result, subjects)
    if settings.find_max:
        result.highest = {subject.name: highest(subject, settings) for subject in subjects if subject.role != "other"}
    return result


def present(subjects, result):
    """The subjects that can run here; the others become a note."""
    missing = {subject.server: subject.server.missing() for subject in subjects}
    result.notes += [f"{server.name} left out: {reason}" for server, reason in missing.items() if reason]
    return [subject for subject in subjects if not missing[subject.server]]


def row(name, report, operation="seconds_per_million_events"):
    """The figures of one run."""
    cpu, latency = report["server_cpu"], report["latency_us"]
    return {
        "subject": name,
        "offered": offered(report["setup"]),
        "cpu_us": cpu[operation],
        "cores": cpu["cores"],
        "p50_us": latency["p50"],
        "p99_us": latency["p99"],
        "p999_us": latency["p999"],
        "events_per_second": report["measured"]["events_per_second"],
        "errors": report["total"]["errors"],
        "lag_p99_us": report["lag_us"]["p99"],
        "generator_cores": report["generator_cpu"]["cores"],
        "load_average": report["machine"]["load_average"],
        "waiting_for_cpu": report["machine"]["waiting_for_cpu"],
    }


def offered(setup):
    return (
        f"{setup['rate']:,.0f}/s of {setup['batch']}, ack {setup['ack']}, ids {setup['ids']}, "
        f"{setup['connections']} connections {setup['connection']}, depth {setup['depth']}"
    )


def check_accounting(result, subject, server, report):
    """What the server says it accepted has to be what its receipts said."""
    told = report["total"]["accepted"]
    try:
        stored = settled(server.accepted, told)
    except (OSError, ValueError, KeyError) as error:
        result.checks.append({"check": f"{subject.name}: accounting", "passed": False, "why": repr(error)})
        stored = None
    if stored is not None:
        why = f"receipts {told:,}, accounting {stored:,}"
        result.checks.append({"check": f"{subject.name}: accounting", "passed": told == stored, "why": why})
    if report["total"]["errors"]:
        why = f"{report['total']['errors']:,} of {report['total']['requests_sent']:,} requests went wrong"
        result.checks.append({"check": f"{subject.name}: no errors", "passed": False, "why": why})


def settled(ask, expected, patience_s=3.0):
    """Asks until the answer is the expected one; accounts may be a moment behind the receipts."""
    deadline = time.monotonic() + patience_s
    while (found := ask()) not in (expected, None) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def compare(result, subjects):
    """Ratios within each round of ours against every peer and floor."""
    ours = next((subject for subject in subjects if subject.role == "ours"), None)
    if ours is None:
        return
    for subject in subjects:
        theirs = result.rows[subject.name]
        if subject.role == "peer":
            result.peers[subject.name] = pairs.ratios(result.rows[ours.name], theirs, "cpu_us")
        elif subject.role == "floor":
            result.floors[subject.name] = pairs.ratios(theirs, result.rows[ours.name], "cpu_us")


def highest(subject, settings, cores=ALL_CORES):
    """The highest rate without error; with all cores, the server shares them with the generator."""
    short = Settings(seconds=min(settings.seconds, 2.0), warmup=0.5)
    core = None if cores == ALL_CORES else load.GENERATOR_CORE
    try:
        with subject.server(cores) as server:
            report = subject.offer(server, short, core, find_max=True, p99_max=P99_MS_MAX)
    except RuntimeError as error:
        return {"missing": str(error)}
    settings.say(f"  highest  {subject.name}: {report['rate_max']:,.0f} requests/s")
    return {
        "requests_per_second": report["rate_max"],
        "events_per_second": report["rate_max"] * subject.batch,
        "p99_us": report["latency_us"]["p99"],
        "generator_cores": report["generator_cpu"]["cores"],
    }


def single_events(settings):
    """1a"""
    rate, fast = 5_000, 50_000
    return ingest(
        settings,
        [
            Subject("playmeter", Playmeter, rate, role="ours"),
            Subject("node-redis", NodeRedis, rate, role="peer"),
            Subject("floor-log", HttpLogFloor, rate, role="floor"),
            Subject("playmeter, 50,000/s", Playmeter, fast),
            Subject("playmeter, 50,000/s, ack memory", Playmeter, fast, ack="memory"),
            Subject("floor-log, 50,000/s", HttpLogFloor, fast),
            Subject("floor-null, 50,000/s", HttpFloor, fast),
        ],
    )


def batches(settings):
    """1b"""
    rate, batch = 400, 100
    result = ingest(
        settings,
        [
            Subject("playmeter", Playmeter, rate, batch, role="ours"),
            Subject("node-redis", NodeRedis, rate, batch, role="peer"),
            Subject("victoria-metrics", VictoriaMetrics, rate, batch, role="peer", line_protocol=True),
            Subject("floor-log", HttpLogFloor, rate, batch, role="floor"),
            Subject("playmeter, 3,000/s", Playmeter, 3_000, batch),
            Subject("floor-log, 3,000/s", HttpLogFloor, 3_000, batch),
        ],
    )
    result.notes.append(
        "victoria-metrics gets the same fields as Influx lines, one sample an event, without ids and players"
    )
    return result


def acknowledgement(settings):
    """1c"""
    rate = 20_000
    result = ingest(
        settings,
        [
            Subject("playmeter", Playmeter, rate, role="ours"),
            Subject("floor-log", HttpLogFloor, rate, role="floor"),
            Subject("floor-null", HttpFloor, rate, role="floor"),
            Subject("playmeter, ack memory", Playmeter, rate, ack="memory"),
        ],
    )
    result.figures = floors.fsync()
    return result


def counters(settings):
    """3a"""
    result = Result()
    missing = RedisInMemory.missing()
    rows = {"playmeter": [], "redis-in-memory": []}
    for number in range(settings.rounds):
        result.figures = example("3a")
        if "increment_us" in result.figures:
            rows["playmeter"].append({"subject": "playmeter", "cpu_us": result.figures["increment_us"]})
        if not missing:
            rows["redis-in-memory"].append(redis_increments())
        found = ", ".join(f"{name} {each[-1]['cpu_us']:.3g} us" for name, each in rows.items() if each)
        settings.say(f"  round {number + 1}/{settings.rounds}  {found}")
    result.rows = {name: each for name, each in rows.items() if each}
    if len(result.rows) == 2:
        result.peers["redis-in-memory"] = pairs.ratios(*rows.values(), "cpu_us")
    result.notes += [f"redis left out: {missing}"] if missing else []
    result.notes.append(
        "redis counts one level by name, 64 commands pipelined, nothing on disk; ours counts three levels"
    )
    return result


def redis_increments(count=2_000_000):
    """CPU of Redis for counters by name among a million hashes."""
    with RedisInMemory() as server:
        command = ["taskset", "-c", load.GENERATOR_CORE, "redis-benchmark", "-p", server.port, "-q", "-P", 64, "-c", 8]
        command += ["-r", COUNTER_SERIES, "-n", count, "HINCRBY", "day:__rand_int__", "views", 1]
        warm = [*command]
        warm[warm.index(count)] = count // 4
        quiet(warm)
        before, started = machine.cpu_seconds(server.pids), time.monotonic()
        quiet(command)
        cpu, wall = machine.cpu_seconds(server.pids) - before, time.monotonic() - started
        memory = machine.memory_mib(server.pids)
    return {
        "subject": "redis-in-memory",
        "offered": f"{count:,} HINCRBY over {COUNTER_SERIES:,} hashes",
        "cpu_us": cpu / count * 1e6,
        "events_per_second": count / wall,
        "memory_mib": memory,
        "load_average": machine.load_average(),
    }


def quiet(command):
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)


def boards(settings):
    """5a"""
    result = Result()
    missing = RedisInMemory.missing()
    rows = {"playmeter": [], "redis-in-memory": []}
    for number in range(settings.rounds):
        result.figures = example("5a")
        if "submit_and_rank_us" in result.figures:
            figures = result.figures
            memory = figures["resident_bytes_per_player"] * BOARD_PLAYERS / 2**20
            row = {"subject": "playmeter", "cpu_us": figures["submit_and_rank_us"], "memory_mib": memory}
            rows["playmeter"].append(row)
        if not missing:
            rows["redis-in-memory"].append(redis_board())
        found = ", ".join(f"{name} {each[-1]['cpu_us']:.3g} us" for name, each in rows.items() if each)
        settings.say(f"  round {number + 1}/{settings.rounds}  {found}")
    result.rows = {name: each for name, each in rows.items() if each}
    if len(result.rows) == 2:
        result.peers["redis-in-memory"] = pairs.ratios(*rows.values(), "cpu_us")
        result.peers["redis-in-memory, memory"] = pairs.ratios(*rows.values(), "memory_mib")
    result.notes += [f"redis left out: {missing}"] if missing else []
    result.notes.append(
        f"{BOARD_PLAYERS:,} players; a score and a rank each; ours in one process, redis ZADD and ZREVRANK with 64 "
        "commands pipelined, nothing on disk; memory is that of the process that the board takes, ids included"
    )
    return result


def redis_board(count=1_000_000):
    """CPU of Redis for a score and a rank on a board, and its memory."""
    fill = (
        "math.randomseed(tonumber(ARGV[2])) for i = 0, 99999 do local n = ARGV[1] * 100000 + i "
        "redis.call('ZADD', 'board', math.random(0, 1000000000), string.format('player-%012d', n)) end"
    )
    with RedisInMemory() as server:
        empty = machine.memory_mib(server.pids)
        for part in range(BOARD_PLAYERS // 100_000):
            quiet(["redis-cli", "-p", server.port, "EVAL", fill, 0, part, part + 1])
        memory = machine.memory_mib(server.pids) - empty
        command = ["taskset", "-c", load.GENERATOR_CORE, "redis-benchmark", "-p", server.port, "-q", "-P", 64, "-c", 8]
        command += ["-r", BOARD_PLAYERS, "-n", count]
        each = []
        for words in (["ZADD", "board", "__rand_int__", "player-__rand_int__"], ["ZREVRANK", "board", "player-__rand_int__"]):
            before = machine.cpu_seconds(server.pids)
            quiet([*command, *words])
            each.append((machine.cpu_seconds(server.pids) - before) / count * 1e6)
    return {
        "subject": "redis-in-memory",
        "offered": f"ZADD {each[0]:.2f} us, ZREVRANK {each[1]:.2f} us",
        "cpu_us": sum(each),
        "memory_mib": memory,
        "load_average": machine.load_average(),
    }


def board_restart(settings):
    """5b"""
    return Result(figures=example("5b"))


def simulated_day(settings):
    """3b"""
    return Result(figures=example("3b"))


def geo(settings):
    """8"""
    return Result(figures=example("8"))


def example(job):
    """The figures that a program of another crate prints."""
    done = subprocess.run(EXAMPLES[job], cwd=machine.ROOT, capture_output=True, text=True)
    if done.returncode:
        return {"missing": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it failed"}
    last = done.stdout.strip().splitlines()[-1:] or [""]
    try:
        return json.loads(last[0])
    except json.JSONDecodeError:
        return {"output": done.stdout.strip()}


def day_by_the_minute(settings):
    """4b"""
    result = Result()
    rate = 500
    subjects = [
        Subject("playmeter", Playmeter, rate, role="ours"),
        Subject("victoria-metrics", VictoriaMetrics, rate, role="peer"),
    ]
    subjects = present(subjects, result)
    prepare = {"playmeter": playmeter_day, "victoria-metrics": victoria_day}
    day = datetime.now(timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
    counts = [1 + minute * 7 % 61 for minute in range(1440)]

    def run(subject):
        with subject.server(subject.cores) as server:
            path, found = prepare[subject.name](server, day, counts)
            why = f"{len(found)} minutes, {sum(found):,.0f} events of {sum(counts):,}"
            result.checks.append({"check": f"{subject.name}: answer", "passed": found == counts, "why": why})
            requests = load.request_file(server.folder, [load.get(path, server.secret)])
            report = load.offer(
                server, settings.seconds, settings.warmup, kind="requests", requests=requests, rate=rate
            )
        return row(subject.name, report, "us_per_request")

    result.rows = {
        subject.name: rows for subject, rows in pairs.alternate(subjects, run, settings.rounds, settings.say).items()
    }
    compare(result, subjects)
    result.notes.append("victoria-metrics holds one ready sample a minute and may use its cache; ours counted events")
    return result


def playmeter_day(server, day, counts):
    """Fills a day with events; the path of its query, and its answer."""
    start_ms = int(day.timestamp() * 1000)
    events = [
        {"event": "score", "ts": start_ms + minute * 60_000 + number * 900, "country": load.COUNTRIES[number % 10]}
        for minute, count in enumerate(counts)
        for number in range(count)
    ]
    for first in range(0, len(events), 5_000):
        server.post("/v1/events", json.dumps(events[first : first + 5_000]).encode())
    until = day + timedelta(days=1)
    times = f"from={day:%Y-%m-%dT%H:%M:%SZ}&to={until:%Y-%m-%dT%H:%M:%SZ}"
    path = f"/v1/query?metric=score&{times}&step=minute&tz=UTC"
    try:
        return path, json.loads(server.get(path))["series"][0]["values"]
    except (ValueError, LookupError):
        return path, []


def victoria_day(server, day, counts):
    """The same for VictoriaMetrics: a sample a minute, of which each point is the sum."""
    start = int(day.timestamp())
    lines = (f"score value={count} {(start + 60 * minute + 30) * 1000}" for minute, count in enumerate(counts))
    server.post("/write?precision=ms", "\n".join(lines).encode())
    server.get("/internal/force_flush")
    query = quote("sum_over_time(score_value[1m])")
    path = f"/api/v1/query_range?query={query}&start={start + 60}&end={start + 86_400}&step=60"
    series = json.loads(server.get(path))["data"]["result"]
    return path, [float(value) for _, value in series[0]["values"]] if series else []


def start_and_rest(settings):
    """9"""
    result = Result()
    for server in (Playmeter, Redis, VictoriaMetrics):
        reason = server.missing()
        if reason:
            result.notes.append(f"{server.name} left out: {reason}")
            continue
        rows = [started_and_idle(server) for _ in range(settings.rounds)]
        result.rows[server.name] = rows
        settings.say(f"  {server.name}: " + ", ".join(f"{row['start_ms']:.0f} ms" for row in rows))
    if not Playmeter.missing():
        result.figures["binary_mib"] = Playmeter.binary().stat().st_size / 2**20
        result.figures["binary_stripped_mib"] = stripped_mib(Playmeter.binary())
        for peer in result.rows.keys() - {"playmeter"}:
            result.peers[peer] = pairs.ratios(result.rows["playmeter"], result.rows[peer], "start_ms")
    return result


def started_and_idle(server_class, settle_s=2.0, idle_s=5.0):
    """From the start of the process to the first write answered, then what it takes to do nothing."""
    started = time.monotonic()
    with server_class(ALL_CORES) as server:
        server.wait_until(lambda: takes_a_write(server))
        start_ms = (time.monotonic() - started) * 1000
        time.sleep(settle_s)
        before = machine.cpu_seconds(server.pids)
        time.sleep(idle_s)
        idle = (machine.cpu_seconds(server.pids) - before) / idle_s
        memory = machine.memory_mib(server.pids)
    return {
        "subject": server_class.name,
        "start_ms": start_ms,
        "memory_mib": memory,
        "idle_cores": idle,
        "load_average": machine.load_average(),
    }


def takes_a_write(server):
    """One write, by hand: a client library would take longer than some servers."""
    if isinstance(server, Redis):
        return exchange("127.0.0.1", server.port, b"SET first write\r\n").startswith(b"+OK")
    host, port = server.url.removeprefix("http://").rsplit(":", 1)
    if isinstance(server, VictoriaMetrics):
        request = load.post("/write", b"first value=1")
    else:
        request = load.post(f"/v1/events?key={server.key}", b'{"event":"first"}')
    return exchange(host, int(port), request)[9:10] == b"2"


def exchange(host, port, request):
    try:
        with socket.create_connection((host, port), timeout=5) as connection:
            connection.sendall(request)
            return connection.recv(4096)
    except OSError:
        return b""


def stripped_mib(binary):
    """What the program weighs without its debug information, as a release ships it."""
    if not shutil.which("strip"):
        return None
    with tempfile.TemporaryDirectory(dir=machine.SCRATCH) as folder:
        copy = Path(folder) / binary.name
        subprocess.run(["strip", "-o", copy, binary], check=True)
        return copy.stat().st_size / 2**20


def cores(settings):
    """10"""
    result = Result()
    load_of = {"single events": (8_000, 1), "batches of 100": (1_000, 100)}
    for name, (rate, batch) in load_of.items():
        one = Subject(f"{name}, 1 core", Playmeter, rate, batch, role="ours")
        all_ = Subject(f"{name}, {os.cpu_count()} cores", Playmeter, rate, batch, cores=ALL_CORES, role="peer")
        part = ingest(Settings(settings.rounds, settings.seconds, settings.warmup, False, settings.say), [one, all_])
        result.rows |= part.rows
        result.peers |= part.peers
        result.checks += part.checks
        if not part.rows:
            result.notes = part.notes
            continue
        ratio = part.peers[all_.name]["median"]
        result.figures[f"{name}: capacity of {os.cpu_count()} cores over 1, from CPU per event"] = (
            os.cpu_count() / ratio
        )
        if settings.find_max:
            result.highest |= {one.name: highest(one, settings, one.cores), all_.name: highest(all_, settings)}
    result.notes.append("the generator needs a core of its own: the highest rate on all cores is shared with it")
    return result


def generator(settings):
    """The generator itself, checked against another one on the cheapest server."""
    result = Result()
    reason = HttpFloor.missing() or floors.missing("olg")
    if reason:
        result.notes.append(f"left out: {reason}")
        return result
    rate = 20_000
    rows = {"playmeter bench": [], "olg": []}
    for _ in range(settings.rounds):
        with HttpFloor() as server:
            requests = load.request_file(server.folder, load.event_requests(1))
            report = load.offer(
                server, settings.seconds, settings.warmup, kind="requests", requests=requests, rate=rate
            )
            rows["playmeter bench"].append(row("playmeter bench", report))
        with HttpFloor() as server:
            requests = load.request_file(server.folder, load.event_requests(1))
            rows["olg"].append(olg(server, requests, rate, settings))
        settings.say("  " + "; ".join(f"{name}: {pairs.brief(found[-1])}" for name, found in rows.items()))
    result.rows = rows
    result.peers["olg"] = pairs.ratios(rows["playmeter bench"], rows["olg"], "cpu_us")
    result.notes.append(
        "olg sends in clumps over as few connections as it can, so the server wakes less often; "
        "playmeter bench sends each request when it is due, over all connections in turn"
    )
    return result


def olg(server, requests, rate, settings):
    port = server.url.rsplit(":", 1)[1]
    command = [
        "taskset",
        "-c",
        load.GENERATOR_CORE,
        floors.program("olg"),
        port,
        requests,
        "64",
        rate,
        settings.seconds,
    ]
    command += ["1", ",".join(map(str, server.pids))]
    output = subprocess.run([*map(str, command)], capture_output=True, text=True, check=True).stdout
    found = {name: float(value) for name, value in re.findall(r"(rps|p50|p99|p99\.9|errs|non2xx)=([\d.]+)", output)}
    return {
        "subject": "olg",
        "offered": f"{rate:,}/s",
        "cpu_us": float(re.search(r"server_cpu=\S+ => ([\d.]+) us", output)[1]),
        "p50_us": found["p50"],
        "p99_us": found["p99"],
        "p999_us": found["p99.9"],
        "events_per_second": found["rps"],
        "errors": found["errs"] + found["non2xx"],
        "load_average": machine.load_average(),
    }


@dataclass(frozen=True)
class Job:
    title: str
    goal: str
    run: object


JOBS = {
    "1a": Job("Single events over HTTP, durable", "at most 11 us of CPU an event; 8.5 with ack=memory", single_events),
    "1b": Job("Batches of 100 events, durable", "at most 0.5 CPU-seconds per million events", batches),
    "1c": Job(
        "Acknowledgement at 20,000 events/s",
        "p50 at most 1.5 ms on an idle machine, p99 at most 3 commit intervals",
        acknowledgement,
    ),
    "3a": Job("Counting by name on three levels", "at most 0.15 us an increment", counters),
    "3b": Job(
        "A simulated day of counting", "dearest hour at most 1.05 of the cheapest, midnight included", simulated_day
    ),
    "4b": Job("A day by the minute over HTTP", "at most 20 us of CPU a query", day_by_the_minute),
    "5a": Job(
        "A board of ten million players: a score and a rank",
        "at most 2 us of CPU; ranks in at most 32 bytes a player, half of a sorted set's memory with ids",
        boards,
    ),
    "5b": Job("The same board after a restart", "back within a second", board_restart),
    "8": Job("Country of an address", "at most 35 ns", geo),
    "9": Job(
        "Start and rest",
        "20 ms to the first durable event, 10 MiB, 15 MiB of program, no CPU when idle",
        start_and_rest,
    ),
    "10": Job("From one core to all", "at least 1.9 times as much with two", cores),
    "generator": Job(
        "The generator checked against another", "CPU per request of the same server within a third", generator
    ),
}
