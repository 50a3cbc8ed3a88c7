"""The worker's answers in every format are those of DuckDB for Python over the same files."""

import base64
import datetime
import decimal
import io
import json
import math
import pathlib
import tempfile
import unittest

import duckdb
import pyarrow.ipc

from worker import Failure, Worker

EVENTS = 200_000
# Columns like those of the archive, with gaps, ties, and texts that are hard to print. Values are multiples of a quarter:
# their sum is exact in any order.
DAY = """
    SELECT TIMESTAMPTZ '2026-11-01 00:00:00+00' + INTERVAL ({day}) DAY + INTERVAL ((hash(i) % 86400000)::BIGINT) MILLISECOND AS ts,
           ['start', 'win', 'quit', 'buy'][(1 + hash(i, 1) % 4)::INT] AS event, 'id' || {day} || '-' || i AS id,
           'player' || (hash(i, 2) % 5000) AS player, 's' || (hash(i, 3) % 20000) AS session,
           CASE WHEN i % 7 = 0 THEN NULL ELSE (hash(i, 4) % 100000) / 4.0 END AS value,
           ['FR', 'DE', NULL, 'US'][(1 + hash(i, 5) % 4)::INT] AS country, 'web' AS platform, '1.' || {day} AS version,
           NULL::VARCHAR AS source, (hash(i, 6) % 30)::VARCHAR AS level,
           (hash(i, 7) % 1000)::BIGINT AS "props.price",
           CASE WHEN i % 5 = 0 THEN '{{"note": "é\\n\\"' || i || '"}}' END AS props,
           TIMESTAMPTZ '2026-11-05 00:00:00+00' AS received
    FROM range({count}) t(i)
"""
QUERIES = [
    "SELECT count(*), count(value), sum(value), min(ts), max(ts) FROM events",
    "SELECT event, count(*) AS n, count(DISTINCT player) AS players FROM events GROUP BY event ORDER BY event",
    "SELECT date_trunc('hour', ts_utc) AS hour, count(*) AS n FROM events GROUP BY hour ORDER BY hour",
    "SELECT country, quantile_cont(value, [0.5, 0.9]) AS q FROM events GROUP BY country ORDER BY country",
    "SELECT * EXCLUDE (ts_utc) FROM events ORDER BY id LIMIT 3000",
    "SELECT player, list(level ORDER BY ts, id) AS levels FROM events GROUP BY player ORDER BY player LIMIT 500",
    "SELECT level, histogram(event) AS events FROM events GROUP BY level ORDER BY level",
    "SELECT props->>'note' AS note FROM events WHERE props IS NOT NULL ORDER BY id LIMIT 100",
    "SELECT sum(\"props.price\") AS price, sum(\"props.price\"::DECIMAL(18, 2)) AS exact FROM events",
    "SELECT {'a': id, 'b': [value, NULL], 'c': {'d': ts}} AS nested FROM events ORDER BY id LIMIT 2500",
    "SELECT ts_utc::DATE AS day, median(value) AS m, stddev(value) > 0 AS s FROM events GROUP BY day ORDER BY day",
    "SELECT event::ENUM('start', 'win', 'quit', 'buy') AS e, i::TINYINT AS t, (i * 1e9)::UBIGINT AS u, i::FLOAT AS f, "
    "TIME '01:02:03' AS c, encode(id) AS b FROM (SELECT *, (hash(id) % 100) AS i FROM events ORDER BY id LIMIT 4097)",
    "SELECT * FROM events WHERE event = 'nothing'",
    "SELECT event::ENUM('start', 'win', 'quit', 'buy') AS e FROM events WHERE event = 'nothing'",
    "SELECT row_number() OVER (PARTITION BY player ORDER BY ts, id) AS n, id FROM events ORDER BY id LIMIT 100",
]


def plain(value):
    """Returns a value of Python as the JSON of the worker has it."""
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if abs(value) <= 2**53 else str(value)
        case float():
            return value if math.isfinite(value) else None
        case decimal.Decimal():
            return float(value) if len(value.as_tuple().digits) <= 15 else str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case datetime.datetime():
            text = value.replace(tzinfo=None).isoformat()
            text = text.rstrip("0") if "." in text else text
            return text + ("Z" if value.tzinfo else "")
        case datetime.date() | datetime.time():
            return value.isoformat()
        case dict():
            return {key: plain(each) for key, each in value.items()}
        case list() if value and isinstance(value[0], tuple):
            return {key: plain(each) for key, each in value}
        case list():
            return [plain(each) for each in value]
    raise TypeError(type(value))


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.duckdb = duckdb.connect()
        cls.duckdb.execute("SET TimeZone = 'UTC'; SET threads = 2")
        cls.files = files = [pathlib.Path(cls.folder.name) / f"{day}.parquet" for day in range(4)]
        for day, path in enumerate(files):
            query = DAY.format(day=day, count=EVENTS // 4)
            cls.duckdb.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
        cls.duckdb.execute(
            "CREATE VIEW events AS SELECT ts, make_timestamp(epoch_us(ts)) AS ts_utc, * EXCLUDE (ts) "
            f"FROM read_parquet({[str(path) for path in files]})"
        )

    @classmethod
    def tearDownClass(cls):
        cls.duckdb.close()
        cls.folder.cleanup()

    def setUp(self):
        # A worker for each test, because one that dies would fail the tests after it.
        self.worker = Worker(self.files)
        self.addCleanup(self.worker.close)

    def expected(self, sql):
        return self.duckdb.execute(sql).to_arrow_table()

    def test_arrow_is_the_table_of_duckdb(self):
        for sql in QUERIES:
            with self.subTest(sql):
                answer = pyarrow.ipc.open_stream(io.BytesIO(self.worker.ask(sql, "arrow"))).read_all()
                answer.validate(full=True)
                expected = self.expected(sql)
                self.assertEqual(answer.schema, expected.schema)
                self.assertEqual(answer.to_pylist(), expected.to_pylist())

    def test_json_has_the_rows_of_duckdb(self):
        for sql in QUERIES:
            with self.subTest(sql):
                answer = json.loads(self.worker.ask(sql, "json"))
                expected = self.expected(sql)
                self.assertEqual([column["name"] for column in answer["columns"]], expected.column_names)
                self.assertEqual(answer["rows"], [[plain(each) for each in row.values()] for row in expected.to_pylist()])

    def test_ndjson_has_the_rows_of_json(self):
        for sql in QUERIES:
            with self.subTest(sql):
                lines = self.worker.ask(sql, "ndjson").decode().splitlines()
                rows = json.loads(self.worker.ask(sql, "json"))["rows"]
                self.assertEqual([list(json.loads(line).values()) for line in lines], rows)

    def test_csv_is_read_back_as_it_was(self):
        sql = "SELECT id, country, value, level, ts_utc, props FROM events ORDER BY id LIMIT 20000"
        path = pathlib.Path(self.folder.name) / "answer.csv"
        path.write_bytes(self.worker.ask(sql, "csv"))
        types = "{'id': 'VARCHAR', 'country': 'VARCHAR', 'value': 'DOUBLE', 'level': 'VARCHAR', 'ts_utc': 'TIMESTAMP', "
        types += "'props': 'VARCHAR'}"
        back = self.expected(f"FROM read_csv('{path}', header = true, columns = {types})")
        self.assertEqual(back.to_pylist(), self.expected(sql).to_pylist())

    def test_mistakes_are_failures(self):
        with self.assertRaisesRegex(Failure, '"position":7'):
            self.worker.ask("SELECT foo FROM events", "arrow")


if __name__ == "__main__":
    unittest.main()
