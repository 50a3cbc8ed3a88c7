"""A generated game for the comparison: two months of events with everything that makes questions hard.

Ties in time, days without events, events that arrive weeks late, duplicates, players without and with properties, ids
that are linked to a player later, and the end of summer time in Europe and America.
"""

import json
import uuid

import numpy

DAY_MS = 86_400_000
START_MS = 1_758_326_400_000  # 2025-09-20T00:00Z
DAYS = 62
NAMES = ["start", "win", "lose", "purchase", "level_up", "chat", "$session_start", "$level", "$heat", "share"]
SHARES = [0.22, 0.11, 0.11, 0.05, 0.06, 0.12, 0.12, 0.14, 0.04, 0.03]
COUNTRIES = ["FR", "DE", "US", "JP", "BR", "GB", "ES", "IT", "PL", "CA", "SE", ""]
PLATFORMS = ["web", "ios", "android", ""]
VERSIONS = ["1.0", "1.1", "2.0", "2.0-beta"]
WEAPONS = ["bow", "axe", "sword", "wand", "long bow", None, None]
STATES = ["start", "win", "retry", "quit", "flag"]
BATCH = 5_000


def events(count, seed=7):
    """Returns the events in the order of their arrival, and the player of each linked id.

    A tuple per event: id or None, time, name, player or None, value or None, country, platform, version, level, props.
    """
    draw = numpy.random.default_rng(seed)
    players = max(count // 40, 10)
    # Few players have many events, and many have few.
    player = (players * draw.random(count) ** 2.2).astype(int)
    home = draw.integers(0, len(COUNTRIES), players)
    name = draw.choice(len(NAMES), count, p=SHARES)
    day = draw.integers(0, DAYS, count)
    day[(day == 11) | (day == 12)] = 13  # nothing happened on two days
    # All in one minute of each half hour, a third of them in its first second: many of a player's events are tied.
    second = draw.integers(0, 48, count) * 1_800 + numpy.where(draw.random(count) < 0.33, 0, draw.integers(0, 60, count))
    time = START_MS + day * DAY_MS + second * 1_000
    late = draw.random(count) < 0.01
    arrival = numpy.argsort(time + late * draw.integers(0, 30 * DAY_MS, count), kind="stable")
    kind = draw.random(count)
    weapon, platform, version = (draw.integers(0, len(options), count) for options in (WEAPONS, PLATFORMS, VERSIONS))
    price, level, state = draw.integers(1, 400, count), draw.integers(1, 31, count), draw.integers(0, 5, count)
    where = draw.integers(0, 1_000, (count, 2))

    linked, rows, again = {}, [], []
    for index in arrival.tolist():
        number, event = int(player[index]), NAMES[name[index]]
        props = {}
        if kind[index] < 0.9 and WEAPONS[weapon[index]]:
            props["weapon"] = WEAPONS[weapon[index]]
        if event == "purchase":
            # A tenth of the prices are texts, some of which are no numbers.
            props["price"] = int(price[index]) / 4 if kind[index] < 0.9 else f"{price[index]} coins"
        if event == "$level":
            props["state"] = STATES[state[index]]
        if event == "$heat":
            props |= {"map": "island", "metric": "death", "x": int(where[index][0]), "y": int(where[index][1]) / 2}
        if kind[index] < 0.02:
            props["deep"] = {"rare": {"flag": bool(index % 2)}}
        who = None if kind[index] > 0.98 else f"player-{number}"
        if who and number % 5 == 0 and kind[index] < 0.5:
            who = f"anonymous-{number}"
            linked[who] = f"player-{number}"
        identity = None
        if kind[index] < 0.1:
            identity = str(uuid.UUID(int=index + 1, version=4))
        country = COUNTRIES[home[number]] if kind[index] < 0.97 else "US"
        rows.append((
            identity, int(time[index]), event, who, int(price[index]) / 2 if kind[index] < 0.3 else None, country,
            PLATFORMS[platform[index]], VERSIONS[version[index]],
            f"level-{level[index]}" if event == "$level" else "", props,
        ))
        if identity and len(rows) % 3 == 0:
            # The same id again, with another time: a duplicate, which must change nothing.
            again.append((identity, int(time[index]) + 60_000, "win", who, 1.0, "FR", "web", "2.0", "", {}))
        if len(again) == 400:
            rows += again
            again = []
    rows += again
    # Links come last: questions count earlier events for the player as well.
    last = START_MS + DAYS * DAY_MS - 1_000
    for anonymous, number in linked.items():
        rows.append((None, last, "$identify", number, None, "FR", "web", "2.0", "", {"anonymous": anonymous}))
    return rows, linked


def batches(rows):
    """Yields each batch as a body of the import: NDJSON."""
    fields = ("id", "ts", "event", "player", "value", "country", "platform", "version", "level", "props")
    for start in range(0, len(rows), BATCH):
        lines = []
        for row in rows[start:start + BATCH]:
            event = {field: value for field, value in zip(fields, row, strict=True) if value not in (None, "", {})}
            lines.append(json.dumps(event))
        yield "\n".join(lines)


def accepted(rows):
    """Returns the events that count: the first one of each id, each with the number of its batch."""
    seen, kept = set(), []
    for number, row in enumerate(rows):
        if row[0] is not None:
            if row[0] in seen:
                continue
            seen.add(row[0])
        kept.append((number // BATCH, *row))
    return kept
