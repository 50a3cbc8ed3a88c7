"""The shared cases of `sdk/conformance`."""

from __future__ import annotations

import json
import re
import unittest
from pathlib import Path
from typing import Any

from fake_server import FakeServer

from playmeter import EventsLost, Playmeter, PlaymeterError

CASES = json.loads((Path(__file__).parents[2] / "conformance/events.json").read_text())["cases"]
UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class Conformance(unittest.TestCase):
    def test_cases(self) -> None:
        self.assertGreater(len(CASES), 5)
        for case in CASES:
            with self.subTest(case["name"]):
                self.run_case(case)

    def run_case(self, case: dict[str, Any]) -> None:
        server = FakeServer(case.get("responses"))
        self.addCleanup(server.close)
        reported: list[Exception] = []
        client = Playmeter(server.url, "pm_pk_test", flush_interval_s=1e6, on_error=reported.append, **case["options"])
        self.addCleanup(client._queue.close)
        for call in case["calls"]:
            self.call(client, dict(call))
        ids: dict[str, str] = {}
        bodies = [request["body"] for request in server.requests]
        self.assertEqual(len(bodies), len(case["requests"]), bodies)
        for body, expected in zip(bodies, case["requests"]):
            self.match(body, expected, ids)
        lost = [{"code": error.code, "count": error.count} for error in reported if isinstance(error, EventsLost)]
        self.assertEqual(lost, case["reported"], reported)

    def call(self, client: Playmeter, call: dict[str, Any]) -> None:
        name, error = call.pop("call"), call.pop("error", None)
        for key, value in call.get("props", {}).items():
            if isinstance(value, str) and value.startswith("$repeat:"):
                call["props"] = {**call["props"], key: "x" * int(value[8:])}
        if error is None:
            getattr(client, name)(**call)
            return
        with self.assertRaises(PlaymeterError) as raised:
            getattr(client, name)(**call)
        self.assertEqual(raised.exception.code, error)

    def match(self, value: Any, expected: Any, ids: dict[str, str]) -> None:
        if isinstance(expected, dict):
            self.assertEqual([name for name in expected.get("absent", []) if name in value], [])
            for name, inner in expected.items():
                if name != "absent":
                    self.assertIn(name, value)
                    self.match(value[name], inner, ids)
        elif isinstance(expected, list):
            self.assertEqual(len(value), len(expected), value)
            for one, inner in zip(value, expected):
                self.match(one, inner, ids)
        elif expected == "$uuid7":
            self.assertRegex(value, UUID7)
        elif expected == "$ms":
            self.assertGreater(value, 1_600_000_000_000)
        elif expected == "$text":
            self.assertIsInstance(value, str)
        elif isinstance(expected, str) and expected.startswith("$id:"):
            self.assertEqual(ids.setdefault(expected, value), value)
        else:
            self.assertEqual(value, expected)


if __name__ == "__main__":
    unittest.main()
