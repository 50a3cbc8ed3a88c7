"""The client against a server that fails, and across crashes of the program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from pathlib import Path
from typing import Any

from fake_server import FakeServer

from playmeter import EventsLost, Playmeter, PlaymeterError, Unreachable
from playmeter.errors import backoff_s, Refused
from playmeter.store import FileStore, MemoryStore
from playmeter.uuid7 import uuid7

SOURCE = Path(__file__).parents[1] / "src"


def wait_until(holds: Any, within_s: float = 20) -> None:
    end = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"condition not met within {within_s} s")
        time.sleep(0.01)


def start_program(code: str, *args: str) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-c", textwrap.dedent(code), *args]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class ClientTest(unittest.TestCase):
    def setUp(self) -> None:
        self.server = FakeServer()
        self.addCleanup(self.server.close)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "queue")
        self.reported: list[Exception] = []

    def client(self, **options: Any) -> Playmeter:
        options = {"flush_interval_s": 0.02, "on_error": self.reported.append, **options}
        client = Playmeter(options.pop("url", self.server.url), "pm_pk_test", **options)
        self.addCleanup(client._queue.close)
        return client

    def test_events_are_sent_by_the_thread_and_again_after_failures(self) -> None:
        self.server.planned = [None, {"status": 503, "code": "overloaded"}]
        client = self.client()
        client.track("jump")
        wait_until(lambda: len(self.server.requests) == 3)
        self.assertEqual(len({event["id"] for event in self.server.events()}), 1)
        self.assertEqual(self.reported, [])

    def test_track_from_many_threads_loses_nothing(self) -> None:
        client = self.client()

        def track(number: int) -> None:
            for count in range(200):
                client.track("jump", value=number * 200 + count)

        threads = [threading.Thread(target=track, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.close()
        self.assertEqual(sorted(event["value"] for event in self.server.events()), list(range(1600)))

    def test_offline_queue_is_bounded_and_reports_what_it_dropped(self) -> None:
        client = self.client(url="http://127.0.0.1:9", queue_events_max=5, flush_interval_s=1e6)
        for number in range(8):
            client.track("jump", value=number)
        with self.assertRaises(Unreachable):
            client.flush()
        self.assertEqual([(error.code, error.count) for error in self.reported if isinstance(error, EventsLost)], [("queue_full", 1)] * 3)

    def test_queue_is_bounded_in_bytes(self) -> None:
        for store in (MemoryStore(1_000, 1_000), FileStore(self.file, 1_000, 1_000)):
            dropped = sum(store.add((str(number), "{%s}" % ("x" * 98))) for number in range(200_0))
            self.assertEqual((len(store), dropped), (10, 1_990))
            store.close()
        self.assertLess(os.path.getsize(self.file), 4 * 1_000 + (2 << 16))

    def test_event_that_is_not_json_is_reported(self) -> None:
        client = self.client()
        client.track("jump", props={"when": object()})
        client.track("jump", value=float("nan"))
        client.track("fall")
        client.close()
        client.track("late")
        self.assertEqual([error.code for error in self.reported if isinstance(error, PlaymeterError)], ["invalid", "invalid", "closed"])
        self.assertEqual([event["event"] for event in self.server.events()], ["fall"])

    def test_error_in_on_error_does_not_stop_the_thread(self) -> None:
        def fail(_: Exception) -> None:
            raise RuntimeError("in the game")

        self.server.planned = [{"status": 403, "code": "forbidden"}]
        client = self.client(on_error=fail)
        with self.assertLogs("playmeter"):
            client.track("jump")
            wait_until(lambda: len(self.server.requests) == 1)
            client.track("fall")
            wait_until(lambda: len(self.server.requests) == 2)

    def test_program_that_ends_sends_its_events(self) -> None:
        program = start_program(
            """
            import sys, playmeter
            game = playmeter.Playmeter(sys.argv[1], "pm_pk_test", flush_interval_s=1e6, sessions=True)
            game.track("jump")
            """,
            self.server.url,
        )
        _, err = program.communicate(timeout=60)
        self.assertEqual((program.returncode, err), (0, ""))
        self.assertEqual([event["event"] for event in self.server.events()], ["$session_start", "jump", "$session_end"])

    def test_events_of_a_killed_program_are_sent_by_the_next(self) -> None:
        program = start_program(
            """
            import sys, time, playmeter
            game = playmeter.Playmeter("http://127.0.0.1:9", "pm_pk_test", queue_file=sys.argv[1])
            for number in range(100):
                game.track("jump", value=number)
            print("tracked", flush=True)
            time.sleep(600)
            """,
            self.file,
        )
        assert program.stdout and program.stderr
        self.assertEqual(program.stdout.readline(), "tracked\n")
        with self.assertRaisesRegex(ValueError, "another process"):
            self.client(queue_file=self.file)
        program.send_signal(signal.SIGKILL)
        program.wait()
        program.stdout.close()
        program.stderr.close()
        with open(self.file, "a", encoding="utf-8") as file:
            file.write('+cut-off {"event":"ju')
        client = self.client(queue_file=self.file)
        client.flush()
        self.assertEqual([event["value"] for event in self.server.events()], list(range(100)))
        client.close()
        self.client(queue_file=self.file).close()
        self.assertEqual(len(self.server.events()), 100, "sent once")

    def test_variables_have_defaults_offline_and_their_last_values(self) -> None:
        client = self.client(url="http://127.0.0.1:9", defaults={"speed": 1})
        self.assertEqual((client.vars.load(), client.vars.get("speed")), (False, 1))
        with self.assertRaises(KeyError):
            client.vars.get("sky")

    def test_backoff_is_exponential_with_jitter_after_retry_after(self) -> None:
        for failures in range(1, 40):
            most = min(300, 0.5 * 2**failures)
            self.assertTrue(most / 2 <= backoff_s(failures) <= most)
        self.assertGreaterEqual(backoff_s(1, Refused(503, {}, 120)), 120)

    def test_ids_are_in_order(self) -> None:
        ids = [uuid7() for _ in range(10_000)]
        self.assertEqual(ids, sorted(set(ids)))


if __name__ == "__main__":
    unittest.main()
