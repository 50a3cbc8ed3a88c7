"""The jobs: what is measured, at which rate, against which peers, and the goal.

A job returns its rows by subject, the ratios against each peer and floor, checks and notes. CPU time per operation is
the primary figure. It depends on the rate, so all subjects of a job get the same rate.
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
# A rate is sustained while p99 stays below this.
P99_MS_MAX = 250

# Programs of other crates that measure inside one process. The last line that each prints is a JSON
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
    "8": ["cargo", "run", "--release", "--quiet", "-p", "playmeter-pipeline", "--example", "geo"],
}


@dataclass
class Settings:
    """Duration and number of runs."""

    rounds: int = 3
    seconds: float = 4.0
    warmup: float = 2.0
    find_max: bool = False
    log: object = print


@dataclass
class Result:
    """The result of a job."""

    rows: dict = field(default_factory=dict)
    # The peer's figure divided by ours: above 1, the peer needs more.
    peers: dict = field(default_factory=dict)
    # Our figure divided by the floor's.
    floors: dict = field(default_factory=dict)
    highest: dict = field(default_factory=dict)
    figures: dict = field(default_factory=dict)
    checks: list = field(default_factory=list)
    notes: list = field(default_factory=list)


@dataclass(frozen=True)
class Subject:
    """A server under a given load."""

    name: str
    server: type[Server]
    rate: int
    batch: int = 1
    ack: str = "disk"
    cores: str = "0"
    # "ours" is compared with each "peer" and "floor"; "other" is only shown.
    role: str = "other"
    line_protocol: bool = False

    def run_load(self, server, settings, core=load.GENERATOR_CORE, **options):
        if self.line_protocol:
            requests = load.request_file(server.folder, load.line_requests(self.batch))
            options |= {"kind": "requests", "requests": requests}
        elif self.ack != "disk":
            options["ack"] = self.ack
        options = {"rate": self.rate, "batch": self.batch, **options}
        return load.run_load(server, settings.seconds, settings.warmup, core, **options)


def ingest(settings, subjects):
    """Runs each subject's load in interleaved rounds and compares the cost."""
    result = Result()
    subjects = available(subjects, result)

    def run(subject):
        with subject.server(subject.cores) as server:
            report = subject.run_load(server, settings)
            check_accounting(result, subject, server, report)
        return row(subject.name, report)

    result.rows = {
        subject.name: rows for subject, rows in pairs.alternate(subjects, run, settings.rounds, settings.log).items()
    }
    add_ratios(result, subjects)
    if settings.find_max:
        result.highest = {
            subject.name: highest_rate(subject, settings) for subject in subjects if subject.role != "other"
        }
    return result


def available(subjects, result):
    """Returns the subjects that can run on this machine; notes the others."""
    missing = {subject.server: subject.server.missing() for subject in subjects}
    result.notes += [f"{server.name} left out: {reason}" for server, reason in missing.items() if reason]
    return [subject for subject in subjects if not missing[subject.server]]


def row(name, report, operation="seconds_per_million_events"):
    """Returns the figures of one run."""
    cpu, latency = report["server_cpu"], report["latency_us"]
    return {
        "subject": name,
        "offered": describe_load(report["setup"]),
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


def describe_load(setup):
    return (
        f"{setup['rate']:,.0f}/s of {setup['batch']}, ack {setup['ack']}, ids {setup['ids']}, "
        f"{setup['connections']} connections {setup['connection']}, depth {setup['depth']}"
    )


def check_accounting(result, subject, server, report):
    """Checks that the server's accounting equals the receipts."""
    receipts = report["total"]["accepted"]
    try:
        stored = wait_for_count(server.accepted, receipts)
    except (OSError, ValueError, KeyError) as error:
        result.checks.append({"check": f"{subject.name}: accounting", "passed": False, "why": repr(error)})
        stored = None
    if stored is not None:
        why = f"receipts {receipts:,}, accounting {stored:,}"
        result.checks.append({"check": f"{subject.name}: accounting", "passed": receipts == stored, "why": why})
    if report["total"]["errors"]:
        why = f"{report['total']['errors']:,} of {report['total']['requests_sent']:,} requests failed"
        result.checks.append({"check": f"{subject.name}: no errors", "passed": False, "why": why})


def wait_for_count(read_count, expected, timeout_s=3.0):
    """Reads a count until it is as expected or the time is over; accounting may lag behind receipts."""
    deadline = time.monotonic() + timeout_s
    while (found := read_count()) not in (expected, None) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def add_ratios(result, subjects):
    """Adds the ratios, within each round, of our figures and those of every peer and floor."""
    ours = next((subject for subject in subjects if subject.role == "ours"), None)
    if ours is None:
        return
    for subject in subjects:
        theirs = result.rows[subject.name]
        if subject.role == "peer":
            result.peers[subject.name] = pairs.ratios(result.rows[ours.name], theirs, "cpu_us")
        elif subject.role == "floor":
            result.floors[subject.name] = pairs.ratios(theirs, result.rows[ours.name], "cpu_us")


def highest_rate(subject, settings, cores=ALL_CORES):
    """Finds the highest rate without errors. With all cores, the server shares them with the generator."""
    short = Settings(seconds=min(settings.seconds, 2.0), warmup=0.5)
    core = None if cores == ALL_CORES else load.GENERATOR_CORE
    try:
        with subject.server(cores) as server:
            report = subject.run_load(server, short, core, find_max=True, p99_max=P99_MS_MAX)
    except RuntimeError as error:
        return {"missing": str(error)}
    settings.log(f"  highest  {subject.name}: {report['rate_max']:,.0f} requests/s")
    return {
        "requests_per_second": report["rate_max"],
        "events_per_second": report["rate_max"] * subject.batch,
        "p99_us": report["latency_us"]["p99"],
        "generator_cores": report["generator_cpu"]["cores"],
    }


def single_events(settings):
    """1a"""
    rate, fast_rate = 5_000, 50_000
    return ingest(
        settings,
        [
            Subject("playmeter", Playmeter, rate, role="ours"),
            Subject("node-redis", NodeRedis, rate, role="peer"),
            Subject("floor-log", HttpLogFloor, rate, role="floor"),
            Subject("playmeter, 50,000/s", Playmeter, fast_rate),
            Subject("playmeter, 50,000/s, ack memory", Playmeter, fast_rate, ack="memory"),
            Subject("floor-log, 50,000/s", HttpLogFloor, fast_rate),
            Subject("floor-null, 50,000/s", HttpFloor, fast_rate),
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
        "victoria-metrics gets the same fields as Influx lines, one sample per event, without ids and players"
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
    result.figures = floors.measure_fsync()
    return result


def counters(settings):
    """3a"""
    result = Result()
    missing = RedisInMemory.missing()
    rows = {"playmeter": [], "redis-in-memory": []}
    for number in range(settings.rounds):
        result.figures = run_example("3a")
        if "increment_us" in result.figures:
            rows["playmeter"].append({"subject": "playmeter", "cpu_us": result.figures["increment_us"]})
        if not missing:
            rows["redis-in-memory"].append(redis_increments())
        found = ", ".join(f"{name} {each[-1]['cpu_us']:.3g} us" for name, each in rows.items() if each)
        settings.log(f"  round {number + 1}/{settings.rounds}  {found}")
    result.rows = {name: each for name, each in rows.items() if each}
    if len(result.rows) == 2:
        result.peers["redis-in-memory"] = pairs.ratios(*rows.values(), "cpu_us")
    result.notes += [f"redis left out: {missing}"] if missing else []
    result.notes.append(
        "redis counts one level by name over TCP, 64 commands pipelined, nothing on disk; ours counts three, in process"
    )
    return result


def redis_increments(count=2_000_000):
    """Measures the CPU time of Redis for increments of named counters in a million hashes."""
    with RedisInMemory() as server:
        command = ["taskset", "-c", load.GENERATOR_CORE, "redis-benchmark", "-p", server.port, "-q", "-P", 64, "-c", 8]
        command += ["-r", COUNTER_SERIES, "-n", count, "HINCRBY", "day:__rand_int__", "views", 1]
        warmup_command = [*command]
        warmup_command[warmup_command.index(count)] = count // 4
        run_quietly(warmup_command)
        before, started = machine.cpu_seconds(server.pids), time.monotonic()
        run_quietly(command)
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


def run_quietly(command):
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)


def boards(settings):
    """5a"""
    result = Result()
    missing = RedisInMemory.missing()
    rows = {"playmeter": [], "redis-in-memory": []}
    for number in range(settings.rounds):
        result.figures = run_example("5a")
        if "submit_and_rank_us" in result.figures:
            figures = result.figures
            memory = figures["resident_bytes_per_player"] * BOARD_PLAYERS / 2**20
            row = {"subject": "playmeter", "cpu_us": figures["submit_and_rank_us"], "memory_mib": memory}
            rows["playmeter"].append(row)
        if not missing:
            rows["redis-in-memory"].append(redis_board())
        found = ", ".join(f"{name} {each[-1]['cpu_us']:.3g} us" for name, each in rows.items() if each)
        settings.log(f"  round {number + 1}/{settings.rounds}  {found}")
    result.rows = {name: each for name, each in rows.items() if each}
    if len(result.rows) == 2:
        result.peers["redis-in-memory"] = pairs.ratios(*rows.values(), "cpu_us")
        result.peers["redis-in-memory, memory"] = pairs.ratios(*rows.values(), "memory_mib")
    result.notes += [f"redis left out: {missing}"] if missing else []
    result.notes.append(
        f"{BOARD_PLAYERS:,} players; one score and one rank each; ours in process, redis ZADD and ZREVRANK over TCP "
        "with 64 commands pipelined, nothing on disk; memory is what the board adds to the process, ids included"
    )
    return result


def redis_board(count=1_000_000):
    """Measures the CPU time of Redis for a score and a rank on a board, and its memory."""
    fill_script = (
        "math.randomseed(tonumber(ARGV[2])) for i = 0, 99999 do local n = ARGV[1] * 100000 + i "
        "redis.call('ZADD', 'board', math.random(0, 1000000000), string.format('player-%012d', n)) end"
    )
    with RedisInMemory() as server:
        empty = machine.memory_mib(server.pids)
        for part in range(BOARD_PLAYERS // 100_000):
            run_quietly(["redis-cli", "-p", server.port, "EVAL", fill_script, 0, part, part + 1])
        memory = machine.memory_mib(server.pids) - empty
        command = ["taskset", "-c", load.GENERATOR_CORE, "redis-benchmark", "-p", server.port, "-q", "-P", 64, "-c", 8]
        command += ["-r", BOARD_PLAYERS, "-n", count]
        each = []
        for operation in (
            ["ZADD", "board", "__rand_int__", "player-__rand_int__"],
            ["ZREVRANK", "board", "player-__rand_int__"],
        ):
            before = machine.cpu_seconds(server.pids)
            run_quietly([*command, *operation])
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
    return Result(figures=run_example("5b"))


def simulated_day(settings):
    """3b"""
    return Result(figures=run_example("3b"))


def geo(settings):
    """8"""
    return Result(figures=run_example("8"))


def run_example(job):
    """Runs the program of another crate and returns the figures that it prints."""
    completed = subprocess.run(EXAMPLES[job], cwd=machine.ROOT, capture_output=True, text=True)
    if completed.returncode:
        lines = completed.stderr.strip().splitlines() or ["failed without a message"]
        return {"missing": lines[-1]}
    last = completed.stdout.strip().splitlines()[-1:] or [""]
    try:
        return json.loads(last[0])
    except json.JSONDecodeError:
        return {"output": completed.stdout.strip()}


def query_day(settings):
    """4b"""
    result = Result()
    rate = 500
    subjects = [
        Subject("playmeter", Playmeter, rate, role="ours"),
        Subject("victoria-metrics", VictoriaMetrics, rate, role="peer"),
    ]
    subjects = available(subjects, result)
    prepare = {"playmeter": prepare_playmeter_day, "victoria-metrics": prepare_victoria_day}
    day = datetime.now(timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
    counts = [1 + minute * 7 % 61 for minute in range(1440)]

    def run(subject):
        with subject.server(subject.cores) as server:
            path, found = prepare[subject.name](server, day, counts)
            why = f"{len(found)} minutes, {sum(found):,.0f} events of {sum(counts):,}"
            result.checks.append({"check": f"{subject.name}: query result", "passed": found == counts, "why": why})
            requests = load.request_file(server.folder, [load.get(path, server.secret)])
            report = load.run_load(
                server, settings.seconds, settings.warmup, kind="requests", requests=requests, rate=rate
            )
        return row(subject.name, report, "us_per_request")

    result.rows = {
        subject.name: rows for subject, rows in pairs.alternate(subjects, run, settings.rounds, settings.log).items()
    }
    add_ratios(result, subjects)
    result.notes.append(
        "victoria-metrics stores one prepared sample per minute and may use its cache; ours counted raw events"
    )
    return result


def prepare_playmeter_day(server, day, counts):
    """Fills a day with events; returns the path of the query and its result."""
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


def prepare_victoria_day(server, day, counts):
    """Fills the day in VictoriaMetrics: one sample per minute, so that each point of the result is the sum."""
    start = int(day.timestamp())
    lines = (f"score value={count} {(start + 60 * minute + 30) * 1000}" for minute, count in enumerate(counts))
    server.post("/write?precision=ms", "\n".join(lines).encode())
    server.get("/internal/force_flush")
    query = quote("sum_over_time(score_value[1m])")
    path = f"/api/v1/query_range?query={query}&start={start + 60}&end={start + 86_400}&step=60"
    series = json.loads(server.get(path))["data"]["result"]
    return path, [float(value) for _, value in series[0]["values"]] if series else []


def start_and_idle(settings):
    """9"""
    result = Result()
    for server in (Playmeter, Redis, VictoriaMetrics):
        reason = server.missing()
        if reason:
            result.notes.append(f"{server.name} left out: {reason}")
            continue
        rows = [measure_start_and_idle(server) for _ in range(settings.rounds)]
        result.rows[server.name] = rows
        settings.log(f"  {server.name}: " + ", ".join(f"{row['start_ms']:.0f} ms" for row in rows))
    if not Playmeter.missing():
        result.figures["binary_mib"] = Playmeter.binary().stat().st_size / 2**20
        result.figures["binary_stripped_mib"] = stripped_mib(Playmeter.binary())
        for peer in result.rows.keys() - {"playmeter"}:
            result.peers[peer] = pairs.ratios(result.rows["playmeter"], result.rows[peer], "start_ms")
    return result


def measure_start_and_idle(server_class, settle_s=2.0, idle_s=5.0):
    """Measures the time from process start to the first acknowledged write, then CPU and memory at idle."""
    started = time.monotonic()
    with server_class(ALL_CORES) as server:
        server.wait_until(lambda: accepts_write(server))
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


def accepts_write(server):
    """Sends one write over a raw socket: creating a client would take longer than some servers need to start."""
    if isinstance(server, Redis):
        return send_request("127.0.0.1", server.port, b"SET first write\r\n").startswith(b"+OK")
    host, port = server.url.removeprefix("http://").rsplit(":", 1)
    if isinstance(server, VictoriaMetrics):
        request = load.post("/write", b"first value=1")
    else:
        request = load.post(f"/v1/events?key={server.key}", b'{"event":"first"}')
    return send_request(host, int(port), request)[9:10] == b"2"


def send_request(host, port, request):
    try:
        with socket.create_connection((host, port), timeout=5) as connection:
            connection.sendall(request)
            return connection.recv(4096)
    except OSError:
        return b""


def stripped_mib(binary):
    """Returns the size of the binary without debug information, as released."""
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
        all_cores = Subject(f"{name}, {os.cpu_count()} cores", Playmeter, rate, batch, cores=ALL_CORES, role="peer")
        ingest_result = ingest(
            Settings(settings.rounds, settings.seconds, settings.warmup, False, settings.log), [one, all_cores]
        )
        result.rows |= ingest_result.rows
        result.peers |= ingest_result.peers
        result.checks += ingest_result.checks
        if not ingest_result.rows:
            result.notes = ingest_result.notes
            continue
        ratio = ingest_result.peers[all_cores.name]["median"]
        result.figures[f"{name}: capacity of {os.cpu_count()} cores over 1, from CPU per event"] = (
            os.cpu_count() / ratio
        )
        if settings.find_max:
            result.highest |= {
                one.name: highest_rate(one, settings, one.cores),
                all_cores.name: highest_rate(all_cores, settings),
            }
    result.notes.append("the generator needs a core of its own: the highest rate on all cores is shared with it")
    return result


def generator(settings):
    """Compares our generator with another one on the cheapest server."""
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
            report = load.run_load(
                server, settings.seconds, settings.warmup, kind="requests", requests=requests, rate=rate
            )
            rows["playmeter bench"].append(row("playmeter bench", report))
        with HttpFloor() as server:
            requests = load.request_file(server.folder, load.event_requests(1))
            rows["olg"].append(olg(server, requests, rate, settings))
        settings.log("  " + "; ".join(f"{name}: {pairs.brief(found[-1])}" for name, found in rows.items()))
    result.rows = rows
    result.peers["olg"] = pairs.ratios(rows["playmeter bench"], rows["olg"], "cpu_us")
    result.notes.append(
        "olg sends in bursts over as few connections as possible, so the server wakes up less often; "
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
    "1a": Job("Single events over HTTP, durable", "at most 11 us of CPU per event; 8.5 with ack=memory", single_events),
    "1b": Job("Batches of 100 events, durable", "at most 0.5 CPU-seconds per million events", batches),
    "1c": Job(
        "Acknowledgement at 20,000 events/s",
        "p50 at most 1.5 ms on an idle machine, p99 at most 3 commit intervals",
        acknowledgement,
    ),
    "3a": Job("Named counters on three levels", "at most 0.15 us per increment", counters),
    "3b": Job(
        "A simulated day of counting",
        "most expensive hour at most 1.05 times the cheapest, midnight included",
        simulated_day,
    ),
    "4b": Job("Query for one day by the minute over HTTP", "at most 20 us of CPU per query", query_day),
    "5a": Job(
        "Leaderboard of ten million players: a score and a rank",
        "at most 2 us of CPU; ranks in at most 32 bytes per player, half the memory of a sorted set with ids",
        boards,
    ),
    "5b": Job("The same leaderboard after a restart", "restored within a second", board_restart),
    "8": Job("Country of an IP address", "at most 35 ns", geo),
    "9": Job(
        "Start and idle",
        "20 ms to the first durable event, 10 MiB of memory, 15 MiB binary, no CPU when idle",
        start_and_idle,
    ),
    "10": Job("Scaling from one core to all", "at least 1.9 times the capacity with two cores", cores),
    "generator": Job(
        "The generator compared with another",
        "CPU per request of the same server differs by at most a third",
        generator,
    ),
}
