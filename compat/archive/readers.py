"""Compares what other programs read from the archive with the events that were archived: readers.py ARCHIVE_EVENTS"""

import datetime
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import uuid

import chdb
import duckdb
import pandas
import pyarrow.parquet

DAY_MS = 86_400_000
START_MS = 20_758 * DAY_MS
# Events by day. The first day has two row groups and pages that are not whole.
ROWS = [270_000, 3_000, 70]
# Of several files that are merged.
MERGED_ROWS = [70_000, 3_000, 70]
TEXTS = ["event", "player", "session", "country", "platform", "version", "source", "level", "anonymous"]


def events(counts):
    """Returns events with known numbers in `props.n`, in the order of the log."""
    pick = random.Random(5)
    rows = []
    for day, count in enumerate(counts):
        for _ in range(count):
            number = len(rows)
            player = pick.choice([None, *(f"player-ü{pick.randrange(9_000)}" for _ in range(20))])
            event = {
                "ts": START_MS + day * DAY_MS + pick.randrange(DAY_MS),
                "received": START_MS + day * DAY_MS + pick.randrange(DAY_MS),
                "event": pick.choice(["start", "win", "$session_start", "naïve 名"]),
                "id": str(uuid.UUID(int=pick.getrandbits(128))) if pick.random() < 0.9 else None,
                "player": player,
                "session": f"{player}-{pick.randrange(4)}" if pick.random() < 0.7 else None,
                "value": pick.choice([None, 1.5, -2.0, round(pick.random(), 6)]),
                "country": pick.choice(["DE", "FR", None]),
                "platform": pick.choice(["web", "ios"]),
                "version": pick.choice(["1.0", "1.1"]),
                # Absent in the last file.
                "source": "store" if day < 2 and pick.random() < 0.01 else None,
                "level": str(pick.randrange(300)) if pick.random() < 0.5 else None,
                "anonymous": f"anon-{number}" if pick.random() < 0.02 else None,
            }
            props = {"n": number, "price": round(pick.random() * 100, 6), "weapon": pick.choice(["axe", "bow \"2\"\n", "ü"])}
            if pick.random() < 0.5:
                props["is_first"] = pick.random() < 0.5
            props["at"] = {"x": pick.randrange(100), "deep": {"y": pick.randrange(5)}}
            props["mixed"] = pick.choice(["text", "more", 5])
            if pick.random() < 0.05:
                props["tags"] = [1, {"a": "]"}, None]
                props["large"] = 2**60 + number
            if day == 0 and pick.random() < 0.002:
                props["rare"] = number
            event["props"] = props
            rows.append(event)
    return rows


def expected(event):
    """Returns the values of the columns of an event's row, without the hash of the player."""
    props = event["props"]
    row = {name: event[name] for name in TEXTS}
    row |= {name: event[name] for name in ["ts", "received", "id", "value"]}
    row |= {f"props.{name}": props.get(name) for name in ["n", "price", "weapon", "is_first"]}
    row |= {"props.at.x": props["at"]["x"], "props.at.deep.y": props["at"]["deep"]["y"]}
    row["props.mixed"] = props["mixed"] if isinstance(props["mixed"], str) else None
    rest = {name: props[name] for name in ["tags", "large", "rare"] if name in props}
    if not isinstance(props["mixed"], str):
        rest["mixed"] = props["mixed"]
    row["props"] = rest or None
    return row


def milliseconds(value):
    if isinstance(value, datetime.datetime):
        value = value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)
        return round(value.timestamp() * 1000)
    return value


def as_uuid(value):
    if isinstance(value, bytes):
        return str(uuid.UUID(bytes=value)) if len(value) == 16 else value.decode()
    return None if value is None else str(value)


def normal(name, value):
    """Returns a value of any reader in the form of `expected`."""
    if value is None or value is pandas.NaT or value is pandas.NA or (isinstance(value, float) and value != value):
        return None
    if name in ("ts", "received"):
        return milliseconds(value.to_pydatetime() if isinstance(value, pandas.Timestamp) else value)
    if name == "id":
        return as_uuid(value)
    if isinstance(value, bytes):
        value = value.decode()
    return json.loads(value) if name == "props" else value


def read_duckdb(folder):
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    query = f"from read_parquet('{folder}/*/*.parquet', union_by_name = true)"
    return connection.sql(query).to_arrow_table().to_pydict()


def read_pyarrow(folder):
    tables = [pyarrow.parquet.ParquetFile(path).read() for path in sorted(folder.glob("*/*.parquet"))]
    return pyarrow.concat_tables(tables, promote_options="permissive").to_pydict()


def read_pandas(folder):
    frames = [pandas.read_parquet(path, dtype_backend="pyarrow") for path in sorted(folder.glob("*/*.parquet"))]
    frame = pandas.concat(frames, ignore_index=True)
    return {name: frame[name].tolist() for name in frame.columns}


def read_chdb(folder):
    columns = {}
    for path in sorted(folder.glob("*/*.parquet")):
        answer = chdb.query(f"select * from file('{path}', Parquet)", "Arrow")
        table = pyarrow.ipc.open_file(pyarrow.py_buffer(answer.bytes())).read_all()
        for name, values in table.to_pydict().items():
            columns.setdefault(name, []).extend(values)
    return columns


READERS = {"DuckDB": read_duckdb, "pyarrow": read_pyarrow, "pandas": read_pandas, "chDB": read_chdb}


def check(reader, columns, rows):
    """Compares every column of every row, by the number of the event."""
    numbers = [int(number) for number in columns["props.n"]]
    assert sorted(numbers) == list(range(len(rows))), f"{reader}: each event once"
    names = [*rows[0], "player_hash"]
    assert sorted(columns) == sorted(names), f"{reader}: {sorted(set(columns) ^ set(names))}"
    for name in rows[0]:
        for number, value in zip(numbers, columns[name]):
            found = normal(name, value)
            assert found == rows[number][name], f"{reader}: {name} of event {number}: {value!r} {rows[number][name]!r}"
    hashes = {}
    for number, value in zip(numbers, columns["player_hash"]):
        player, value = rows[number]["player"], normal("player_hash", value)
        assert (player is None) == (value is None), f"{reader}: hash of event {number}"
        assert hashes.setdefault(player, value) == value, f"{reader}: hash of {player}"
    assert len(set(hashes.values())) == len(hashes), f"{reader}: different players have different hashes"


def main():
    checked = 0
    for options, counts in [([], ROWS), (["--merge"], MERGED_ROWS)]:
        archived = events(counts)
        lines = "\n".join(json.dumps(event, ensure_ascii=False) for event in archived)
        rows = [expected(event) for event in archived]
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.argv[1], folder, *options], input=lines.encode(), check=True)
            game = pathlib.Path(folder, "1")
            for reader, read in READERS.items():
                check(reader, read(game), rows)
                print(f"{reader} reads every column {' '.join(options)}".rstrip())
                checked += 1
    print(f"{checked} passed, 0 failed")


if __name__ == "__main__":
    main()
