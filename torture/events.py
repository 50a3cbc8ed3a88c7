"""Generates simulated players' events: valid, repeated, late and invalid, each with its expected outcome."""

import json
import threading
import uuid
from datetime import datetime, timedelta, timezone

import ledger

PUBLIC, SECRET = 0, 1
DAY_MS = 86_400_000
ACCEPTED, DUPLICATE, EITHER = "accepted", "duplicate", "either"

NAMES = ["score", "jump", "coin", "boss.defeated", "shop öffnen", "レベル", "x" * 200]
NAMES += ["$view", "$play", "$session_start", "$ping", "$session_end"]
WEIGHTS = [30, 12, 10, 3, 3, 2, 1, 6, 6, 5, 12, 4]
COUNTRIES = ["FR", "DE", "BR", "JP", "US", "IN", "SE", None, None]
SOURCES = ["newsgrounds", "direct", "search engine", "フォーラム", None, None]
PLATFORMS = ["web", "ios", "android", None, None]
VERSIONS = ["1.0.0", "1.0.1", "2.0.0-beta+7", 3, None]
PLACEHOLDER_IDS = ["null", "undefined", "anonymous", "0", "[object Object]", str(uuid.UUID(int=0))]
# Far enough apart that few query windows cover them all.
LATE_BY_MS = [10 * 60_000, 3 * 3_600_000, 26 * 3_600_000, 20 * DAY_MS]
TOO_LATE_MS = 31 * DAY_MS
FUTURE_MS = DAY_MS + 3_600_000
POOL_EVENTS_MAX = 4_000

# Invalid events, each with the reason that the response must give.
INVALID_EVENTS = [
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
    """An event to send: its JSON text, its content, and its expected outcome.

    `content` is None if the event can never be stored. `ts_ms` is None if the event has no timestamp.
    `is_raced`: another connection repeats the event, and its copy may arrive first.
    """

    __slots__ = ("event_id", "text", "content", "ts_ms", "expected", "is_raced")

    def __init__(self, event_id, text, content, ts_ms, expected):
        self.event_id, self.text, self.content, self.ts_ms, self.expected = event_id, text, content, ts_ms, expected
        self.is_raced = False

    def with_expected(self, expected):
        """Returns a copy with the same bytes and another expected outcome."""
        return Event(self.event_id, self.text, self.content, self.ts_ms, expected)

    def may_be_duplicated(self):
        """Returns true if a retry could store the event twice, because it has no id."""
        return self.content is not None and self.event_id.startswith("-")


class SentEvents:
    """Events that were sent before, shared by all connections. Repeats are picked from them."""

    def __init__(self):
        self.lock = threading.Lock()
        self.sent = {}
        self.accepted = {}

    def add_sent(self, key, events):
        """Adds events that are about to be sent."""
        self._add(self.sent, key, events)

    def add_accepted(self, key, events):
        """Adds events that were accepted."""
        self._add(self.accepted, key, events)

    def pick_accepted(self, key, rng):
        return self._pick(self.accepted, key, rng)

    def pick_sent(self, key, rng):
        event = self._pick(self.sent, key, rng)
        if event is not None:
            event.is_raced = True
        return event

    def _add(self, pool, key, events):
        with self.lock:
            pool_of_key = pool.setdefault(key, [])
            pool_of_key.extend(event for event in events if not event.event_id.startswith("-"))
            del pool_of_key[:-POOL_EVENTS_MAX]

    def _pick(self, pool, key, rng):
        with self.lock:
            return rng.choice(pool[key]) if pool.get(key) else None


class EventGenerator:
    """Generates the events of one connection. `name` is unique among all connections of a run."""

    def __init__(self, rng, sent_events, name, fresh_players):
        self.rng, self.sent_events, self.name = rng, sent_events, name
        self.fresh_players = fresh_players
        self.events_without_id = 0

    def event(self, key, context, now_ms):
        """Returns one event for the key (game, class)."""
        roll = self.rng.random()
        if roll < 0.10:
            repeated = self._repeat_event(key, now_ms)
            if repeated is not None:
                return repeated
        if 0.10 <= roll < 0.15:
            return self._invalid_event()
        if 0.15 <= roll < 0.16:
            return self._valid_event(now_ms - TOO_LATE_MS, expected=ACCEPTED if context.imports else "late:too_old")
        return self._valid_event(self._time(now_ms))

    def _valid_event(self, ts_ms, event_id=None, expected=ACCEPTED):
        content = self._random_content()
        if event_id is None and self.rng.random() < 0.05:
            event_id = self._serial()
            content["props"] = {"serial": event_id}
        event_id = event_id or self._uuid()
        sent = {name: value for name, value in content.items() if value is not None}
        if not event_id.startswith("-"):
            self._set_id(sent, event_id)
        if ts_ms is not None:
            sent["ts"] = rfc3339(ts_ms, self.rng) if self.rng.random() < 0.3 else ts_ms
        return Event(event_id, self._text(sent), content, ts_ms, expected)

    def _repeat_event(self, key, now_ms):
        """Returns an event with an id sent before; with different content only if the id is known to be stored."""
        if self.rng.random() < 0.5:
            earlier = self.sent_events.pick_sent(key, self.rng)
            return earlier and earlier.with_expected(EITHER)
        earlier = self.sent_events.pick_accepted(key, self.rng)
        if earlier is not None and self.rng.random() < 0.3:
            return self._valid_event(self._time(now_ms), earlier.event_id, DUPLICATE)
        return earlier and earlier.with_expected(DUPLICATE)

    def _invalid_event(self):
        sent, reason = self.rng.choice(INVALID_EVENTS)
        sent = dict(sent)
        if "id" not in sent:
            self._set_id(sent, self._uuid())
        event_id = sent["id"].lower() if "id_not" not in reason else self._serial()
        return Event(event_id, self._text(sent), None, None, f"invalid:{reason}")

    def _random_content(self):
        rng = self.rng
        name = rng.choices(NAMES, WEIGHTS)[0]
        props = None
        if rng.random() < 0.3:
            props = {"weapon": rng.choice(["sword", "bow \"of\" \\ fire", "弓"]), "tries": rng.randrange(9)}
        if rng.random() < 0.02:
            props = {f"blob{index}": rng.choice("abc") * 1000 for index in range(rng.randrange(1, 20))}
        player = self._random_player()
        return {
            "event": name,
            "player": player,
            "session": f"s{rng.randrange(50)}" if rng.random() < 0.3 else None,
            "value": self._random_value() if rng.random() < 0.7 else None,
            "country": rng.choice(COUNTRIES),
            "source": rng.choice(SOURCES),
            "platform": rng.choice(PLATFORMS),
            "version": rng.choice(VERSIONS),
            "level": rng.randrange(60) if rng.random() < 0.6 else None,
            "props": props,
        }

    def _random_player(self):
        rng, roll = self.rng, self.rng.random()
        if roll < 0.10:
            return None
        if roll < 0.12:
            return rng.choice(PLACEHOLDER_IDS)
        if roll < 0.20:
            return rng.randrange(1, 200)
        if roll < 0.20 + self.fresh_players:
            return f"new-{self.name}-{self.events_without_id}"
        return f"player {rng.randrange(400)}"

    def _random_value(self):
        rng = self.rng
        return rng.choice([
            lambda: rng.randrange(100),
            lambda: -rng.randrange(10**6),
            lambda: rng.randrange(10**6) / 100,
            lambda: rng.lognormvariate(3, 2),
            lambda: rng.choice([0, -0.0, 1e15, 2**53 + 2, 1e-9, 0.1, 1e17, -1e17]),
        ])()

    def _time(self, now_ms):
        """Returns an event's timestamp: mostly now, sometimes long ago, rarely implausibly far in the future."""
        roll = self.rng.random()
        if roll < 0.40:
            return None
        if roll < 0.43:
            return now_ms - self.rng.choice(LATE_BY_MS)
        return now_ms + FUTURE_MS if roll < 0.44 else now_ms - self.rng.randrange(3_000)

    def _set_id(self, sent, event_id):
        sent["id"] = event_id.upper() if self.rng.random() < 0.1 else event_id
        return event_id

    def _uuid(self):
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def _serial(self):
        """Returns a serial number for an event without an id, which is stored in the event's properties."""
        self.events_without_id += 1
        return f"-{self.name}-{self.events_without_id}"

    def _text(self, sent):
        items = list(sent.items())
        self.rng.shuffle(items)
        return json.dumps(dict(items), ensure_ascii=self.rng.random() < 0.5)


class RequestContext:
    """The context that the server adds to the events of a request."""

    __slots__ = ("agent", "platform", "bot", "imports", "now_ms", "sent_at_ms")

    def __init__(self, agent, platform, bot, imports, now_ms, sent_at_ms=None):
        self.agent, self.platform, self.bot, self.imports = agent, platform, bot, imports
        self.now_ms, self.sent_at_ms = now_ms, sent_at_ms

    def content_hash(self, event):
        """Returns the hash of the content that the event leaves in the log; `-` if it is not stored."""
        if event.content is None:
            return "-"
        return ledger.content_hash(self._fields(event.content), self._time(event.ts_ms))

    def _fields(self, content):
        def text(value):
            return "" if value is None or value in PLACEHOLDER_IDS else str(value)

        dimensions = [text(content[name]) for name in ("country", "source", "platform", "version", "level")]
        dimensions[2] = dimensions[2] or self.platform
        player, session = text(content["player"]), text(content["session"])
        return ledger.content_fields(
            content["event"], player, session, content["value"], dimensions, content["props"], self.bot
        )

    def _time(self, ts_ms):
        if ts_ms is None:
            return ledger.RECEIPT
        if ts_ms > self.now_ms + DAY_MS:
            return ledger.REPLACED
        return ledger.exact_time(ts_ms) if self.sent_at_ms is None else ledger.skewed_time(self.sent_at_ms - ts_ms)


def rfc3339(ts_ms, rng=None):
    """Formats the time as RFC 3339, in a random time zone if `rng` is given."""
    hours = rng.choice([0, 2, -7]) if rng else 0
    zone = timezone(timedelta(hours=hours))
    time = datetime.fromtimestamp(ts_ms // 1000, timezone.utc).astimezone(zone)
    offset = f"{hours:+03d}:00" if hours else "Z"
    return f"{time:%Y-%m-%dT%H:%M:%S}.{ts_ms % 1000:03d}{offset}"
