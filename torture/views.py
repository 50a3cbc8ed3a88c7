"""Recounts every number of the views with simple, exact code and compares it with the results of `/v1/query`."""

import math
from collections import defaultdict

from events import NAMES, rfc3339
from segments import DIMENSIONS

SESSION_TIMEOUT_S = 1800
EXACT_PLAYERS = 1000
PLAYERS_ERROR, QUANTILE_ERROR = 0.03, 0.01
OTHER = "(other)"
TOP = 100
ALL_MEASURES = ("count", "sum", "min", "max", "avg", "uniques", "p50", "p90", "p99")
# The stored metric of each built-in metric, and its measures.
BUILT_IN = {
    "events": ("$events", ("count", "uniques")),
    "sessions": ("$session", ("count", "uniques")),
    "views": ("$view", ("count", "uniques")),
    "plays": ("$play", ("count", "uniques")),
    "play_time_s": ("$play_time", ("sum", "count", "max", "p50")),
}


class Aggregate:
    """Events of one row and time range: their count, values and distinct players."""

    __slots__ = ("count", "values", "players")

    def __init__(self):
        self.count, self.values, self.players = 0, [], set()

    def add(self, player, value):
        self.count += 1
        if player is not None:
            self.players.add(player)
        if value is not None:
            self.values.append(value)

    def merge(self, other):
        self.count += other.count
        self.values += other.values
        self.players |= other.players

    def measure(self, name):
        """Returns the exact number; None if there are no values."""
        if name == "count":
            return self.count
        if name == "uniques":
            return len(self.players)
        if name == "sum":
            # fsum rounds once, at the end.
            return math.fsum(self.values)
        if not self.values:
            return None
        if name == "avg":
            return math.fsum(self.values) / len(self.values)
        if name in ("min", "max"):
            return (min if name == "min" else max)(self.values)
        percent = int(name[1:])
        rank = -(-len(self.values) * percent // 100)
        return sorted(self.values)[max(rank, 1) - 1]


def matches(measure, expected, actual):
    """Compares exactly, except for 1,000 distinct players or more and for quantiles."""
    if expected is None or actual is None:
        return expected is actual
    if measure == "uniques" and expected >= EXACT_PLAYERS:
        return abs(actual - expected) <= PLAYERS_ERROR * expected
    if measure.startswith("p"):
        return abs(actual - expected) <= QUANTILE_ERROR * abs(expected) + 1e-12
    return actual == expected


class Sessions:
    """Open sessions: a session begins with a start event or after half an hour of inactivity."""

    def __init__(self):
        self.newest_s, self.seen = 0, {}

    def observe(self, player, name, at_s):
        """Returns whether a session began with this event, and the seconds of play that it adds."""
        self.newest_s = max(self.newest_s, at_s)
        last = self._last_seen(player)
        started, ended = name == "$session_start", name == "$session_end"
        if last is None:
            if at_s + SESSION_TIMEOUT_S < self.newest_s:
                return started, 0
            self.seen[player] = [at_s, not ended, started]
            return not ended, 0
        last_s, is_open, explicit = last
        if at_s + SESSION_TIMEOUT_S < last_s:
            return started, 0
        idle_s = max(at_s - last_s, 0)
        continues = is_open and idle_s < SESSION_TIMEOUT_S and not (started and explicit)
        began = not continues and not ended
        if started or began:
            explicit = started
        self.seen[player] = [max(at_s, last_s), not ended, explicit]
        return began, idle_s if continues else 0

    def _last_seen(self, player):
        """Returns a player's state. It expires half an hour after the end of the minute of the player's last event."""
        last = self.seen.get(player)
        if last is not None and last[0] // 60 * 60 + 60 + SESSION_TIMEOUT_S <= self.newest_s:
            del self.seen[player]
            return None
        return last


class ExpectedViews:
    """All rows of one game: by metric, dimension, value and minute."""

    def __init__(self):
        self.sessions = Sessions()
        self.rows = defaultdict(lambda: defaultdict(lambda: defaultdict(lambda: defaultdict(Aggregate))))

    def add(self, batch, event):
        """Counts one stored event. The order of the log matters only for sessions."""
        player = event.player if event.player and not event.bot else None
        self._count("$events", event, player, None)
        self._count(event.name, event, player, event.value)
        if player is None:
            return
        at_s = min(event.ts_ms, batch.received_ms) // 1000
        began, play_s = self.sessions.observe(player, event.name, at_s)
        if began:
            self._count("$session", event, player, None)
        if play_s:
            self._count("$play_time", event, player, float(play_s))

    def _count(self, metric, event, player, value):
        minute, rows = event.ts_ms // 60_000, self.rows[metric]
        rows[""][()][minute].add(player, value)
        for name, text in zip(DIMENSIONS, event.dimensions):
            rows[name][text,][minute].add(player, value)

    def windows(self):
        """Returns the ranges of consecutive hours with events, in minutes."""
        hours = sorted({minute // 60 for minute in self.rows["$events"][""][()]})
        windows = []
        for hour in hours:
            if windows and windows[-1][1] == hour * 60:
                windows[-1] = (windows[-1][0], hour * 60 + 60)
            else:
                windows.append((hour * 60, hour * 60 + 60))
        return windows

    def table(self, metric, by, window, width):
        """Returns the aggregates by key: one for each bucket, then one for the whole window."""
        first, last = window
        table = {}
        for key, minutes in self.rows[metric][by].items():
            aggregates = [Aggregate() for _ in range((last - first) // width + 1)]
            for minute, aggregate in minutes.items():
                if first <= minute < last:
                    aggregates[(minute - first) // width].merge(aggregate)
                    aggregates[-1].merge(aggregate)
            if aggregates[-1].count:
                table[key] = aggregates
        return table

    def by_event(self, window, width):
        """Returns the table of all events by name."""
        tables = {name: self.table(name, "", window, width) for name in NAMES}
        return {(name,): table[()] for name, table in tables.items() if table}

    def online(self, window):
        """Returns the players of each minute and the two before it, followed by the maximum of these."""
        minutes = self.rows["$events"][""][()]
        seen = lambda minute: minutes[minute].players if minute in minutes else set()
        counts = [len(seen(minute) | seen(minute - 1) | seen(minute - 2)) for minute in range(*window)]
        return counts + [max(counts)]


class QueryChecker:
    """Queries a running server and collects the differences."""

    def __init__(self, client, expected_views, log_end):
        self.client, self.expected_views, self.log_end = client, expected_views, log_end
        self.queries = self.compared = 0
        self.problems = []

    def check_all(self):
        """Checks every metric by every dimension, by minute and hour, in all windows with events."""
        for window in self.expected_views.windows():
            for width, step in ((1, "minute"), (60, "hour")):
                self._compare_window(window, width, step)

    def _compare_window(self, window, width, step):
        metrics = {name: (name, ALL_MEASURES) for name in NAMES} | BUILT_IN
        for metric, (stored, measures) in metrics.items():
            for by in ("",) + DIMENSIONS:
                table = self.expected_views.table(stored, by, window, width)
                self._compare_breakdown(metric, measures, by, window, step, table, TOP)
                if by == "level" and metric in ("score", "plays"):
                    self._compare_breakdown(metric, measures, by, window, step, table, 3)
        by_event = self.expected_views.by_event(window, width)
        self._compare_breakdown("events", ("count", "uniques"), "event", window, step, by_event, TOP)
        self._compare_players(window, width, step)

    def _compare_players(self, window, width, step):
        table = self.expected_views.table("$events", "", window, width)
        if not table:
            return
        body = self._body([{"metric": "players"}], window, step)
        self._series("players", ["uniques"], self._query(body), [table[()]])
        if step == "minute":
            actual = self._query(self._body([{"metric": "online"}], window, step))
            values = actual["series"][0]["values"] + [actual["series"][0]["total"]]
            for index, (expected, value) in enumerate(zip(self.expected_views.online(window), values)):
                self._compare_value("uniques", expected, value, lambda: f"online in bucket {index} of {window}")

    def _compare_breakdown(self, metric, measures, by, window, step, table, top):
        queries = [{"as": measure, "metric": metric, "measure": measure} for measure in measures]
        body = self._body(queries, window, step, by, top)
        response = self._query(body)
        keys = sorted(table, key=lambda key: (-table[key][-1].measure(measures[0]), [part.encode() for part in key]))
        expected_rows = [table[key] for key in keys[:top]]
        expected_keys = keys[:top]
        if len(keys) > top:
            expected_keys.append((OTHER,))
            expected_rows.append(_merged([table[key] for key in keys[top:]]))
        if not by and not expected_rows:
            expected_keys, expected_rows = [()], [[Aggregate() for _ in range(len(response["times"]) + 1)]]
        actual = [(series.get("name"), tuple(series["key"].values())) for series in response["series"]]
        expected = [(measure, key) for measure in measures for key in expected_keys]
        if actual != expected:
            self.problems.append(f"{body}: series {actual[:9]} instead of {expected[:9]}")
            return
        self._series(body, measures, response, expected_rows)

    def _series(self, what, measures, response, expected_rows):
        """Compares the series: ordered by measure, then in the order of the expected rows."""
        series = iter(response["series"])
        for measure in measures:
            for aggregates in expected_rows:
                series_row = next(series)
                values = series_row["values"] + [series_row["total"]]
                if len(values) != len(aggregates):
                    self.problems.append(f"{what}: {len(values)} values instead of {len(aggregates)}")
                    return
                for index, (aggregate, value) in enumerate(zip(aggregates, values)):
                    where = lambda: f"{what} {series_row['key']} {measure} bucket {index} of {len(aggregates) - 1}"
                    self._compare_value(measure, aggregate.measure(measure), value, where)

    def _compare_value(self, measure, expected, actual, where):
        self.compared += 1
        if not matches(measure, expected, actual):
            self.problems.append(f"{where()}: {actual}, recounted {expected}")

    def _body(self, metrics, window, step, by="", top=None):
        from_time, to_time = (rfc3339(minute * 60_000) for minute in window)
        body = {"metrics": metrics, "from": from_time, "to": to_time, "step": step, "tz": "UTC"}
        return body | ({"by": [by], "top": top} if by else {})

    def _query(self, body):
        self.queries += 1
        response = self.client.post("/v1/query", body)
        position = int(response["as_of"]["position"].split("/")[1])
        if position < self.log_end:
            self.problems.append(f"{body}: as of {position}, but {self.log_end} was acknowledged")
        return response


def _merged(expected_rows):
    merged = [Aggregate() for _ in expected_rows[0]]
    for aggregates in expected_rows:
        for aggregate, other in zip(merged, aggregates):
            aggregate.merge(other)
    return merged
