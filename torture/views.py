"""Every number of the views counted again, slowly and by the book, and held against the answers of `/v1/query`."""

import math
from collections import defaultdict

from events import NAMES, rfc3339
from segments import DIMENSIONS

SILENCE_S = 1800
EXACT_PLAYERS = 1000
PLAYERS_ERROR, QUANTILE_ERROR = 0.03, 0.01
OTHER = "(other)"
TOP = 100
ALL_MEASURES = ("count", "sum", "min", "max", "avg", "uniques", "p50", "p90", "p99")
# What each metric of a query stands for: the rows counted here, and what can be asked of them.
BUILT_IN = {
    "events": ("$events", ("count", "uniques")),
    "sessions": ("$session", ("count", "uniques")),
    "views": ("$view", ("count", "uniques")),
    "plays": ("$play", ("count", "uniques")),
    "play_time_s": ("$play_time", ("sum", "count", "max", "p50")),
}


class Cell:
    """What happened in one place: how often, to whom, and the values."""

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
        """The number, exactly; None if there is nothing to tell of."""
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


def agrees(measure, expected, got):
    """Exact, but for distinct players from 1,000 on and for quantiles."""
    if expected is None or got is None:
        return expected is got
    if measure == "uniques" and expected >= EXACT_PLAYERS:
        return abs(got - expected) <= PLAYERS_ERROR * expected
    if measure.startswith("p"):
        return abs(got - expected) <= QUANTILE_ERROR * abs(expected) + 1e-12
    return got == expected


class Sessions:
    """Who plays, by the rules: a session begins with a start or after half an hour of silence."""

    def __init__(self):
        self.newest_s, self.seen = 0, {}

    def observe(self, player, name, at_s):
        """Whether a session began with this event, and how many seconds of play became known."""
        self.newest_s = max(self.newest_s, at_s)
        last = self._remembered(player)
        started, ended = name == "$session_start", name == "$session_end"
        if last is None:
            if at_s + SILENCE_S < self.newest_s:
                return started, 0
            self.seen[player] = [at_s, not ended, started]
            return not ended, 0
        last_s, is_open, explicit = last
        if at_s + SILENCE_S < last_s:
            return started, 0
        silent_s = max(at_s - last_s, 0)
        goes_on = is_open and silent_s < SILENCE_S and not (started and explicit)
        began = not goes_on and not ended
        if started or began:
            explicit = started
        self.seen[player] = [max(at_s, last_s), not ended, explicit]
        return began, silent_s if goes_on else 0

    def _remembered(self, player):
        """A player is forgotten half an hour after the end of the minute of the last event."""
        last = self.seen.get(player)
        if last is not None and last[0] // 60 * 60 + 60 + SILENCE_S <= self.newest_s:
            del self.seen[player]
            return None
        return last


class Recount:
    """All rows of one game: by metric, dimension, value and minute."""

    def __init__(self):
        self.sessions = Sessions()
        self.rows = defaultdict(lambda: defaultdict(lambda: defaultdict(lambda: defaultdict(Cell))))

    def add(self, batch, event):
        """Counts one stored event. The log's order matters to sessions alone."""
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
        """Stretches of whole hours with events, in minutes."""
        hours = sorted({minute // 60 for minute in self.rows["$events"][""][()]})
        windows = []
        for hour in hours:
            if windows and windows[-1][1] == hour * 60:
                windows[-1] = (windows[-1][0], hour * 60 + 60)
            else:
                windows.append((hour * 60, hour * 60 + 60))
        return windows

    def table(self, metric, by, window, width):
        """Cells by key: those of the buckets, then the whole."""
        first, last = window
        table = {}
        for key, minutes in self.rows[metric][by].items():
            cells = [Cell() for _ in range((last - first) // width + 1)]
            for minute, cell in minutes.items():
                if first <= minute < last:
                    cells[(minute - first) // width].merge(cell)
                    cells[-1].merge(cell)
            if cells[-1].count:
                table[key] = cells
        return table

    def by_event(self, window, width):
        """The table of all events by their names."""
        tables = {name: self.table(name, "", window, width) for name in NAMES}
        return {(name,): table[()] for name, table in tables.items() if table}

    def online(self, window):
        """Players of each minute and the two before it, then the highest of these."""
        minutes = self.rows["$events"][""][()]
        seen = lambda minute: minutes[minute].players if minute in minutes else set()
        counts = [len(seen(minute) | seen(minute - 1) | seen(minute - 2)) for minute in range(*window)]
        return counts + [max(counts)]


class Questions:
    """Asks a running server and remembers what differs."""

    def __init__(self, client, recount, log_end):
        self.client, self.recount, self.log_end = client, recount, log_end
        self.asked = self.compared = 0
        self.wrong = []

    def ask_everything(self):
        """Every metric by every dimension, by minute and hour, wherever there were events."""
        for window in self.recount.windows():
            for width, step in ((1, "minute"), (60, "hour")):
                self._window(window, width, step)

    def _window(self, window, width, step):
        metrics = {name: (name, ALL_MEASURES) for name in NAMES} | BUILT_IN
        for metric, (stored, measures) in metrics.items():
            for by in ("",) + DIMENSIONS:
                table = self.recount.table(stored, by, window, width)
                self._compare(metric, measures, by, window, step, table, TOP)
                if by == "level" and metric in ("score", "plays"):
                    self._compare(metric, measures, by, window, step, table, 3)
        self._compare("events", ("count", "uniques"), "event", window, step, self.recount.by_event(window, width), TOP)
        self._players(window, width, step)

    def _players(self, window, width, step):
        table = self.recount.table("$events", "", window, width)
        if not table:
            return
        body = self._body([{"metric": "players"}], window, step)
        self._series("players", ["uniques"], self._ask(body), [table[()]])
        if step == "minute":
            got = self._ask(self._body([{"metric": "online"}], window, step))
            values = got["series"][0]["values"] + [got["series"][0]["total"]]
            for index, (expected, value) in enumerate(zip(self.recount.online(window), values)):
                self._equal("uniques", expected, value, lambda: f"online in bucket {index} of {window}")

    def _compare(self, metric, measures, by, window, step, table, top):
        asked = [{"as": measure, "metric": metric, "measure": measure} for measure in measures]
        body = self._body(asked, window, step, by, top)
        answer = self._ask(body)
        keys = sorted(table, key=lambda key: (-table[key][-1].measure(measures[0]), [part.encode() for part in key]))
        lines = [table[key] for key in keys[:top]]
        shown = keys[:top]
        if len(keys) > top:
            shown.append((OTHER,))
            lines.append(_merged([table[key] for key in keys[top:]]))
        if not by and not lines:
            shown, lines = [()], [[Cell() for _ in range(len(answer["times"]) + 1)]]
        got = [(series.get("name"), tuple(series["key"].values())) for series in answer["series"]]
        expected = [(measure, key) for measure in measures for key in shown]
        if got != expected:
            self.wrong.append(f"{body}: series {got[:9]} instead of {expected[:9]}")
            return
        self._series(body, measures, answer, lines)

    def _series(self, what, measures, answer, lines):
        """The answer's series are those of the first measure, then of the second, each in the order of the lines."""
        series = iter(answer["series"])
        for measure in measures:
            for cells in lines:
                line = next(series)
                values = line["values"] + [line["total"]]
                if len(values) != len(cells):
                    self.wrong.append(f"{what}: {len(values)} values instead of {len(cells)}")
                    return
                for index, (cell, value) in enumerate(zip(cells, values)):
                    where = lambda: f"{what} {line['key']} {measure} bucket {index} of {len(cells) - 1}"
                    self._equal(measure, cell.measure(measure), value, where)

    def _equal(self, measure, expected, got, where):
        self.compared += 1
        if not agrees(measure, expected, got):
            self.wrong.append(f"{where()}: {got}, recounted {expected}")

    def _body(self, metrics, window, step, by="", top=None):
        from_time, to_time = (rfc3339(minute * 60_000) for minute in window)
        body = {"metrics": metrics, "from": from_time, "to": to_time, "step": step, "tz": "UTC"}
        return body | ({"by": [by], "top": top} if by else {})

    def _ask(self, body):
        self.asked += 1
        answer = self.client.post("/v1/query", body)
        position = int(answer["as_of"]["position"].split("/")[1])
        if position < self.log_end:
            self.wrong.append(f"{body}: as of {position}, but {self.log_end} was acknowledged")
        return answer


def _merged(lines):
    merged = [Cell() for _ in lines[0]]
    for cells in lines:
        for cell, other in zip(merged, cells):
            cell.merge(other)
    return merged
