#!/usr/bin/env python3
"""Holds a data folder against what was sent to it: the ledger, the log, the accounts, the views.

    torture/recount.py --binary BINARY --data DIR --ledger FILE

Starts a server on the folder to ask it, and stops it again.
"""

import argparse
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path

import ledger
from segments import Damaged, Log
from server import Broken, Client, Server
from views import Questions, Recount

NAMED_MAX = 5
OUTCOMES = ("accepted", "duplicate", "late", "limited", "invalid")
# The stored numbers of reasons, with the outcome that counts them.
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
    """Checks that passed and failed, as they are told at the end."""

    def __init__(self, out=sys.stdout):
        self.passed, self.failures, self.out = 0, [], out
        self.events = self.acked = self.lost = self.twice = 0

    def check(self, name, wrong, told=""):
        """One check: what is wrong, nothing if it passed."""
        if not wrong:
            self.passed += 1
            print(f"  ok    {name}{': ' + told if told else ''}", file=self.out, flush=True)
            return
        self.failures.append(name)
        print(f"  FAIL  {name}: {len(wrong)} wrong", file=self.out)
        for line in wrong[:NAMED_MAX]:
            print(f"        {line}", file=self.out, flush=True)

    def closing(self, seed):
        """The last line, and the exit code."""
        print(f"{self.passed} passed, {len(self.failures)} failed (--seed {seed})", file=self.out, flush=True)
        return 1 if self.failures else 0


def identity(event):
    """The id as the ledger writes it; without one the serial number in the properties."""
    if event.ident is None:
        return json.loads(event.props or "{}").get("serial", "-?")
    text = f"{event.ident:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def check_ledger(report, log, sent):
    """Acknowledged is stored once and equal; stored was sent; refused is not stored; each id at most once."""
    stored = defaultdict(list)
    for batch, event in log.events():
        stored[batch.game, batch.key_class, identity(event)].append((batch, event))
    lost, twice, unsent, unequal, refused = [], [], [], [], []
    for key, events in stored.items():
        if len(events) > 1:
            twice.append(f"{key} is stored at {[batch.offset for batch, _ in events]}")
        entry = sent.get(key)
        if entry is None or not (entry.acked or entry.unknown):
            (refused if entry and entry.refused else unsent).append(f"{key} at {events[0][0].offset}")
        elif not any(_hashes(*found) & set(entry.acked or entry.unknown) for found in events):
            unequal.append(f"{key} at {events[0][0].offset}: {events[0][1]}")
    for key, entry in sent.items():
        if (entry.acked or entry.duplicate) and key not in stored:
            lost.append(f"{key} was answered accepted {len(entry.acked)}, duplicate {entry.duplicate} times")
        if len(entry.acked) > 1 and not key[2].startswith("-"):
            twice.append(f"{key} was accepted {len(entry.acked)} times")
    report.acked += sum(len(entry.acked) for entry in sent.values())
    report.events += sum(map(len, stored.values()))
    report.lost, report.twice = report.lost + len(lost), report.twice + len(twice)
    report.check("every acknowledged event is stored", lost, f"{report.acked} acknowledged, {report.events} stored")
    report.check("no event is stored or accepted twice", twice)
    report.check("what is stored was sent", unsent)
    report.check("what was refused is not stored", refused)
    report.check("contents are equal", unequal)


def _hashes(batch, event):
    fields = ledger.stored_fields(event)
    return {ledger.content_hash(fields, time) for time in ledger.possible_times(event, batch.received_ms)}


def recounted_accounts(log):
    """What the log says of each game: outcomes and reasons."""
    accounts = defaultdict(Counter)
    for batch in log.batches:
        account = accounts[batch.game]
        account["accepted"] += len(batch.events)
        for code, count in batch.tallies:
            outcome, reason = REASONS[code]
            account[outcome] += count
            account[outcome, reason] += count
    return accounts


def check_accounts(report, log, totals, clients):
    """The log's outcomes are those of `/v1/load`, and agree with the answers that came."""
    wrong, accounts = [], recounted_accounts(log)
    hours = sorted({batch.received_ms // 3_600_000 for batch in log.batches}) or [0]
    for game, client in clients.items():
        account, told = accounts[game], load(client, hours[0], hours[-1] + 1)
        for outcome in OUTCOMES:
            if told["totals"][outcome] != account[outcome]:
                wrong.append(f"game {game}: {told['totals'][outcome]} {outcome}, recounted {account[outcome]}")
        received = sum(account[outcome] for outcome in OUTCOMES)
        if told["totals"]["received"] != received:
            wrong.append(f"game {game}: {told['totals']['received']} received, recounted {received}")
        reasons = {reason[1]: count for reason, count in account.items() if isinstance(reason, tuple)}
        if told["reasons"] != reasons:
            wrong.append(f"game {game}: reasons {told['reasons']}, recounted {reasons}")
        wrong += [f"game {game}: {line}" for line in against_answers(account, totals[game])]
    received = sum(account[outcome] for account in accounts.values() for outcome in OUTCOMES)
    report.check("received is the sum of the outcomes, in the log and in /v1/load", wrong, f"{received} received")


def load(client, first_hour, until_hour):
    """The accounts of these hours since 1970."""
    return client.get(f"/v1/load?from={first_hour * 3_600_000}&to={until_hour * 3_600_000}")


def against_answers(account, rows):
    """An outcome was counted at least as often as it was answered, and at most as often as it may have been."""
    unknown = rows[ledger.UNKNOWN]
    answered = Counter()
    for word, count in rows.items():
        if word != ledger.UNKNOWN:
            answered["accepted" if word == ledger.ACKED else word.split(":")[0]] += count
    for outcome in OUTCOMES:
        if not answered[outcome] <= account[outcome] <= answered[outcome] + unknown:
            yield f"{account[outcome]} {outcome}, answered {answered[outcome]}, {unknown} without an answer"
    if not sum(answered.values()) <= sum(account[outcome] for outcome in OUTCOMES) <= sum(rows.values()):
        yield f"{sum(rows.values())} were sent"


def check_views(report, log, clients):
    """Every answer of `/v1/query` is a recount of the log."""
    for game, client in clients.items():
        recount = Recount()
        for batch, event in log.events():
            if batch.game == game:
                recount.add(batch, event)
        questions = Questions(client, recount, log.next)
        questions.ask_everything()
        told = f"{questions.asked} questions, {questions.compared} numbers"
        report.check(f"the views of game {game} are a recount of the log", questions.wrong, told)


def check_verify(report, server, when):
    """The program's own verdict on the folder."""
    code, said = server.command("verify")
    fine = code == 0 and said["agrees"] is True and said["different"] == 0 and said["compared"] == said["rows"]
    report.check(f"playmeter verify agrees {when}", [] if fine else [f"exit code {code}: {said}"])


def read_log(report, data, crc_bytes):
    """The log, or None if it cannot be read."""
    try:
        log = Log(Path(data) / "log", crc_bytes)
    except Damaged as damaged:
        report.check("the log is whole and its offsets are dense", [str(damaged)])
        return None
    told = f"{log.segments} segments, {log.frames} frames, {log.next} offsets"
    report.check("the log is whole and its offsets are dense", [], told)
    return log


def check_running(report, data, ledger_path, clients, crc_bytes):
    """All checks on a folder whose server runs and is asked nothing else meanwhile."""
    log = read_log(report, data, crc_bytes)
    if log is None:
        return
    sent, totals = ledger.read(ledger_path)
    check_ledger(report, log, sent)
    check_accounts(report, log, totals, clients)
    check_views(report, log, clients)


def games_of(server):
    """Clients by game number. The second game's keys are beside the folder, where the harness left them."""
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
    parser.add_argument("--crc-bytes", type=int, default=1 << 30, help="payload that is put through the checksum")
    given = parser.parse_args()
    report, server = Report(), Server(given.binary, given.data, given.data.parent / "recount.log")
    try:
        server.start()
        server.wait_ready()
        check_running(report, given.data, given.ledger, games_of(server), given.crc_bytes)
        check_verify(report, server, "while the server runs")
    except Broken as broken:
        report.check("the server answers", [str(broken)])
    finally:
        server.kill()
    check_verify(report, server, "after the server stopped")
    return report.closing("none")


if __name__ == "__main__":
    sys.exit(main())
