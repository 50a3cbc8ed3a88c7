"""Asks a server and DuckDB the same questions about the same events: answers.py [EVENTS] [--omit]

--omit withholds a hundred events from DuckDB, which shows that differences are found.
"""

import datetime
import json
import math
import pathlib
import sys
import time
import urllib.error
import urllib.request

import duckdb
import pyarrow

import world

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
from server import Server  # noqa: E402

DAY = world.DAY_MS
START, END = world.START_MS, world.START_MS + world.DAYS * DAY
PARIS, NEW_YORK = "Europe/Paris", "America/New_York"
#: Beyond 4,096 values, quantiles are within 1 %.
EXACT_VALUES, QUANTILE_ERROR = 4_096, 0.0101


class Comparison:
    """Both sides, and what did not agree."""

    def __init__(self, server, database):
        self.server, self.database = server, database
        self.asked, self.compared, self.differences = 0, 0, []

    def ask(self, kind, question):
        self.asked += 1
        return json.loads(self.server.request(f"/v1/{kind}", question))

    def wait(self):
        """Waits until the server has applied what it acknowledged: an import this fast is ahead of it."""
        deadline_s = time.monotonic() + 180
        while time.monotonic() < deadline_s:
            try:
                return self.ask("explore", {"last": "1d"})
            except urllib.error.HTTPError as error:
                if error.code != 503:
                    raise
            time.sleep(0.1)
        sys.exit("the server does not catch up with the import")

    def rows(self, sql, **parameters):
        return self.database.execute(sql, parameters or None).fetchall()

    def equal(self, name, ours, theirs):
        """Compares two dicts of numbers or tuples of numbers."""
        self.compared += len(theirs)
        if not theirs:
            self.differences.append(f"{name}: DuckDB has no rows: the comparison shows nothing")
        for key in sorted(set(ours) | set(theirs), key=str):
            if not is_equal(ours.get(key), theirs.get(key)):
                self.differences.append(f"{name}: {key}: {ours.get(key)}, DuckDB {theirs.get(key)}")
        print(f"{name}: {len(theirs)} values", flush=True)


class About(float):
    """A number that an estimate may miss by 1 %."""


def is_equal(ours, theirs):
    if isinstance(theirs, tuple):
        return ours is not None and len(ours) == len(theirs) and all(map(is_equal, ours, theirs))
    if isinstance(theirs, About):
        return ours is not None and math.isclose(ours, theirs, rel_tol=QUANTILE_ERROR)
    if isinstance(theirs, float):
        return ours is not None and math.isclose(ours, theirs, rel_tol=1e-9)
    return ours == theirs


def load(database, rows, linked, omitted):
    """Gives DuckDB the events that count. `player` is the player that an id is linked to."""
    kept = world.accepted(rows)[omitted:]
    columns = list(zip(*kept, strict=True))
    props = columns[10]
    number = lambda value: value if isinstance(value, (int, float)) else None  # noqa: E731
    table = pyarrow.table({
        "n": pyarrow.array(range(len(kept)), pyarrow.int64()),
        "batch": pyarrow.array(columns[0], pyarrow.int64()),
        "ms": pyarrow.array(columns[2], pyarrow.int64()),
        "event": columns[3],
        "who": pyarrow.array(columns[4], pyarrow.string()),
        "player": pyarrow.array([linked.get(who, who) for who in columns[4]], pyarrow.string()),
        "value": pyarrow.array(columns[5], pyarrow.float64()),
        "country": columns[6],
        "platform": columns[7],
        "version": columns[8],
        "level": columns[9],
        "weapon": pyarrow.array([each.get("weapon") for each in props], pyarrow.string()),
        "price": pyarrow.array([number(each.get("price")) for each in props], pyarrow.float64()),
        "has_price": ["price" in each for each in props],
        "state": pyarrow.array([each.get("state") for each in props], pyarrow.string()),
        "x": pyarrow.array([each.get("x") for each in props], pyarrow.float64()),
        "y": pyarrow.array([each.get("y") for each in props], pyarrow.float64()),
        "flag": pyarrow.array([each.get("deep", {}).get("rare", {}).get("flag") for each in props], pyarrow.bool_()),
    })
    database.register("generated", table)
    database.execute("CREATE TABLE e AS SELECT *, to_timestamp(ms / 1000.0) AS ts FROM generated")
    return len(kept)


def utc(moment):
    return datetime.datetime.fromisoformat(moment).astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def cells(answer, step_all=False):
    """Returns {(time, key...): value} of an explore answer, without empty buckets."""
    found = {}
    for series in answer["series"]:
        key = tuple(series["key"].values())
        for at, value in zip(map(utc, answer["times"]), series["values"], strict=True):
            if value not in (None, 0):
                found[key if step_all else (at, *key)] = value
    return found


def text(moment):
    """The SQL of a moment as the server writes it."""
    return f"strftime(timezone('UTC', {moment}), '%Y-%m-%dT%H:%M:%SZ')"


def bucket(step, tz, moment="ts"):
    """The SQL of the time at which the calendar's step begins."""
    return text(f"timezone('{tz}', date_trunc('{step}', timezone('{tz}', {moment})))")


def explore(both):
    window = {"from": START, "to": END}
    days = window | {"step": "day", "tz": PARIS, "by": ["country"], "top": 100}
    answer = both.ask("explore", days | {"event": "start"})
    counted = both.rows(f"""SELECT {bucket("day", PARIS)} AS at, country, count(*) FROM e WHERE event = 'start' GROUP BY ALL""")
    both.equal("count by day and country, in a zone with summer time", cells(answer), {(at, country): count for at, country, count in counted})

    answer = both.ask("explore", window | {"event": "win", "measure": "uniques", "step": "week", "tz": NEW_YORK})
    counted = both.rows(f"""SELECT {bucket("week", NEW_YORK)} AS at, count(DISTINCT player) FROM e WHERE event = 'win' GROUP BY ALL""")
    both.equal("players by week", cells(answer), {(at,): count for at, count in counted})

    answer = both.ask("explore", window | {"measure": "uniques", "step": "month", "tz": PARIS, "by": ["platform", "version"], "top": 100})
    counted = both.rows(f"""SELECT {bucket("month", PARIS)} AS at, platform, version, count(DISTINCT player) FROM e GROUP BY ALL""")
    both.equal("players by month, platform and version, any event", cells(answer), {(at, platform, version): count for at, platform, version, count in counted if count})

    hours = {"from": START + 35 * DAY, "to": START + 38 * DAY, "step": "hour", "tz": PARIS, "event": "chat"}
    hour = text("to_timestamp(ms // 3600000 * 3600)")
    counted = both.rows(f"SELECT {hour} AS at, count(*) FROM e WHERE event = 'chat' AND ms >= {hours['from']} AND ms < {hours['to']} GROUP BY ALL")
    both.equal("count by hour over the end of summer time", cells(both.ask("explore", hours)), {(at,): count for at, count in counted})

    for measure, sql in [("sum", "sum(price)"), ("avg", "avg(price)"), ("min", "min(price)"), ("max", "max(price)")]:
        question = window | {"event": "purchase", "measure": measure, "property": "props.price", "step": "month", "by": ["props.weapon"], "top": 50}
        counted = both.rows(f"""SELECT {bucket("month", "UTC")} AS at, coalesce(weapon, ''), {sql} FROM e WHERE event = 'purchase' AND price IS NOT NULL GROUP BY ALL""")
        both.equal(f"{measure} of a property that is sometimes text, by another one", cells(both.ask("explore", question | {"tz": "UTC"})), {(at, weapon): float(value) for at, weapon, value in counted})

    for measure, share in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)]:
        question = window | {"measure": measure, "step": "all", "by": ["event"], "top": 50}
        counted = both.rows(f"SELECT event, list_sort(list(value))[ceil({share} * count(value))::INT], count(value) FROM e WHERE value IS NOT NULL GROUP BY event")
        exact = lambda value, count: float(value) if count <= EXACT_VALUES else About(value)  # noqa: E731
        both.equal(f"{measure} of values by event", cells(both.ask("explore", question), True), {(event,): exact(value, count) for event, value, count in counted})

    conditions = [
        ("=", {"property": "country", "op": "=", "value": "FR"}, "country = 'FR'"),
        ("!=", {"property": "props.weapon", "op": "!=", "value": "bow"}, "weapon IS DISTINCT FROM 'bow'"),
        ("<", {"property": "value", "op": "<", "value": 20.5}, "value < 20.5"),
        (">=", {"property": "props.price", "op": ">=", "value": 50}, "price >= 50"),
        ("contains", {"property": "props.weapon", "op": "contains", "value": "bow"}, "contains(weapon, 'bow')"),
        ("in", {"property": "version", "op": "in", "value": ["1.0", "2.0"]}, "version IN ('1.0', '2.0')"),
        ("set", {"property": "props.price", "op": "set"}, "has_price"),
        ("unset", {"property": "props.weapon", "op": "unset"}, "weapon IS NULL"),
        ("a rare flag in an object", {"property": "props.deep.rare.flag", "op": "=", "value": True}, "flag"),
        ("a player", {"property": "player", "op": "=", "value": "player-5"}, "who = 'player-5'"),
        ("or", {"or": [{"property": "country", "op": "=", "value": "JP"}, {"and": [{"property": "platform", "op": "=", "value": "ios"}, {"property": "value", "op": ">", "value": 100}]}]}, "country = 'JP' OR (platform = 'ios' AND value > 100)"),
    ]
    for name, condition, sql in conditions:
        question = window | {"step": "all", "by": ["event"], "top": 50, "where": [condition]}
        counted = both.rows(f"SELECT event, count(*) FROM e WHERE {sql} GROUP BY event")
        both.equal(f"where: {name}", cells(both.ask("explore", question), True), {(event,): count for event, count in counted})

    question = {"from": START + 30 * DAY, "to": START + 40 * DAY, "step": "all", "event": "start", "compare": "previous", "by": ["country"], "top": 3}
    answer = both.ask("explore", question)
    counted = both.rows(f"""
        WITH top AS (SELECT country FROM e WHERE event = 'start' AND ms >= {question['from']} AND ms < {question['to']} GROUP BY country ORDER BY count(*) DESC LIMIT 3)
        SELECT (ms >= {question['from']})::INT, if(country IN (FROM top), country, '(other)'), count(*) FROM e
        WHERE event = 'start' AND ms >= {START + 20 * DAY} AND ms < {question['to']} GROUP BY ALL""")
    ours = {(1, *key): value for key, value in cells(answer, True).items()} | {(0, *key): value for key, value in cells(answer["compare"], True).items()}
    both.equal("the top three, the others, and the ten days before", ours, {(now, country): count for now, country, count in counted})


#: The events of each player in order: of the same time in order of arrival; an id that is linked comes first.
ORDERED = """w AS (
    SELECT *, row_number() OVER (PARTITION BY player ORDER BY ms, batch, (who = player)::INT, n) AS seq
    FROM e WHERE player IS NOT NULL AND ms >= {start} AND ms < {end} AND {where})"""


def funnel_sql(steps, window_s, is_strict, start, end, by="''"):
    """Finds the first event of each step after the one before, each step by itself."""
    any_step = " OR ".join(f"({step})" for step in steps)
    sql = "WITH " + ORDERED.format(start=start, end=end, where="true") + f""",
        f1 AS (SELECT player, min_by(seq, seq) AS seq, min_by(ms, seq) AS first, min_by(ms, seq) AS ms, NULL::DOUBLE AS took, min_by({by}, seq) AS part
               FROM w WHERE {steps[0]} GROUP BY player)"""
    for number, step in enumerate(steps[1:], 2):
        before = f"f{number - 1}"
        stops = f"({any_step}) AND NOT ({step}) AND NOT ({steps[number - 2]})" if is_strict else "false"
        sql += f""",
        c{number} AS (SELECT w.player, w.seq, w.ms, {before}.ms AS previous, {before}.first, {before}.part, ({step}) AS is_step
               FROM w JOIN {before} ON w.player = {before}.player AND w.seq > {before}.seq
               WHERE w.ms <= {before}.first + {window_s * 1000} AND (({step}) OR ({stops}))),
        f{number} AS (SELECT player, seq, first, ms, (ms - previous) / 1000.0 AS took, part FROM c{number}
               QUALIFY row_number() OVER (PARTITION BY player ORDER BY seq) = 1 AND is_step)"""
    parts = [f"SELECT {number} AS step, part, took FROM f{number}" for number in range(1, len(steps) + 1)]
    quantile = "list_sort(list(took))[ceil({} * count(took))::INT]"
    return sql + f""" SELECT step, {"part" if by != "''" else "''"} AS part, count(*), {quantile.format(0.5)}, {quantile.format(0.9)}
        FROM ({" UNION ALL ".join(parts)}) GROUP BY ALL"""


def funnels(both):
    played = [{"event": "start"}, {"event": "win"}, {"event": "purchase"}]
    played_sql = ["event = 'start'", "event = 'win'", "event = 'purchase'"]
    careful = [
        {"event": "$session_start", "where": [{"property": "platform", "op": "in", "value": ["web", "ios"]}]},
        {"event": "start", "where": [{"property": "props.weapon", "op": "set"}]},
        {"event": "win"},
        {"event": "start"},
        {"event": "purchase", "where": [{"property": "props.price", "op": ">", "value": 20}]},
    ]
    careful_sql = ["event = '$session_start' AND platform IN ('web', 'ios')", "event = 'start' AND weapon IS NOT NULL", "event = 'win'", "event = 'start'", "event = 'purchase' AND price > 20"]
    cases = [
        ("three steps in a day", played, played_sql, 86_400, "loose", START, END, None),
        ("three steps, strict", played, played_sql, 30 * 86_400, "strict", START, END, None),
        ("three steps by country", played, played_sql, 10 * 86_400, "loose", START + 10 * DAY, END - 10 * DAY, "country"),
        ("five steps with filters", careful, careful_sql, 40 * 86_400, "loose", START, END, None),
        ("five steps with filters, strict, by version", careful, careful_sql, 40 * 86_400, "strict", START, END, "version"),
        ("the same step twice", [{"event": "win"}, {"event": "win"}], ["event = 'win'"] * 2, 3_600, "loose", START, END, None),
    ]
    for name, steps, sql, window_s, order, start, end, by in cases:
        question = {"from": start, "to": end, "steps": steps, "window_s": window_s, "order": order}
        question |= {"by": by, "top": 50} if by else {}
        answer = both.ask("funnel", question)
        parts = [(series["key"][by], series["steps"]) for series in answer["series"]] if by else [("", answer["steps"])]
        ours = {(part, number): (step["players"], step["median_s"], step["p90_s"]) for part, steps in parts for number, step in enumerate(steps, 1) if step["players"]}
        counted = both.rows(funnel_sql(sql, window_s, order == "strict", start, end, by or "''"))
        about = lambda value, count: None if value is None else About(value) if count > EXACT_VALUES else float(value)  # noqa: E731
        both.equal(f"funnel: {name}", ours, {(part, step): (count, about(median, count), about(p90, count)) for step, part, count, median, p90 in counted})


def retention(both):
    cases = [
        ("day", "classic", "UTC", "start", "start", 20, None),
        ("day", "classic", PARIS, "$session_start", "win", 30, None),
        ("week", "rolling", NEW_YORK, "$session_start", "$session_start", 8, None),
        ("week", "bounded", PARIS, "start", "purchase", 8, None),
        ("month", "classic", PARIS, "purchase", "purchase", 3, None),
        ("week", "classic", PARIS, "start", "win", 5, "platform"),
    ]
    for step, kind, tz, start, returns, periods, by in cases:
        question = {"from": START, "to": END, "start": {"event": start}, "return": {"event": returns}, "step": step, "kind": kind, "periods": periods, "tz": tz}
        question |= {"by": by, "top": 50} if by else {}
        answer = both.ask("retention", question)
        ours = {}
        for series in answer["series"] if by else [{"key": {}, "cohorts": answer["cohorts"]}]:
            for cohort in series["cohorts"]:
                for period, count in enumerate(cohort["returned"]):
                    if count:
                        ours[(series["key"].get(by, ""), cohort["start"], period)] = (cohort["players"], count)
        cohort = f"date_trunc('{step}', timezone('{tz}', to_timestamp(f.ms / 1000.0)))"
        period_of = lambda ms: f"date_diff('{step}', {cohort}, date_trunc('{step}', timezone('{tz}', to_timestamp({ms} / 1000.0))))"  # noqa: E731
        match = {"classic": "p.period = c.period", "rolling": "p.period >= c.period", "bounded": "(c.period = 0 AND p.period = 0) OR (c.period > 0 AND p.period BETWEEN 1 AND c.period)"}[kind]
        sql = "WITH " + ORDERED.format(start=START, end=END, where="true") + f""",
            first AS (SELECT player, min(seq) AS seq, min_by(ms, seq) AS ms, min_by({by or "''"}, seq) AS part FROM w WHERE event = '{start}' GROUP BY player),
            p AS (SELECT DISTINCT f.player, f.part, {cohort} AS cohort, {period_of("w.ms")} AS period
                  FROM first f JOIN w ON w.player = f.player AND w.event = '{returns}' AND w.seq >= f.seq),
            sizes AS (SELECT f.part, {cohort} AS cohort, count(*) AS players, any_value({period_of(END - 1)}) AS reached FROM first f GROUP BY ALL)
            SELECT p.part, strftime(p.cohort, '%Y-%m-%d'), c.period, any_value(players), count(DISTINCT p.player)
            FROM p JOIN sizes USING (part, cohort) JOIN (SELECT unnest(range({periods})) AS period) c ON c.period <= reached AND ({match}) GROUP BY ALL"""
        theirs = {row[:3]: row[3:] for row in both.rows(sql)}
        both.equal(f"retention: {kind} by {step}, {start} then {returns}" + (f", by {by}" if by else ""), ours, theirs)


def paths(both):
    for event, direction, collapse in [("start", "after", False), ("start", "after", True), ("purchase", "before", False), ("win", "before", True)]:
        question = {"from": START, "to": START + 30 * DAY, "event": event, "direction": direction, "depth": 3, "top": 20, "collapse": collapse}
        answer = both.ask("paths", question)
        nodes = answer["nodes"]
        ours = {("node", node["distance"], node["event"]): (node["count"], node["players"]) for node in nodes}
        for link in answer["links"]:
            source, target = nodes[link["from"]], nodes[link["to"]]
            ours[("link", max(source["distance"], target["distance"]), source["event"], target["event"])] = (link["count"], link["players"])
        sql = "WITH " + ORDERED.format(start=question["from"], end=question["to"], where="true")
        kept = f"lag(event) OVER (PARTITION BY player ORDER BY seq) IS DISTINCT FROM event OR {not collapse}"
        sql += f", k AS (SELECT player, event, row_number() OVER (PARTITION BY player ORDER BY seq) AS at FROM (SELECT * FROM w QUALIFY {kept}))"
        sign = "+" if direction == "after" else "-"
        theirs = {}
        for name, count, players in both.rows(sql + f" SELECT event, count(*), count(DISTINCT player) FROM k WHERE event = '{event}' GROUP BY event"):
            theirs[("node", 0, name)] = (count, players)
        for distance in range(1, 4):
            joined = f"FROM k s JOIN k a ON a.player = s.player AND a.at = s.at {sign} {distance} JOIN k b ON b.player = s.player AND b.at = s.at {sign} {distance - 1} WHERE s.event = '{event}'"
            for name, count, players in both.rows(sql + f" SELECT a.event, count(*), count(DISTINCT s.player) {joined} GROUP BY ALL"):
                theirs[("node", distance, name)] = (count, players)
            earlier, later = ("b", "a") if direction == "after" else ("a", "b")
            for source, target, count, players in both.rows(sql + f" SELECT {earlier}.event, {later}.event, count(*), count(DISTINCT s.player) {joined} GROUP BY ALL"):
                theirs[("link", distance, source, target)] = (count, players)
        both.equal(f"paths: {direction} {event}" + (", repeats collapsed" if collapse else ""), ours, theirs)


def levels(both):
    for by in (None, "version"):
        answer = both.ask("levels:outcomes", {"from": START, "to": END, "top": 200} | ({"by": by} if by else {}))
        counts = ("starts", "wins", "retries", "quits", "flags", "players", "median_s")
        ours = {(level["level"], level["version"] or ""): tuple(level[name] for name in counts) for level in answer["levels"]}
        group = "level, version" if by else "level, ''"
        states = ", ".join(f"count(*) FILTER (state = '{state}')" for state in world.STATES)
        sql = "WITH " + ORDERED.format(start=START, end=END, where="event = '$level'") + """,
            attempts AS (SELECT *, lag(state) OVER before AS state_before, (ms - lag(ms) OVER before) / 1000.0 AS took FROM w WHERE state <> 'flag'
                         WINDOW before AS (PARTITION BY player, level ORDER BY seq)),
            times AS (SELECT * FROM attempts WHERE state = 'win' AND state_before IN ('start', 'retry'))"""
        median = f" SELECT {group}, list_sort(list(took))[ceil(0.5 * count(took))::INT], count(took) FROM times GROUP BY ALL"
        medians = {row[:2]: row[2:] for row in both.rows(sql + median)}
        counted = both.rows(sql + f" SELECT {group}, {states}, count(DISTINCT player) FROM w GROUP BY ALL")
        both.equal("levels" + (" by version" if by else ""), ours, {row[:2]: (*row[2:], median_of(medians.get(row[:2]))) for row in counted})
    question = {"from": START, "to": END, "map": "island", "metric": "death", "columns": 20, "rows": 10, "bounds": {"x_min": 0, "x_max": 1_000, "y_min": 0, "y_max": 400}}
    answer = both.ask("levels:heatmap", question)
    ours = {(row, column): count for row, line in enumerate(answer["cells"]) for column, count in enumerate(line) if count}
    counted = both.rows("SELECT least(floor(y / 40), 9)::INT, least(floor(x / 50), 19)::INT, count(*) FROM e WHERE event = '$heat' AND y <= 400 GROUP BY ALL")
    both.equal("heatmap", ours | {"outside": answer["outside"]}, {row[:2]: row[2] for row in counted} | {"outside": both.rows("SELECT count(*) FROM e WHERE event = '$heat' AND y > 400")[0][0]})


def median_of(found):
    if found is None:
        return None
    median, count = found
    return About(median) if count > EXACT_VALUES else float(median)


def players(both):
    for search in ("player-1", "anonymous-10", "r-77"):
        found = json.loads(both.server.request(f"/v1/players?search={search}&limit=1&from={START}&to={END}"))["found"]
        counted = both.rows(f"SELECT count(DISTINCT player) FROM e WHERE contains(who, '{search}') OR contains(player, '{search}')")[0][0]
        both.equal(f"players found by {search}", {"found": found}, {"found": counted})


def main():
    arguments = sys.argv[1:]
    omitted = 100 if "--omit" in arguments else 0
    count = int(arguments[0]) if arguments and arguments[0].isdigit() else 2_000_000
    rows, linked = world.events(count)
    server = Server()
    try:
        results = {"accepted": 0, "duplicate": 0}
        for body in world.batches(rows):
            request = urllib.request.Request(server.url + "/v1/import", data=body.encode(), headers={"Authorization": f"Bearer {server.secret_key}", "Content-Type": "application/x-ndjson"})
            with urllib.request.urlopen(request, timeout=180) as response:
                receipt = json.load(response)
            if receipt["accepted"] + receipt["duplicate"] != body.count("\n") + 1:
                sys.exit(f"events were refused: {receipt}")
            for outcome in results:
                results[outcome] += receipt[outcome]
        database = duckdb.connect()
        kept = load(database, rows, linked, omitted)
        print(f"{results['accepted']} events, {results['duplicate']} duplicates, {len(linked)} linked ids", flush=True)
        both = Comparison(server, database)
        both.equal("events", results, {"accepted": kept, "duplicate": len(rows) - kept})
        both.wait()
        for compare in (explore, funnels, retention, paths, levels, players):
            compare(both)
    finally:
        server.stop()
    for difference in both.differences[:40]:
        print(f"FAILED {difference}")
    print(f"{both.asked} questions, {both.compared} values compared")
    print(f"{both.compared - len(both.differences)} passed, {len(both.differences)} failed")
    sys.exit(1 if both.differences else 0)


if __name__ == "__main__":
    main()
