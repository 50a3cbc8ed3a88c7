"""Published Python clients against a server; README.md lists them."""

import importlib
import json
import os
import pathlib
import subprocess
import sys
import unittest
import urllib.request
import warnings

import duckdb
import influxdb
import influxdb_client
import pandas
from influxdb_client.client.write_api import SYNCHRONOUS

from server import Server

HERE = pathlib.Path(__file__).resolve().parent
BIN = pathlib.Path(sys.executable).parent
# Cases that schemathesis generates for each operation and phase.
EXAMPLES = os.environ.get("SCHEMATHESIS_EXAMPLES", "8")
# Without a seed every run sends the same cases, so that a failure comes from a change of the server.
SEED = os.environ.get("SCHEMATHESIS_SEED")
CASES = ["--seed", SEED, "--generation-database", "none"] if SEED else ["--seed", "1", "--generation-deterministic"]


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def test_influxdb_1_writes_with_the_key_as_its_password(self):
        for name, key in [("public", self.server.public_key), ("secret", self.server.secret_key)]:
            client = influxdb.InfluxDBClient("127.0.0.1", self.server.port, "user", key, "game")
            self.assertTrue(client.ping().startswith("1.8"))
            client.create_database("game")
            self.assertEqual(client.get_list_database(), [{"name": "demo"}])
            points = [{"measurement": f"{name}_cpu", "tags": {"host": "a"}, "fields": {"value": float(n)}} for n in range(5)]
            self.assertTrue(client.write_points(points))
            self.assertTrue(client.write_points(points[:1], time_precision="ms", protocol="json"))
            self.assertEqual(self.server.total(f"{name}_cpu", "count"), 6)
            with self.assertRaisesRegex(influxdb.exceptions.InfluxDBClientError, "InfluxQL is not supported"):
                client.query("select * from cpu")
            client.close()
        client = influxdb.InfluxDBClient("127.0.0.1", self.server.port, "user", "wrong", "game")
        with self.assertRaisesRegex(influxdb.exceptions.InfluxDBClientError, "401"):
            client.write_points([{"measurement": "cpu", "fields": {"value": 1.0}}])
        client.close()

    def test_influxdb_1_parameters_of_the_url(self):
        url = f"{self.server.url}/write?db=game&u=user&p={self.server.public_key}"
        request = urllib.request.Request(url, data=b"in_url value=3", method="POST")
        with urllib.request.urlopen(request, timeout=180) as response:
            self.assertEqual(response.status, 204)
        self.assertEqual(self.server.total("in_url", "sum"), 3)

    def test_influxdb_2_pings_and_writes(self):
        with influxdb_client.InfluxDBClient(self.server.url, self.server.secret_key, org="any") as client:
            self.assertTrue(client.ping())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                health = client.health()
            self.assertEqual((health.status, health.name), ("pass", "influxdb"))
            self.assertTrue(client.version().startswith("1.8"))
            point = influxdb_client.Point("memory").tag("host", "a").field("used", 2.5)
            client.write_api(write_options=SYNCHRONOUS).write("game", record=[point, point])
        self.assertEqual(self.server.total("memory_used", "sum"), 5)

    def send_levels(self, event):
        levels = ["cave", "cave", "=1+1"]
        self.server.request("/v1/events", [{"event": event, "level": level, "value": 2.5} for level in levels])
        return f"/v1/query?metric={event}&measure=sum&last=60m&step=all&by=level"

    def test_pandas_reads_rows(self):
        query = self.send_levels("frame")
        headers = {"Authorization": f"Bearer {self.server.secret_key}"}
        rows = pandas.read_json(self.server.url + query + "&format=ndjson", lines=True, storage_options=headers)
        self.assertEqual(list(rows.columns), ["time", "level", "value"])
        self.assertEqual(rows.set_index("level")["value"].to_dict(), {"cave": 5.0, "=1+1": 2.5})
        rows = pandas.read_csv(self.server.url + query + "&format=csv", storage_options=headers, parse_dates=["time"])
        self.assertEqual(rows.set_index("level")["value"].to_dict(), {"cave": 5.0, "'=1+1": 2.5})
        self.assertTrue(pandas.api.types.is_datetime64_any_dtype(rows["time"]))

    def test_duckdb_reads_rows(self):
        query = self.send_levels("duck")
        database = duckdb.connect()
        for suffix, function in [("csv", "read_csv"), ("ndjson", "read_json")]:
            path = self.server.folder / f"rows.{suffix}"
            path.write_bytes(self.server.request(f"{query}&format={suffix}"))
            total = database.execute(f"select sum(value), count(time) from {function}('{path}')").fetchone()
            self.assertEqual(total, (7.5, 2))

    def test_generated_python_client(self):
        """openapi-python-client generates every operation, and the client works."""
        description = self.server.folder / "openapi.json"
        description.write_bytes(self.server.request("/openapi.json"))
        target = self.server.folder / "generated" / "api_client"
        command = [str(BIN / "openapi-python-client"), "generate", "--path", str(description), "--meta", "none"]
        command += ["--output-path", str(target), "--config", str(HERE / "generator.yaml"), "--fail-on-warning"]
        target.parent.mkdir()
        made = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        sys.path.insert(0, str(target.parent))
        self.addCleanup(sys.path.remove, str(target.parent))

        def load(path):
            return importlib.import_module(f"api_client.{path}")

        operations = [one for path in json.loads(description.read_text())["paths"].values() for one in path]
        modules = [path for path in target.glob("api/*/*.py") if path.name != "__init__.py"]
        self.assertEqual(len(modules), len(operations))
        for path in modules:
            load(".".join(path.relative_to(target).with_suffix("").parts))
        models, client = load("models"), load("client")
        api = client.AuthenticatedClient(base_url=self.server.url, token=self.server.secret_key)
        event = models.EventBody(event="generated", player="bo", value=2.0)
        receipt = load("api.events.send_events").sync(client=api, body=event)
        self.assertEqual((type(receipt), receipt.accepted), (models.IngestReceipt, 1))
        answer = load("api.analytics.query").sync(client=api, body=models.QueryRequest(metric="generated"))
        self.assertEqual(type(answer), models.QueryResponse)
        board = models.PutBoardRequest(title="Race")
        load("api.boards.put_board").sync(client=api, table="race", body=board)
        score = models.SubmitScoreRequest(player="bo", name="Bo", score=7.0)
        load("api.boards.submit_score").sync(client=api, table="race", body=score)
        page = load("api.boards.list_scores").sync(client=api, table="race", page=1)
        self.assertEqual([(row.player, row.score) for row in page.rows], [("bo", 7.0)])
        problem = load("api.boards.board").sync(client=api, table="none")
        self.assertEqual((type(problem), problem.status), (models.ProblemDocument, 404))

    def test_schemathesis_finds_nothing(self):
        """Every response is described: its status, its content type and its schema. Invalid input is rejected.

        Whether valid input is accepted is not checked: a schema cannot express every rule, such as lengths in bytes.
        The streams and the sign-out, which have no end or no way back, are left out.
        """
        command = [str(BIN / "schemathesis"), "--config-file", str(HERE / "schemathesis.toml")]
        command += ["run", f"{self.server.url}/openapi.json", "--no-color", *CASES]
        command += ["--header", f"Authorization: Bearer {self.server.secret_key}", "--max-examples", EXAMPLES]
        command += ["--exclude-checks", "positive_data_acceptance", "--request-timeout", "180"]
        command += ["--exclude-path", "/v1/watch", "--exclude-path", "/v1/sign-out"]
        environment = {**os.environ, "SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(HERE)}
        # The order of a set would change the cases.
        environment["PYTHONHASHSEED"] = "0"
        run = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=self.server.folder)
        self.assertEqual(run.returncode, 0, run.stdout[-8_000:] + run.stderr[-2_000:])
        self.assertIsNone(self.server.process.poll())


if __name__ == "__main__":
    unittest.main()
