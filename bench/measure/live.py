"""The jobs about live subscriptions: fan-out, live queries, memory, and the cost for writes.

All subscribers read a number that only grows, so that a run can check for each of them that updates arrived
completely, in order, and up to the newest state. A *delivery* is one such number at one subscriber.
"""

import json
import subprocess
import time
from dataclasses import replace

from . import browsers, load, pairs
from .jobs import Job, Result, Subject, add_ratios, available, row
from .sockets import BackgroundSubscribers, FanFloor, LivePlaymeter, Nchan, NodeWs, ShareDb, watch

TICKS_PER_SECOND = 4
# Slower, so that servers that send each of 20 updates per tick are not saturated.
MERGED_TICKS_PER_SECOND = 2
MERGED_UPDATES = 20
IDLE_SUBSCRIBERS = 5_000
MANY_SUBSCRIBERS = 10_000
MANY_SUBSCRIBERS_ADDRESSES = 40
MANY_SUBSCRIBERS_SECONDS = 60
LIVE_QUERIES = 100
# Polling a hundred queries takes a large part of a second of CPU.
POLLED_RATE = 2
WRITE_RATE = 1_000
UNWATCHED_BATCH = 100
UNWATCHED_EVENTS = 1_000_000
EQUAL_SUBSCRIBERS = 1_000
# An event that the generator sends with `--names 1`.
WRITTEN_EVENT = "level_start"


def fan_out(settings):
    """6a"""
    result = Result()
    subjects = fan_out_subjects(result, floor=True)
    at_once = json.dumps({"min_interval": 0})
    per_tick = json.dumps({"min_interval": 1000 // MERGED_TICKS_PER_SECOND})
    rate = MERGED_TICKS_PER_SECOND * MERGED_UPDATES
    for title, subscribers, updates, options, figure in (
        ("1,000", 1_000, TICKS_PER_SECOND, at_once, "us_per_delivery"),
        ("5,000", 5_000, TICKS_PER_SECOND, at_once, "us_per_delivery"),
        (f"1,000, {MERGED_UPDATES} updates per tick", 1_000, rate, per_tick, "us_per_update"),
    ):

        def run(subject, title=title, subscribers=subscribers, updates=updates, options=options, figure=figure):
            with subject.server() as server:
                own = {"options": options} if subject.role == "ours" else {}
                report = watch(server, settings, subscribers, rate=updates, **own)
            check_delivery(result, f"{subject.name}, {title}", report, merges=subject.role == "ours")
            return delivery_row(f"{subject.name}, {title}", report, figure)

        part = Result(rows=pairs.alternate(subjects, run, settings.rounds, settings.log))
        merge(result, part, subjects, title)
    result.notes += [f"{subject.server.name}: {subject.server.remark}" for subject in subjects]
    result.notes.append(
        f"CPU us is the server's per delivery, receiving the update included; with {MERGED_UPDATES} updates per tick, "
        "per update and subscriber. playmeter then coalesces updates for 500 ms, the others send each one"
    )
    return result


def live_queries(settings):
    """6b"""
    result = Result()
    loads = {
        "no live queries": (0, None),
        "100 unaffected": (LIVE_QUERIES, unaffected_query()),
        "1,000 unaffected": (10 * LIVE_QUERIES, unaffected_query()),
        "100 affected": (LIVE_QUERIES, affected_query()),
    }
    names = list(loads)

    def run(name):
        return run_writes(result, f"playmeter, {name}", *loads[name], WRITE_RATE, settings)

    rows = pairs.alternate(names, run, settings.rounds, settings.log)
    result.rows = {f"playmeter, {name}": rows[name] for name in names}
    for name in names:
        result.figures[f"CPU us per write, {name}"] = pairs.summary(rows[name], "cpu_us")["median"]
    for name in names[1:]:
        result.figures[f"{name}, relative to none"] = pairs.ratios(rows[names[0]], rows[name], "cpu_us")["median"]
    compare_with_sharedb(result, settings)
    result.notes.append(
        "writes are single events over HTTP, each durable before it is acknowledged; sharedb in memory: a hundred "
        f"top-ten queries, each on one of {LIVE_QUERIES} games with ten players; a write affects one query"
    )
    return result


def compare_with_sharedb(result, settings):
    """Compares with ShareDB at a rate that polling can sustain."""
    slow_settings = replace(settings, seconds=max(settings.seconds, 4.0))
    own_name, peer_name = f"playmeter, 100 affected, {POLLED_RATE}/s", f"sharedb, 100 live, {POLLED_RATE}/s"
    runs = {own_name: lambda: run_writes(result, own_name, LIVE_QUERIES, affected_query(), POLLED_RATE, slow_settings)}
    reason = ShareDb.missing()
    if reason:
        result.notes.append(f"sharedb left out: {reason}")
    else:
        runs[peer_name] = lambda: run_scores(result, peer_name, slow_settings)
    rows = pairs.alternate(list(runs), lambda name: runs[name](), settings.rounds, settings.log)
    result.rows |= rows
    if peer_name in rows:
        result.peers["sharedb, a write with 100 live queries"] = pairs.ratios(rows[own_name], rows[peer_name], "cpu_us")


def run_writes(result, name, subscribers, watch_options, rate, settings):
    """Writes single events while subscribers are connected."""
    with LivePlaymeter() as server:
        options = watch_options and watch_options | {"key": server.secret}
        with BackgroundSubscribers(server, subscribers, options) as background:
            report = load.run_load(server, settings.seconds, settings.warmup, rate=rate, names=1)
            wait_for_delivery()
        accepted = report["total"]["accepted"]
        if watch_options == affected_query():
            newest = background.report["seen"]
            why = f"{accepted:,} written, seen {newest['newest_min']:,} to {newest['newest_max']:,}"
            passed = newest["newest_min"] == newest["newest_max"] == accepted
            result.checks.append({"check": f"{name}: newest state", "passed": passed, "why": why})
        check_background(result, name, background)
        why = f"receipts {accepted:,}, accounting {server.accepted():,}"
        result.checks.append({"check": f"{name}: accounting", "passed": accepted == server.accepted(), "why": why})
    return row(name, report)


def run_scores(result, name, settings):
    """Writes scores while ShareDB's live queries are open."""
    with ShareDb() as server:
        with BackgroundSubscribers(server, LIVE_QUERIES, server.queries) as background:
            requests = load.request_file(server.folder, [load.post("/score", b"{}", "application/json")])
            report = load.run_load(
                server, settings.seconds, settings.warmup, kind="requests", requests=requests, rate=POLLED_RATE
            )
            wait_for_delivery()
    seen = background.report["measured"]["messages"]
    why = f"{report['total']['requests_answered']} written, {seen} messages"
    result.checks.append(
        {"check": f"{name}: delivered", "passed": seen >= report["total"]["requests_answered"], "why": why}
    )
    return row(name, report, "us_per_request")


def idle_memory(settings):
    """6c"""
    result = Result()
    subjects = fan_out_subjects(result)
    short_settings = replace(settings, seconds=0.5, warmup=0.0)

    def run(subject):
        with subject.server() as server:
            report = watch(server, short_settings, IDLE_SUBSCRIBERS, rate=0)
        memory = report["memory"]
        bytes_per_subscriber = (memory["watched_bytes"] - memory["alone_bytes"]) / IDLE_SUBSCRIBERS
        return {
            "subject": subject.name,
            "subscriber_bytes": bytes_per_subscriber,
            "memory_mib": memory["watched_bytes"] / 2**20,
            "errors": report["subscribers"]["lost"],
            "load_average": report["machine"]["load_average"],
        }

    rows = pairs.alternate(subjects, run, settings.rounds, settings.log)
    result.rows = {subject.name: each for subject, each in rows.items()}
    for subject in subjects[1:]:
        own_rows, peer_rows = result.rows[subjects[0].name], result.rows[subject.name]
        result.peers[subject.name] = pairs.ratios(own_rows, peer_rows, "subscriber_bytes")
    result.notes.append(
        f"resident memory with {IDLE_SUBSCRIBERS:,} subscribers that have received their first state, minus that "
        "without, per subscriber; kernel memory for their sockets is not included"
    )
    return result


def writes_without_subscribers(settings):
    """6d"""
    result = Result()
    names = ["no subscribers", "1,000 subscribers of other events", "1,000 subscribers of another game"]
    rows = {name: [] for name in names}
    seconds = settings.seconds
    rate = round(UNWATCHED_EVENTS / UNWATCHED_BATCH / seconds)
    for number in range(2 * settings.rounds):
        with LivePlaymeter() as server:
            other = server.watch_options | {
                "what": json.dumps({"metric": "other_{i}", "last": "60m", "step": "minute"})
            }
            elsewhere = other | {"key": create_second_game(server)}
            watch_options = dict(zip(names, (None, other, elsewhere)))
            # The first events of a server are the most expensive, and data grows: each case is the first one in turn.
            load.run_load(server, seconds, 0, rate=rate, batch=UNWATCHED_BATCH)
            for name in names[number % 3 :] + names[: number % 3]:
                subscribers = 1_000 if watch_options[name] else 0
                with BackgroundSubscribers(server, subscribers, watch_options[name]) as background:
                    report = load.run_load(server, seconds, settings.warmup, rate=rate, batch=UNWATCHED_BATCH)
                check_background(result, name, background)
                rows[name].append(row(name, report))
            found = ", ".join(f"{name} {each[-1]['cpu_us']:.3f}" for name, each in rows.items())
            settings.log(f"  round {number + 1}/{2 * settings.rounds}  {found}")
    result.rows = rows
    for name in names[1:]:
        ratio = pairs.ratios(rows[names[0]], rows[name], "cpu_us")
        result.figures[f"{name}, relative to none"] = ratio["median"]
        why = f"{ratio['median']:.3f} ({ratio['min']:.3f} to {ratio['max']:.3f})"
        result.checks.append({"check": f"{name}: within 5%", "passed": abs(ratio["median"] - 1) <= 0.05, "why": why})
    return result


def equal_subscriptions(settings):
    """6e"""
    result = Result()
    query = json.dumps({"metric": "update", "last": "60m", "step": "minute", "by": ["country"]})

    def run(subscribers):
        name = f"{subscribers:,} subscribers of the same query"
        with LivePlaymeter() as server:
            watch_options = server.watch_options | {"what": query}
            report = watch(server, settings, subscribers, watch_options, rate=TICKS_PER_SECOND)
            # The channel stays for a while after its last subscriber has left.
            subscriptions = json.loads(server.get("/v1/subscriptions"))["subscriptions"]
        check_delivery(result, name, report, merges=True)
        cost = next(each for each in subscriptions if each["topic"] == "query")
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

    rows = pairs.alternate([1, EQUAL_SUBSCRIBERS], run, settings.rounds, settings.log)
    result.rows = {each[0]["subject"]: each for each in rows.values()}
    ratio = pairs.ratios(*rows.values(), "computation_us")
    result.figures["cost of a computation for all, relative to one subscriber"] = ratio["median"]
    result.checks.append(
        {
            "check": "computed once for all",
            "passed": ratio["median"] <= 1.2,
            "why": f"{ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f}) times the cost for one",
        }
    )
    return result


def hold_subscribers(settings):
    """6f"""
    result = Result()
    long_settings = replace(settings, seconds=float(MANY_SUBSCRIBERS_SECONDS), warmup=1.0)
    with LivePlaymeter() as server:
        report = watch(server, long_settings, MANY_SUBSCRIBERS, rate=2, addresses=MANY_SUBSCRIBERS_ADDRESSES, grace=60)
        check_delivery(result, f"{MANY_SUBSCRIBERS:,} subscribers", report, merges=True)
    pings, memory = report["subscribers"]["pings"], report["memory"]
    result.checks.append(
        {
            "check": "heartbeats",
            "passed": pings >= MANY_SUBSCRIBERS * (MANY_SUBSCRIBERS_SECONDS // 15 - 1),
            "why": f"{pings:,} pings answered in {report['measured']['seconds']:.0f} s",
        }
    )
    result.figures = {
        "subscribers": MANY_SUBSCRIBERS,
        "updates": report["measured"]["updates"],
        "server_cores": report["server_cpu"]["cores"],
        "us_per_delivery": report["server_cpu"]["us_per_delivery"],
        "memory_mib": memory["at_the_end_bytes"] / 2**20,
        "bytes_per_subscriber": (memory["watched_bytes"] - memory["alone_bytes"]) / MANY_SUBSCRIBERS,
        "latency_p50_ms": report["latency_us"]["p50"] / 1e3,
        "latency_p99_ms": report["latency_us"]["p99"] / 1e3,
        "load_average": report["machine"]["load_average"],
    }
    return result


def fan_out_subjects(result, floor=False):
    """Returns the servers that fan out updates to WebSockets; ours first."""
    subjects = [Subject("playmeter", LivePlaymeter, 0, role="ours")]
    subjects += [Subject(peer.name, peer, 0, role="peer") for peer in (Nchan, NodeWs, ShareDb)]
    subjects += [Subject(FanFloor.name, FanFloor, 0, role="floor")] if floor else []
    return available(subjects, result)


def merge(result, part, subjects, title):
    """Adds the rows of one load and compares the servers within it."""
    part.rows = {subject.name: part.rows[subject] for subject in subjects}
    add_ratios(part, subjects)
    result.rows |= {f"{name}, {title}": rows for name, rows in part.rows.items()}
    result.peers |= {f"{name}, {title}": ratio for name, ratio in part.peers.items()}
    result.floors |= {f"{name}, {title}": ratio for name, ratio in part.floors.items()}


def delivery_row(name, report, figure):
    """Returns the figures of one run with subscribers."""
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


def check_delivery(result, name, report, merges):
    """Checks that all updates arrived in order; servers that do not merge must deliver every single one."""
    seen, measured, subscribers = report["seen"], report["measured"], report["setup"]["subscribers"]
    expected_count = measured["updates"] * subscribers
    passed = (
        measured["is_complete"]
        and report["subscribers"]["lost"] == 0
        and seen["disordered"] == 0
        and seen["deliveries"] + seen["merged"] == expected_count
        and (merges or seen["merged"] == 0)
    )
    why = f"{seen['deliveries']:,} deliveries and {seen['merged']:,} merged of {expected_count:,}"
    if not passed:
        why += f"; lost {report['subscribers']['lost']}, disordered {seen['disordered']}, "
        why += f"newest {seen['newest_min']:,} to {seen['newest_max']:,}"
    result.checks.append({"check": f"{name}: complete and in order", "passed": passed, "why": why})


def check_background(result, name, background):
    """Checks that all background subscribers are still connected at the end."""
    if background.report:
        connected, lost = background.report["subscribers"]["watching"], background.report["subscribers"]["lost"]
        passed = connected == background.subscribers and lost == 0
        why = f"{connected:,} connected, {lost:,} lost"
        result.checks.append({"check": f"{name}: subscribers", "passed": passed, "why": why})


def unaffected_query():
    """Returns a query per subscriber about events that do not occur."""
    return {"what": json.dumps({"metric": "other_{i}", "last": "60m", "step": "minute"})}


def affected_query():
    """Returns a query for each of a hundred subscribers, with different ranges, that every event affects."""
    return {"what": json.dumps({"metric": WRITTEN_EVENT, "last": "1{i}h", "step": "all"})}


def wait_for_delivery():
    """Waits until subscribers have the newest state after the last write."""
    time.sleep(1.0)


def create_second_game(server):
    """Creates a second game on the same server and returns a key."""
    folder = server.folder / "data"
    # The last file that a start writes.
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
        "at most 1.1 of the floor per delivery; "
        f"at most 0.35 us per update and subscriber with {MERGED_UPDATES} per tick",
        fan_out,
    ),
    "6b": Job(
        "A write with live queries",
        "at most 20 us of CPU with 100; the same with any number of unaffected queries",
        live_queries,
    ),
    "6c": Job("Memory of an idle subscriber", "at most 2 KiB", idle_memory),
    "6d": Job(
        "A million writes without matching subscribers",
        "within 5% of writes without subscriptions",
        writes_without_subscribers,
    ),
    "6e": Job("A thousand equal subscriptions", "at most 1.2 times one computation, plus sending", equal_subscriptions),
    "6f": Job("Ten thousand subscribers for one minute", "none lost, all with the newest state", hold_subscribers),
    "6g": Job(
        "Browsers on the Live page",
        "as many as this machine can serve; the server's CPU for each",
        browsers.browser_pages,
    ),
}
