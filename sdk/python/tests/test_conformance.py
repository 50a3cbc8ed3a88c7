"""The shared cases of `sdk/conformance`."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import unittest
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from fake_server import FakeServer

from playmeter import EventsLost, Playmeter, PlaymeterError

FOLDER = Path(__file__).parents[2] / "conformance"
LIVEOPS = json.loads((FOLDER / "liveops.json").read_text())
CASES = json.loads((FOLDER / "events.json").read_text())["cases"]
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


class LiveopsConformance(Conformance):
    def test_cases(self) -> None:
        self.assertGreater(len(LIVEOPS["cases"]), 5)
        for case in LIVEOPS["cases"]:
            with self.subTest(case["name"]):
                self.run_case(case)

    def run_case(self, case: dict[str, Any]) -> None:
        server = FakeServer(routes=case.get("responses"), defaults=LIVEOPS["defaults"])
        self.addCleanup(server.close)
        client = Playmeter(server.url, "pm_pk_test", flush_interval_s=1e6, **case["options"])
        self.addCleanup(client._queue.close)
        for call in case["calls"]:
            self.call(client, dict(call))
        routes = [f"{request['method']} {urlsplit(request['path']).path}" for request in server.requests]
        self.assertEqual(routes, [expected["route"] for expected in case["requests"]])
        ids: dict[str, str] = {}
        for request, expected in zip(server.requests, case["requests"]):
            headers = {name.lower(): value for name, value in request["headers"].items()}
            self.assertEqual([name for name in expected.get("absent", []) if name.lower() in headers], [])
            self.match(dict(parse_qsl(urlsplit(request["path"]).query)), expected.get("query", {}), ids)
            self.match(request["body"], expected.get("body", {}), ids)
            for name, header in expected.get("headers", {}).items():
                value = headers[name.lower()]
                if header == "$signature":
                    self.check_signature(value, expected["route"].replace(" ", "\n"), request["bytes"])
                elif header.startswith("$other:"):
                    self.assertNotEqual(value, ids["$id:" + header[7:]])
                else:
                    self.match(value, header, ids)

    def call(self, client: Playmeter, call: dict[str, Any]) -> None:
        name = call["call"]
        if name == "identify":
            client.identify(call["player"])
        elif name == "load_vars":
            self.assertEqual(client.vars.load(), call["loaded"])
            self.assertEqual(client.vars.all(), call["vars"])
        else:
            board = client.board(call["table"])
            made = (lambda: board.submit(call["score"])) if name == "submit" else (lambda: board.list(**call["query"]))
            if "error" in call:
                with self.assertRaises(PlaymeterError) as raised:
                    made()
                self.assertEqual(raised.exception.code, call["error"])
            else:
                self.match(made(), call.get("result", {}), {})

    def check_signature(self, header: str, method_and_path: str, body: bytes) -> None:
        version, session, at, nonce, mac = header.split(";")
        self.assertEqual((version, session), ("v1", "session-1"))
        key = base64.urlsafe_b64decode(LIVEOPS["defaults"]["POST /v1/session"]["body"]["key"] + "==")
        message = "\n".join([at, nonce, method_and_path, hashlib.sha256(body).hexdigest()])
        self.assertEqual(mac, hmac.new(key, message.encode(), hashlib.sha256).hexdigest())


if __name__ == "__main__":
    unittest.main()
