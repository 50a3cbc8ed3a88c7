"""Invented players and what they send: events good, repeated, late and broken, each with what has to come of it."""

import json
import threading
import uuid
from datetime import datetime, timedelta, timezone

import ledger

PUBLIC, SECRET = 0, 1
DAY_MS = 86_400_000
TAKEN, REPEATED, EITHER = "accepted", "duplicate", "either"

NAMES = ["score", "jump", "coin", "boss.defeated", "shop öffnen", "レベル", "x" * 200]
NAMES += ["$view", "$play", "$session_start", "$ping", "$session_end"]
WEIGHTS = [30, 12, 10, 3, 3, 2, 1, 6, 6, 5, 12, 4]
COUNTRIES = ["FR", "DE", "BR", "JP", "US", "IN", "SE", None, None]
SOURCES = ["newsgrounds", "direct", "search engine", "フォーラム", None, None]
PLATFORMS = ["web", "ios", "android", None, None]
VERSIONS = ["1.0.0", "1.0.1", "2.0.0-beta+7", 3, None]
WORTHLESS = ["null", "undefined", "anonymous", "0", "[object Object]", str(uuid.UUID(int=0))]
# Far enough apart that few windows of a query cover them all.
LATE_BY_MS = [10 * 60_000, 3 * 3_600_000, 26 * 3_600_000, 20 * DAY_MS]
TOO_LATE_MS = 31 * DAY_MS
FUTURE_MS = DAY_MS + 3_600_000
KEPT_MAX = 4_000

# A broken event and the reason that the answer has to give.
BROKEN = [
    ({"event": "score", "colour": "red"}, "unknown_field"),
    ({"value": 1}, "event_name_missing"),
    ({"event": 7}, "event_name_not_a_string"),
    ({"event": ""}, "event_name_empty"),
    ({"event": "y" * 201}, "event_name_too_long"),
    ({"event": "$unheard_of"}, "event_name_reserved"),
    ({"event": "score", "id": "not-a-uuid"}, "id_not_a_uuid"),
    ({"event": "score", "ts": "yesterday"}, "ts_invalid"),
    ({"event": "score", "player": {"name": "ann"}}, "player_not_a_string"),
    ({"event": "score", "player": "p" * 129}, "player_too_long"),
    ({"event": "score", "value": "ten"}, "value_not_a_number"),
    ({"event": "score", "country": "France"}, "country_invalid"),
    ({"event": "score", "level": "l" * 129}, "dimension_too_long"),
    ({"event": "score", "props": [1]}, "props_not_an_object"),
    ({"event": "score", "props": {"a": {"b": {"c": {"d": 1}}}}}, "props_too_deep"),
]


class Event:
    """An event as it is sent: its text, what that says, and what has to become of it.

    `content` is None for what can never be stored. `ts_ms` is None if the event does not say when it happened.
    `overtaken`: another connection repeats it, and may be the first to arrive.
    """

    __slots__ = ("ident", "text", "content", "ts_ms", "fate", "overtaken")

    def __init__(self, ident, text, content, ts_ms, fate):
        self.ident, self.text, self.content, self.ts_ms, self.fate = ident, text, content, ts_ms, fate
        self.overtaken = False

    def again(self, fate):
        """The same bytes with another expectation."""
        return Event(self.ident, self.text, self.content, self.ts_ms, fate)

    def may_be_stored_twice(self):
        """Without an id nobody can tell a repeat."""
        return self.content is not None and self.ident.startswith("-")


class Known:
    """Events that were sent before, shared by all connections: what a repeat can repeat."""

    def __init__(self):
        self.lock = threading.Lock()
        self.offered = {}
        self.acked = {}

    def offer(self, key, events):
        """These are about to be sent."""
        self._keep(self.offered, key, events)

    def ack(self, key, events):
        """These were accepted."""
        self._keep(self.acked, key, events)

    def one_acked(self, key, rng):
        return self._one(self.acked, key, rng)

    def one_offered(self, key, rng):
        event = self._one(self.offered, key, rng)
        if event is not None:
            event.overtaken = True
        return event

    def _keep(self, kept, key, events):
        with self.lock:
            events_of_key = kept.setdefault(key, [])
            events_of_key.extend(event for event in events if not event.ident.startswith("-"))
            del events_of_key[:-KEPT_MAX]

    def _one(self, kept, key, rng):
        with self.lock:
            return rng.choice(kept[key]) if kept.get(key) else None


class Maker:
    """Makes the events of one connection. `name` is unique among all connections of a run."""

    def __init__(self, rng, known, name, fresh_players):
        self.rng, self.known, self.name = rng, known, name
        self.fresh_players = fresh_players
        self.made = 0

    def event(self, key, door, now_ms):
        """One event for this (game, class)."""
        dice = self.rng.random()
        if dice < 0.10:
            repeated = self._repeat(key, now_ms)
            if repeated is not None:
                return repeated
        if 0.10 <= dice < 0.15:
            return self._broken()
        if 0.15 <= dice < 0.16:
            return self._good(now_ms - TOO_LATE_MS, fate=TAKEN if door.imports else "late:too_old")
        return self._good(self._time(now_ms))

    def _good(self, ts_ms, ident=None, fate=TAKEN):
        content = self._content()
        if ident is None and self.rng.random() < 0.05:
            ident = self._serial()
            content["props"] = {"serial": ident}
        ident = ident or self._uuid()
        sent = {name: value for name, value in content.items() if value is not None}
        if not ident.startswith("-"):
            self._with_id(sent, ident)
        if ts_ms is not None:
            sent["ts"] = rfc3339(ts_ms, self.rng) if self.rng.random() < 0.3 else ts_ms
        return Event(ident, self._text(sent), content, ts_ms, fate)

    def _repeat(self, key, now_ms):
        """An id that was sent before: with the same content, or with another if it is known to be stored."""
        if self.rng.random() < 0.5:
            earlier = self.known.one_offered(key, self.rng)
            return earlier and earlier.again(EITHER)
        earlier = self.known.one_acked(key, self.rng)
        if earlier is not None and self.rng.random() < 0.3:
            return self._good(self._time(now_ms), earlier.ident, REPEATED)
        return earlier and earlier.again(REPEATED)

    def _broken(self):
        sent, reason = self.rng.choice(BROKEN)
        sent = dict(sent)
        if "id" not in sent:
            self._with_id(sent, self._uuid())
        ident = sent["id"].lower() if "id_not" not in reason else self._serial()
        return Event(ident, self._text(sent), None, None, f"invalid:{reason}")

    def _content(self):
        rng = self.rng
        name = rng.choices(NAMES, WEIGHTS)[0]
        props = None
        if rng.random() < 0.3:
            props = {"weapon": rng.choice(["sword", "bow \"of\" \\ fire", "弓"]), "tries": rng.randrange(9)}
        if rng.random() < 0.02:
            props = {f"blob{index}": rng.choice("abc") * 1000 for index in range(rng.randrange(1, 20))}
        player = self._player()
        return {
            "event": name,
            "player": player,
            "session": f"s{rng.randrange(50)}" if rng.random() < 0.3 else None,
            "value": self._value() if rng.random() < 0.7 else None,
            "country": rng.choice(COUNTRIES),
            "source": rng.choice(SOURCES),
            "platform": rng.choice(PLATFORMS),
            "version": rng.choice(VERSIONS),
            "level": rng.randrange(60) if rng.random() < 0.6 else None,
            "props": props,
        }

    def _player(self):
        rng, dice = self.rng, self.rng.random()
        if dice < 0.10:
            return None
        if dice < 0.12:
            return rng.choice(WORTHLESS)
        if dice < 0.20:
            return rng.randrange(1, 200)
        if dice < 0.20 + self.fresh_players:
            return f"new-{self.name}-{self.made}"
        return f"player {rng.randrange(400)}"

    def _value(self):
        rng = self.rng
        return rng.choice([
            lambda: rng.randrange(100),
            lambda: -rng.randrange(10**6),
            lambda: rng.randrange(10**6) / 100,
            lambda: rng.lognormvariate(3, 2),
            lambda: rng.choice([0, -0.0, 1e15, 2**53 + 2, 1e-9, 0.1, 1e17, -1e17]),
        ])()

    def _time(self, now_ms):
        """When an event happened: mostly now, sometimes long ago, seldom in a future that nobody believes."""
        dice = self.rng.random()
        if dice < 0.40:
            return None
        if dice < 0.43:
            return now_ms - self.rng.choice(LATE_BY_MS)
        return now_ms + FUTURE_MS if dice < 0.44 else now_ms - self.rng.randrange(3_000)

    def _with_id(self, sent, ident):
        sent["id"] = ident.upper() if self.rng.random() < 0.1 else ident
        return ident

    def _uuid(self):
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def _serial(self):
        """Names an event that has no id; it stands in its properties instead."""
        self.made += 1
        return f"-{self.name}-{self.made}"

    def _text(self, sent):
        items = list(sent.items())
        self.rng.shuffle(items)
        return json.dumps(dict(items), ensure_ascii=self.rng.random() < 0.5)


class Door:
    """What the server knows of a request besides its events."""

    __slots__ = ("agent", "platform", "bot", "imports", "now_ms", "sent_at_ms")

    def __init__(self, agent, platform, bot, imports, now_ms, sent_at_ms=None):
        self.agent, self.platform, self.bot, self.imports = agent, platform, bot, imports
        self.now_ms, self.sent_at_ms = now_ms, sent_at_ms

    def content_hash(self, event):
        """The hash of what is stored of the event if it comes through here; `-` if nothing is."""
        if event.content is None:
            return "-"
        return ledger.content_hash(self._fields(event.content), self._time(event.ts_ms))

    def _fields(self, content):
        def text(value):
            return "" if value is None or value in WORTHLESS else str(value)

        dimensions = [text(content[name]) for name in ("country", "source", "platform", "version", "level")]
        dimensions[2] = dimensions[2] or self.platform
        player, session = text(content["player"]), text(content["session"])
        return ledger.fields_of(
            content["event"], player, session, content["value"], dimensions, content["props"], self.bot
        )

    def _time(self, ts_ms):
        if ts_ms is None:
            return ledger.RECEIPT
        if ts_ms > self.now_ms + DAY_MS:
            return ledger.REPLACED
        return ledger.at(ts_ms) if self.sent_at_ms is None else ledger.skewed(self.sent_at_ms - ts_ms)


def rfc3339(ts_ms, rng=None):
    """The time as text, in some zone."""
    hours = rng.choice([0, 2, -7]) if rng else 0
    zone = timezone(timedelta(hours=hours))
    time = datetime.fromtimestamp(ts_ms // 1000, timezone.utc).astimezone(zone)
    offset = f"{hours:+03d}:00" if hours else "Z"
    return f"{time:%Y-%m-%dT%H:%M:%S}.{ts_ms % 1000:03d}{offset}"
