#!/usr/bin/env python3
"""Compares a data folder with what was sent to it: ledger, log, accounting and views.

    torture/recount.py --binary BINARY --data DIR --ledger FILE

Starts a server on the folder to query it, and stops it afterwards.
"""

import argparse
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path

import ledger
from segments import DamagedLogError, Log
from server import Client, Server, ServerFailure
from views import ExpectedViews, QueryChecker

EXAMPLES_MAX = 5
# The games whose events are in the ledger.
LEDGER_GAMES = (1, 2)
OUTCOMES = ("accepted", "duplicate", "late", "limited", "invalid")
# The stored codes of reasons, with the outcome that counts them.
REASONS = {1: ("duplicate", "seen_before"), 2: ("late", "too_old")}
REASONS |= {3: ("limited", "rate_limit"), 4: ("limited", "daily_quota")}
REASONS |= {
    code: ("invalid", reason)
    for code, reason in {
        10: "malformed_json", 11: "not_an_object", 12: "unknown_field", 13: "event_too_large",
        20: "event_name_missing", 21: "event_name_not_a_string", 22: "event_name_empty", 23: "event_name_too_long",
        24: "event_name_reserved", 30: "id_not_a_uuid", 31: "ts_invalid", 32: "player_not_a_string",
        33: "player_too_long", 34: "session_not_a_string", 35: "session_too_long", 36: "value_not_a_number",
        37: "value_not_finite", 40: "dimension_not_a_string", 41: "dimension_too_long", 42: "country_invalid",
        50: "props_not_an_object", 51: "props_too_deep", 52: "props_too_many_keys", 53: "prop_key_too_long",
        54: "prop_string_too_long", 55: "reserved_props_invalid",
    }.items()
}


class Report:
    """Passed and failed checks, printed as they complete."""

    def __init__(self, out=sys.stdout):
        self.passed, self.failures, self.out = 0, [], out
        self.events = self.acked = self.lost = self.duplicated = self.compared = 0

    def check(self, name, problems, detail=""):
        """Records one check; it passes if `problems` is empty."""
        if not problems:
            self.passed += 1
            print(f"  ok    {name}{': ' + detail if detail else ''}", file=self.out, flush=True)
            return
        self.failures.append(name)
        print(f"  FAIL  {name}: {len(problems)} problems", file=self.out)
        for line in problems[:EXAMPLES_MAX]:
            print(f"        {line}", file=self.out, flush=True)

    def finish(self, seed):
        """Prints the last line and returns the exit code."""
        print(f"{self.passed} passed, {len(self.failures)} failed (--seed {seed})", file=self.out, flush=True)
        return 1 if self.failures else 0


def ledger_event_id(event):
    """Returns the id as the ledger writes it; for an event without an id the serial number in its properties."""
    if event.event_id is None:
        return json.loads(event.props or "{}").get("serial", "-?")
    text = f"{event.event_id:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def check_ledger(report, log, entries):
    """Checks that acknowledged events are stored once and unchanged, and that nothing else is stored."""
    stored = defaultdict(list)
    for batch, event in log.events():
        if batch.game in LEDGER_GAMES:
            stored[batch.game, batch.key_class, ledger_event_id(event)].append((batch, event))
    lost, duplicated, not_sent, different, rejected = [], [], [], [], []
    for key, events in stored.items():
        if len(events) > 1:
            duplicated.append(f"{key} is stored at {[batch.offset for batch, _ in events]}")
        entry = entries.get(key)
        if entry is None or not (entry.acked or entry.unanswered):
            (rejected if entry and entry.rejected else not_sent).append(f"{key} at {events[0][0].offset}")
        elif not any(_hashes(*found) & set(entry.acked or entry.unanswered) for found in events):
            different.append(f"{key} at {events[0][0].offset}: {events[0][1]}")
    for key, entry in entries.items():
        if (entry.acked or entry.duplicate) and key not in stored:
            lost.append(f"{key} was acknowledged {len(entry.acked)} times, reported duplicate {entry.duplicate} times")
        if len(entry.acked) > 1 and not key[2].startswith("-"):
            duplicated.append(f"{key} was accepted {len(entry.acked)} times")
    report.acked += sum(len(entry.acked) for entry in entries.values())
    report.events += sum(map(len, stored.values()))
    report.lost, report.duplicated = report.lost + len(lost), report.duplicated + len(duplicated)
    report.check("every acknowledged event is stored", lost, f"{report.acked} acknowledged, {report.events} stored")
    report.check("no event is stored or accepted twice", duplicated)
    report.check("every stored event was sent", not_sent)
    report.check("no rejected event is stored", rejected)
    report.check("stored content equals sent content", different)


def _hashes(batch, event):
    fields = ledger.stored_fields(event)
    return {ledger.content_hash(fields, time) for time in ledger.possible_times(event, batch.received_ms)}


def recount_accounting(log):
    """Returns the counts of outcomes and reasons of each game, recounted from the log."""
    counts_by_game = defaultdict(Counter)
    for batch in log.batches:
        counts = counts_by_game[batch.game]
        counts["accepted"] += len(batch.events)
        for code, count in batch.tallies:
            outcome, reason = REASONS[code]
            counts[outcome] += count
            counts[outcome, reason] += count
    return counts_by_game


def check_accounting(report, log, ledger_totals, clients):
    """Checks that the outcomes in the log equal those of `/v1/load` and are consistent with the responses."""
    problems, counts_by_game = [], recount_accounting(log)
    hours = sorted({batch.received_ms // 3_600_000 for batch in log.batches}) or [0]
    for game, client in clients.items():
        counts, reported = counts_by_game[game], load(client, hours[0], hours[-1] + 1)
        for outcome in OUTCOMES:
            if reported["totals"][outcome] != counts[outcome]:
                problems.append(f"game {game}: {reported['totals'][outcome]} {outcome}, recounted {counts[outcome]}")
        received = sum(counts[outcome] for outcome in OUTCOMES)
        if reported["totals"]["received"] != received:
            problems.append(f"game {game}: {reported['totals']['received']} received, recounted {received}")
        reasons = {reason[1]: count for reason, count in counts.items() if isinstance(reason, tuple)}
        if reported["reasons"] != reasons:
            problems.append(f"game {game}: reasons {reported['reasons']}, recounted {reasons}")
        problems += [f"game {game}: {line}" for line in compare_with_responses(counts, ledger_totals[game])]
    received = sum(counts[outcome] for counts in counts_by_game.values() for outcome in OUTCOMES)
    report.check("received is the sum of the outcomes, in the log and in /v1/load", problems, f"{received} received")


def load(client, first_hour, until_hour):
    """Returns the accounting of these hours since 1970."""
    return client.get(f"/v1/load?from={first_hour * 3_600_000}&to={until_hour * 3_600_000}")


def compare_with_responses(counts, ledger_rows):
    """Yields each outcome counted less often than responses reported it, or more often than is possible."""
    unanswered = ledger_rows[ledger.UNKNOWN]
    responses = Counter()
    for outcome, count in ledger_rows.items():
        if outcome != ledger.UNKNOWN:
            responses["accepted" if outcome == ledger.ACKED else outcome.split(":")[0]] += count
    for outcome in OUTCOMES:
        if not responses[outcome] <= counts[outcome] <= responses[outcome] + unanswered:
            yield f"{counts[outcome]} {outcome}, {responses[outcome]} in responses, {unanswered} without a response"
    if not sum(responses.values()) <= sum(counts[outcome] for outcome in OUTCOMES) <= sum(ledger_rows.values()):
        yield f"{sum(ledger_rows.values())} were sent"


def check_views(report, log, clients):
    """Checks that every result of `/v1/query` matches a recount of the log."""
    for game, client in clients.items():
        expected_views = ExpectedViews()
        for batch, event in log.events():
            if batch.game == game:
                expected_views.add(batch, event)
        checker = QueryChecker(client, expected_views, log.next)
        checker.check_all()
        report.compared += checker.compared
        detail = f"{checker.queries} queries, {checker.compared} numbers"
        report.check(f"the views of game {game} match a recount of the log", checker.problems, detail)


def check_verify(report, server, when):
    """Checks that `playmeter verify` finds no difference."""
    code, result = server.command("verify")
    is_valid = code == 0 and result["agrees"] is True and result["different"] == 0
    is_valid = is_valid and result["compared"] == result["rows"]
    report.check(f"playmeter verify agrees {when}", [] if is_valid else [f"exit code {code}: {result}"])


def read_log(report, data, crc_bytes):
    """Returns the log, or None if it cannot be read."""
    try:
        log = Log(Path(data) / "log", crc_bytes)
    except DamagedLogError as error:
        report.check("the log is undamaged and its offsets have no gaps", [str(error)])
        return None
    detail = f"{log.segments} segments, {log.frames} frames, {log.next} offsets"
    report.check("the log is undamaged and its offsets have no gaps", [], detail)
    return log


def check_running(report, data, ledger_path, clients, crc_bytes):
    """Runs all checks against a running server without other traffic."""
    log = read_log(report, data, crc_bytes)
    if log is None:
        return
    entries, totals = ledger.read(ledger_path)
    check_ledger(report, log, entries)
    check_accounting(report, log, totals, clients)
    check_views(report, log, clients)


def clients_by_game(server):
    """Returns clients by game number. The crash test stores the second game's key beside the data folder."""
    keys = {1: server.bootstrap()["secret_key"]}
    second = server.data.parent / "second.key"
    if second.exists():
        keys[2] = second.read_text()
    return {game: Client(server.address(), key) for game, key in keys.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, type=Path)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--ledger", required=True, type=Path)
    parser.add_argument("--crc-bytes", type=int, default=1 << 30, help="bytes of payload whose checksums are verified")
    args = parser.parse_args()
    report, server = Report(), Server(args.binary, args.data, args.data.parent / "recount.log")
    try:
        server.start()
        server.wait_ready()
        check_running(report, args.data, args.ledger, clients_by_game(server), args.crc_bytes)
        check_verify(report, server, "while the server runs")
    except ServerFailure as error:
        report.check("the server does not fail", [str(error)])
    finally:
        server.kill()
    check_verify(report, server, "after the server stopped")
    return report.finish("none")


if __name__ == "__main__":
    sys.exit(main())
