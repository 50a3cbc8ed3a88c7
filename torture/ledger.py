"""The ledger: every event sent and its outcome, in a file that is synced before the next crash.

One line per event and response: `game class id hash outcome`. The hash covers the content that the server is
expected to store. `acked` and `duplicate` are responses of the server; `invalid:REASON` and `late:REASON` were
rejected; `unknown` had no response, or one that asks for a retry, and may or may not be stored.
"""

import hashlib
import json
import os
from collections import defaultdict

ACKED, DUPLICATE, UNKNOWN = "acked", "duplicate", "unknown"


def content_hash(fields, time):
    """Hashes the time and `fields`: all stored fields except id and time, in the order of `stored_fields`."""
    text = json.dumps([fields, time], ensure_ascii=True, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def content_fields(name, player, session, value, dimensions, props, bot):
    """Returns the fields to hash. `props` is the parsed object or None; the value is exact, and -0.0 equals 0.0."""
    value = None if value is None else (float(value) + 0.0).hex()
    return [name, player, session, value, list(dimensions), props, bot]


def stored_fields(event):
    """Returns the fields of an event read from the log."""
    props = json.loads(event.props) if event.props else None
    return content_fields(event.name, event.player, event.session, event.value, event.dimensions, props, event.bot)


def exact_time(ts_ms):
    """Returns the expected time of an event with its own timestamp."""
    return ["at", ts_ms]


def skewed_time(before_sending_ms):
    """Returns the expected time of an event whose sender's clock is corrected, relative to the time of receipt."""
    return ["skewed", before_sending_ms]


RECEIPT = ["receipt"]
REPLACED = ["replaced"]


def possible_times(event, received_ms):
    """Returns all possible origins of an event's stored time."""
    if event.time_replaced:
        return [REPLACED] if event.ts_ms == received_ms else []
    times = [exact_time(event.ts_ms), skewed_time(received_ms - event.ts_ms)]
    return times + [RECEIPT] if event.ts_ms == received_ms else times


class Ledger:
    """The open ledger file. Rows stay in memory until `sync`."""

    def __init__(self, path):
        self.file = open(path, "ab")
        self.totals = defaultdict(lambda: defaultdict(int))

    def append(self, rows):
        """Appends rows of (game, class, id, hash, outcome)."""
        for game, key_class, event_id, content, outcome in rows:
            self.totals[game][outcome] += 1
            self.file.write(f"{game} {key_class} {event_id} {content} {outcome}\n".encode())

    def sync(self):
        """Returns when every appended row would survive a power cut."""
        self.file.flush()
        os.fsync(self.file.fileno())

    def count(self, game, outcome):
        """Returns the number of rows of a game with this outcome, whatever the reason."""
        return sum(count for recorded, count in self.totals[game].items() if recorded.split(":")[0] == outcome)


class LedgerEntry:
    """All rows of one key: (game, class, id)."""

    __slots__ = ("acked", "duplicate", "unanswered", "rejected")

    def __init__(self):
        self.acked, self.unanswered, self.duplicate, self.rejected = [], [], 0, 0


def read(path):
    """Reads a ledger file; returns the entries by key, and the counts of outcomes by game."""
    entries, totals = defaultdict(LedgerEntry), defaultdict(lambda: defaultdict(int))
    with open(path, encoding="ascii") as file:
        for line in file:
            game, key_class, event_id, content, outcome = line.split()
            entry = entries[int(game), int(key_class), event_id]
            totals[int(game)][outcome] += 1
            if outcome == ACKED:
                entry.acked.append(content)
            elif outcome == UNKNOWN:
                entry.unanswered.append(content)
            elif outcome == DUPLICATE:
                entry.duplicate += 1
            else:
                entry.rejected += 1
    return entries, totals
