"""The jobs of what is watched: fan-out, live queries, memory, and what watching costs those who only write.

Everybody reads one number that only grows, so a run knows of each subscriber whether it got everything in
order and ended with the newest state. A *delivery* is one such number at one subscriber.
"""

import json
import subprocess
import time
from dataclasses import replace

from . import browsers, load, pairs
from .jobs import Job, Result, Subject, compare, present, row
from .sockets import FanFloor, Held, LivePlaymeter, Nchan, NodeWs, ShareDb, watch

TICKS_PER_SECOND = 4
# Slower, so that 20 updates a tick one by one do not saturate those that send each of them.
MERGED_TICKS_PER_SECOND = 2
MERGED_UPDATES = 20
IDLE_SUBSCRIBERS = 5_000
HELD_SUBSCRIBERS = 10_000
HELD_ADDRESSES = 40
HELD_SECONDS = 60
LIVE_QUERIES = 100
# Polling a hundred queries takes a good part of a second of CPU.
POLLED_RATE = 2
WRITE_RATE = 1_000
UNWATCHED_BATCH = 100
UNWATCHED_EVENTS = 1_000_000
EQUAL_SUBSCRIBERS = 1_000
# Of the events that the generator of single events sends, with `--names 1`.
WRITTEN = "level_start"


def fan_out(settings):
    """6a"""
    result = Result()
    subjects = socket_subjects(result, floor=True)
    at_once = json.dumps({"min_interval": 0})
    per_tick = json.dumps({"min_interval": 1000 // MERGED_TICKS_PER_SECOND})
    rate = MERGED_TICKS_PER_SECOND * MERGED_UPDATES
    for title, subscribers, updates, options, figure in (
        ("1,000", 1_000, TICKS_PER_SECOND, at_once, "us_per_delivery"),
        ("5,000", 5_000, TICKS_PER_SECOND, at_once, "us_per_delivery"),
        (f"1,000, {MERGED_UPDATES} updates a tick", 1_000, rate, per_tick, "us_per_update"),
    ):

        def run(subject, title=title, subscribers=subscribers, updates=updates, options=options, figure=figure):
            with subject.server() as server:
                own = {"options": options} if subject.role == "ours" else {}
                report = watch(server, settings, subscribers, rate=updates, **own)
            check_watching(result, f"{subject.name}, {title}", report, merges=subject.role == "ours")
            return watch_row(f"{subject.name}, {title}", report, figure)

        part = Result(rows=pairs.alternate(subjects, run, settings.rounds, settings.say))
        merge(result, part, subjects, title)
    result.notes += [f"{subject.server.name}: {subject.server.remark}" for subject in subjects]
    result.notes.append(
        f"CPU us is the server's by delivery, taking the update included; with {MERGED_UPDATES} updates a tick, by "
        "update and subscriber"
    )
    return result


def live_queries(settings):
    """6b"""
    result = Result()
    loads = {
        "no live queries": (0, None),
        "100 not touched": (LIVE_QUERIES, untouched()),
        "1,000 not touched": (10 * LIVE_QUERIES, untouched()),
        "100 touched": (LIVE_QUERIES, touched()),
    }
    names = list(loads)

    def run(name):
        return written(result, f"playmeter, {name}", *loads[name], WRITE_RATE, settings)

    rows = pairs.alternate(names, run, settings.rounds, settings.say)
    result.rows = {f"playmeter, {name}": rows[name] for name in names}
    for name in names:
        result.figures[f"us of CPU a write, {name}"] = pairs.summary(rows[name], "cpu_us")["median"]
    for name in names[1:]:
        result.figures[f"{name}, as a multiple of none"] = pairs.ratios(rows[names[0]], rows[name], "cpu_us")["median"]
    polled(result, settings)
    result.notes.append(
        "written over HTTP one event at a time, each durable before it is answered; sharedb in memory: a hundred "
        f"queries of the ten best in one of {LIVE_QUERIES} games of ten players each, of which a write touches one"
    )
    return result


def polled(result, settings):
    """The same at the rate that polling can take, beside ShareDB."""
    slow = replace(settings, seconds=max(settings.seconds, 4.0))
    ours, theirs = f"playmeter, 100 touched, {POLLED_RATE}/s", f"sharedb, 100 live, {POLLED_RATE}/s"
    runs = {ours: lambda: written(result, ours, LIVE_QUERIES, touched(), POLLED_RATE, slow)}
    reason = ShareDb.missing()
    if reason:
        result.notes.append(f"sharedb left out: {reason}")
    else:
        runs[theirs] = lambda: scored(result, theirs, slow)
    rows = pairs.alternate(list(runs), lambda name: runs[name](), settings.rounds, settings.say)
    result.rows |= rows
    if theirs in rows:
        result.peers["sharedb, a write with 100 live queries"] = pairs.ratios(rows[ours], rows[theirs], "cpu_us")


def written(result, name, subscribers, watching, rate, settings):
    """Single events beside subscribers that may watch them."""
    with LivePlaymeter() as server:
        with Held(server, subscribers, watching and watching | {"key": server.secret}) as held:
            report = load.offer(server, settings.seconds, settings.warmup, rate=rate, names=1)
            settle()
        accepted = report["total"]["accepted"]
        if watching == touched():
            newest = held.report["seen"]
            why = f"{accepted:,} written, seen {newest['newest_min']:,} to {newest['newest_max']:,}"
            passed = newest["newest_min"] == newest["newest_max"] == accepted
            result.checks.append({"check": f"{name}: newest state", "passed": passed, "why": why})
        check_held(result, name, held)
        why = f"receipts {accepted:,}, accounting {server.accepted():,}"
        result.checks.append({"check": f"{name}: accounting", "passed": accepted == server.accepted(), "why": why})
    return row(name, report)


def scored(result, name, settings):
    """Scores beside ShareDB's live queries."""
    with ShareDb() as server:
        with Held(server, LIVE_QUERIES, server.queries) as held:
            requests = load.request_file(server.folder, [load.post("/score", b"{}", "application/json")])
            report = load.offer(
                server, settings.seconds, settings.warmup, kind="requests", requests=requests, rate=POLLED_RATE
            )
            settle()
    seen = held.report["measured"]["messages"]
    why = f"{report['total']['requests_answered']} written, {seen} messages"
    result.checks.append({"check": f"{name}: told", "passed": seen >= report["total"]["requests_answered"], "why": why})
    return row(name, report, "us_per_request")


def idle_memory(settings):
    """6c"""
    result = Result()
    subjects = socket_subjects(result)
    short = replace(settings, seconds=0.5, warmup=0.0)

    def run(subject):
        with subject.server() as server:
            report = watch(server, short, IDLE_SUBSCRIBERS, rate=0)
        memory = report["memory"]
        taken = (memory["watched_bytes"] - memory["alone_bytes"]) / IDLE_SUBSCRIBERS
        return {
            "subject": subject.name,
            "subscriber_bytes": taken,
            "memory_mib": memory["watched_bytes"] / 2**20,
            "errors": report["subscribers"]["lost"],
            "load_average": report["machine"]["load_average"],
        }

    rows = pairs.alternate(subjects, run, settings.rounds, settings.say)
    result.rows = {subject.name: each for subject, each in rows.items()}
    for subject in subjects[1:]:
        ours, theirs = result.rows[subjects[0].name], result.rows[subject.name]
        result.peers[subject.name] = pairs.ratios(ours, theirs, "subscriber_bytes")
    result.notes.append(
        f"resident memory with {IDLE_SUBSCRIBERS:,} subscribers that have got their first state, less that without, by "
        "subscriber; what the system keeps for their sockets is in none of them"
    )
    return result


def unwatched(settings):
    """6d"""
    result = Result()
    names = ["nobody watches", "1,000 watch other events", "1,000 watch another game"]
    rows = {name: [] for name in names}
    seconds = settings.seconds
    rate = round(UNWATCHED_EVENTS / UNWATCHED_BATCH / seconds)
    for number in range(2 * settings.rounds):
        with LivePlaymeter() as server:
            other = server.watching | {"what": json.dumps({"metric": "other_{i}", "last": "60m", "step": "minute"})}
            elsewhere = other | {"key": another_game(server)}
            watching = dict(zip(names, (None, other, elsewhere)))
            # A server's first events are its dearest, and what is there grows: each is the first in turn.
            load.offer(server, seconds, 0, rate=rate, batch=UNWATCHED_BATCH)
            for name in names[number % 3 :] + names[: number % 3]:
                with Held(server, 1_000 if watching[name] else 0, watching[name]) as held:
                    report = load.offer(server, seconds, settings.warmup, rate=rate, batch=UNWATCHED_BATCH)
                check_held(result, name, held)
                rows[name].append(row(name, report))
            found = ", ".join(f"{name} {each[-1]['cpu_us']:.3f}" for name, each in rows.items())
            settings.say(f"  round {number + 1}/{2 * settings.rounds}  {found}")
    result.rows = rows
    for name in names[1:]:
        ratio = pairs.ratios(rows[names[0]], rows[name], "cpu_us")
        result.figures[f"{name}, as a multiple of nobody"] = ratio["median"]
        why = f"{ratio['median']:.3f} ({ratio['min']:.3f} to {ratio['max']:.3f})"
        result.checks.append({"check": f"{name}: within 5%", "passed": abs(ratio["median"] - 1) <= 0.05, "why": why})
    return result


def equal_subscriptions(settings):
    """6e"""
    result = Result()
    dear = json.dumps({"metric": "update", "last": "60m", "step": "minute", "by": ["country"]})

    def run(subscribers):
        name = f"{subscribers:,} of the same query"
        with LivePlaymeter() as server:
            watching = server.watching | {"what": dear}
            report = watch(server, settings, subscribers, watching, rate=TICKS_PER_SECOND)
            # The channel stays for a while after its last watcher has left.
            said = json.loads(server.get("/v1/subscriptions"))["subscriptions"]
        check_watching(result, name, report, merges=True)
        cost = next(each for each in said if each["topic"] == "query")
        return {
            "subject": name,
            "cpu_us": report["server_cpu"]["us_per_delivery"],
            "server_cores": report["server_cpu"]["cores"],
            "computation_us": cost["cost_us"]["mean"],
            "computations": cost["computations"],
            "p50_us": report["latency_us"]["p50"],
            "p99_us": report["latency_us"]["p99"],
            "load_average": report["machine"]["load_average"],
            "offered": f"{TICKS_PER_SECOND} updates/s",
        }

    rows = pairs.alternate([1, EQUAL_SUBSCRIBERS], run, settings.rounds, settings.say)
    result.rows = {each[0]["subject"]: each for each in rows.values()}
    ratio = pairs.ratios(*rows.values(), "computation_us")
    result.figures["cost of a computation for all, as a multiple of that for one"] = ratio["median"]
    result.checks.append(
        {
            "check": "computed once for all",
            "passed": ratio["median"] <= 1.2,
            "why": f"{ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f}) of the cost for one",
        }
    )
    return result


def held(settings):
    """6f"""
    result = Result()
    long = replace(settings, seconds=float(HELD_SECONDS), warmup=1.0)
    with LivePlaymeter() as server:
        report = watch(server, long, HELD_SUBSCRIBERS, rate=2, addresses=HELD_ADDRESSES, grace=60)
        check_watching(result, f"{HELD_SUBSCRIBERS:,} subscribers", report, merges=True)
    pings, memory = report["subscribers"]["pings"], report["memory"]
    result.checks.append(
        {
            "check": "heartbeats",
            "passed": pings >= HELD_SUBSCRIBERS * (HELD_SECONDS // 15 - 1),
            "why": f"{pings:,} pings answered in {report['measured']['seconds']:.0f} s",
        }
    )
    result.figures = {
        "subscribers": HELD_SUBSCRIBERS,
        "updates": report["measured"]["updates"],
        "server_cores": report["server_cpu"]["cores"],
        "us_per_delivery": report["server_cpu"]["us_per_delivery"],
        "memory_mib": memory["at_the_end_bytes"] / 2**20,
        "bytes_per_subscriber": (memory["watched_bytes"] - memory["alone_bytes"]) / HELD_SUBSCRIBERS,
        "latency_p50_ms": report["latency_us"]["p50"] / 1e3,
        "latency_p99_ms": report["latency_us"]["p99"] / 1e3,
        "load_average": report["machine"]["load_average"],
    }
    return result


def socket_subjects(result, floor=False):
    """Who tells WebSockets of updates; ours first."""
    subjects = [Subject("playmeter", LivePlaymeter, 0, role="ours")]
    subjects += [Subject(peer.name, peer, 0, role="peer") for peer in (Nchan, NodeWs, ShareDb)]
    subjects += [Subject(FanFloor.name, FanFloor, 0, role="floor")] if floor else []
    return present(subjects, result)


def merge(result, part, subjects, title):
    """Adds the rows of one load, and compares within it."""
    part.rows = {subject.name: part.rows[subject] for subject in subjects}
    compare(part, subjects)
    result.rows |= {f"{name}, {title}": rows for name, rows in part.rows.items()}
    result.peers |= {f"{name}, {title}": ratio for name, ratio in part.peers.items()}
    result.floors |= {f"{name}, {title}": ratio for name, ratio in part.floors.items()}


def watch_row(name, report, figure):
    """The figures of one run with subscribers."""
    setup, measured = report["setup"], report["measured"]
    return {
        "subject": name,
        "offered": f"{setup['subscribers']:,} subscribers, {setup['rate']:g} updates/s",
        "cpu_us": report["server_cpu"][figure],
        "server_cores": report["server_cpu"]["cores"],
        "p50_us": report["latency_us"]["p50"],
        "p99_us": report["latency_us"]["p99"],
        "events_per_second": report["seen"]["deliveries"] / measured["seconds"],
        "errors": report["subscribers"]["lost"] + report["seen"]["disordered"],
        "generator_cores": report["generator_cores"],
        "bytes_per_delivery": measured["bytes"] / max(report["seen"]["deliveries"], 1),
        "load_average": report["machine"]["load_average"],
        "waiting_for_cpu": report["machine"]["waiting_for_cpu"],
    }


def check_watching(result, name, report, merges):
    """Each subscriber complete and in order; whoever does not merge has to tell every single update."""
    seen, measured, subscribers = report["seen"], report["measured"], report["setup"]["subscribers"]
    whole = measured["updates"] * subscribers
    passed = (
        measured["is_complete"]
        and report["subscribers"]["lost"] == 0
        and seen["disordered"] == 0
        and seen["deliveries"] + seen["merged"] == whole
        and (merges or seen["merged"] == 0)
    )
    why = f"{seen['deliveries']:,} deliveries and {seen['merged']:,} merged of {whole:,}"
    if not passed:
        why += f"; lost {report['subscribers']['lost']}, disordered {seen['disordered']}, "
        why += f"newest {seen['newest_min']:,} to {seen['newest_max']:,}"
    result.checks.append({"check": f"{name}: complete and in order", "passed": passed, "why": why})


def check_held(result, name, held):
    """Who was held beside a load has to be there at its end."""
    if held.report:
        watching, lost = held.report["subscribers"]["watching"], held.report["subscribers"]["lost"]
        passed = watching == held.subscribers and lost == 0
        why = f"{watching:,} watch, {lost:,} lost"
        result.checks.append({"check": f"{name}: held", "passed": passed, "why": why})


def untouched():
    """A query for each subscriber about events that do not come."""
    return {"what": json.dumps({"metric": "other_{i}", "last": "60m", "step": "minute"})}


def touched():
    """A query for each of a hundred subscribers about every event that comes, in spans that all differ."""
    return {"what": json.dumps({"metric": WRITTEN, "last": "1{i}h", "step": "all"})}


def settle():
    """Subscribers have the newest state a moment after the write."""
    time.sleep(1.0)


def another_game(server):
    """A key of a second game on the same server."""
    folder = server.folder / "data"
    # Written last of all that a start writes.
    server.wait_until((folder / "server.pid").exists)
    data = ["--data", folder, "--json"]
    command_line(server, "games", "create", "other", *data)
    return command_line(server, "keys", "create", "--game", "other", "--scopes", "query", *data)["secret_key"]


def command_line(server, *words):
    done = subprocess.run([*map(str, (server.binary(), *words))], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words[:2])} failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


JOBS = {
    "6a": Job(
        "Fan-out to WebSockets",
        f"at most 1.1 of the floor a delivery; at most 0.35 us an update and subscriber with {MERGED_UPDATES} a tick",
        fan_out,
    ),
    "6b": Job(
        "A write with live queries", "at most 20 us of CPU with 100; the same with any number not touched", live_queries
    ),
    "6c": Job("Memory of an idle subscriber", "at most 2 KiB", idle_memory),
    "6d": Job("A million writes that nobody watches", "within 5% of those with no subscriptions", unwatched),
    "6e": Job("A thousand equal subscriptions", "at most 1.2 of one computation, plus sending", equal_subscriptions),
    "6f": Job("Ten thousand subscribers held for a minute", "none lost, all with the newest state", held),
    "6g": Job(
        "Browsers on the Live page", "as many as the machine carries; the server's CPU for each", browsers.stress
    ),
}
