"""What was sent and what became of it, in a file that is synced before the next crash.

One line an event and answer: `game class id hash outcome`. The hash is that of the content that the server is
expected to store. `acked` and `duplicate` are what the server answered; `invalid:REASON` and `late:REASON` were refused; `unknown`
had no answer, or one that asks to send again, and may or may not be stored.
"""

import hashlib
import json
import os
from collections import defaultdict

ACKED, DUPLICATE, UNKNOWN = "acked", "duplicate", "unknown"


def content_hash(fields, time):
    """`fields`: everything stored of an event but its id and time, in the order of `stored_fields`."""
    text = json.dumps([fields, time], ensure_ascii=True, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def fields_of(name, player, session, value, dimensions, props, bot):
    """What is hashed. `props` is the parsed object or None; a value is told exactly, and there is one zero only."""
    value = None if value is None else (float(value) + 0.0).hex()
    return [name, player, session, value, list(dimensions), props, bot]


def stored_fields(event):
    """The fields of an event read from the log."""
    props = json.loads(event.props) if event.props else None
    return fields_of(event.name, event.player, event.session, event.value, event.dimensions, props, event.bot)


def at(ts_ms):
    """The time of an event that said so itself."""
    return ["at", ts_ms]


def skewed(before_sending_ms):
    """The time of an event whose sender's clock was compared: so much before the receipt."""
    return ["skewed", before_sending_ms]


RECEIPT = ["receipt"]
REPLACED = ["replaced"]


def possible_times(event, received_ms):
    """Every way in which an event may have come to its stored time."""
    if event.time_replaced:
        return [REPLACED] if event.ts_ms == received_ms else []
    times = [at(event.ts_ms), skewed(received_ms - event.ts_ms)]
    return times + [RECEIPT] if event.ts_ms == received_ms else times


class Ledger:
    """The open file. Rows wait in memory until `sync`."""

    def __init__(self, path):
        self.file = open(path, "ab")
        self.totals = defaultdict(lambda: defaultdict(int))

    def note(self, rows):
        """Adds rows of (game, class, id, hash, outcome)."""
        for game, key_class, ident, content, outcome in rows:
            self.totals[game][outcome] += 1
            self.file.write(f"{game} {key_class} {ident} {content} {outcome}\n".encode())

    def sync(self):
        """Returns when every row noted would survive a power cut."""
        self.file.flush()
        os.fsync(self.file.fileno())

    def count(self, game, outcome):
        """Rows of a game whose outcome begins with this word."""
        return sum(count for word, count in self.totals[game].items() if word.split(":")[0] == outcome)


class Sent:
    """All rows of one key: (game, class, id)."""

    __slots__ = ("acked", "duplicate", "unknown", "refused")

    def __init__(self):
        self.acked, self.unknown, self.duplicate, self.refused = [], [], 0, 0


def read(path):
    """The ledger's file: what was sent by key, and the counts of outcomes by game."""
    sent, totals = defaultdict(Sent), defaultdict(lambda: defaultdict(int))
    with open(path, encoding="ascii") as file:
        for line in file:
            game, key_class, ident, content, outcome = line.split()
            entry = sent[int(game), int(key_class), ident]
            totals[int(game)][outcome] += 1
            if outcome == ACKED:
                entry.acked.append(content)
            elif outcome == UNKNOWN:
                entry.unknown.append(content)
            elif outcome == DUPLICATE:
                entry.duplicate += 1
            else:
                entry.refused += 1
    return sent, totals
