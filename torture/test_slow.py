"""Tests of the verdicts on latency and memory, and of the thread that keeps slow connections."""

import contextlib
import io
import socket
import unittest
from unittest import mock

import queries
import slow

FAST_US, SLOW_US = slow.P99_FLOOR_US, 5 * slow.P99_FLOOR_US


def judged(judge, *arguments):
    """Returns the problems and what was printed."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        return list(judge(*arguments)), printed.getvalue()


class VerdictTests(unittest.TestCase):
    def test_ratio_is_printed_and_judged_only_with_a_limit(self):
        pairs = [(FAST_US, SLOW_US)] * 3
        problems, printed = judged(slow.judge_ratio, pairs, "load", None)
        self.assertEqual((problems, "p99 beside load relative to alone: 5.00" in printed), ([], True))
        self.assertEqual(len(judged(slow.judge_ratio, pairs, "load", 4.9)[0]), 1)
        self.assertEqual(judged(slow.judge_ratio, pairs, "load", 5.0)[0], [])

    def test_median_of_the_rounds_decides(self):
        same, longer = (FAST_US, FAST_US), (FAST_US, SLOW_US)
        self.assertEqual(judged(slow.judge_ratio, [same, longer, same], "load", 2.0)[0], [])
        self.assertEqual(len(judged(slow.judge_ratio, [longer, same, longer], "load", 2.0)[0]), 1)

    def test_values_below_the_floor_are_equal(self):
        self.assertEqual(judged(slow.judge_ratio, [(1, slow.P99_FLOOR_US)], "load", 1.0)[0], [])

    def test_memory_is_printed_and_judged_only_with_a_limit(self):
        problems, printed = judged(queries.judge_memory, 3000.0, None)
        self.assertEqual((problems, "3000 MiB" in printed), ([], True))
        self.assertEqual(len(judged(queries.judge_memory, 3000.0, 2048)[0]), 1)
        self.assertEqual(judged(queries.judge_memory, 2048.0, 2048)[0], [])

    def test_missing_answer_or_event_is_a_problem(self):
        complete = {"requests_sent": 2, "requests_answered": 2, "events_sent": 2, "accepted": 2}
        reports = [{"total": complete}, {"total": complete | {"accepted": 1}}, {"total": complete | {"requests_answered": 1}}]
        self.assertEqual(list(slow.unanswered(reports[:1])), [])
        self.assertEqual(len(list(slow.unanswered(reports))), 2)


class SlowConnectionsTests(unittest.TestCase):
    def setUp(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=16)
        self.addCleanup(self.listener.close)

    def test_measuring_starts_when_every_connection_was_opened(self):
        with slow.SlowConnections(self.listener.getsockname(), "key", 5) as connections:
            self.assertEqual((len(connections.opened), connections.least), (5, 5))
        self.assertEqual(connections.problems, [])

    def test_failure_of_the_thread_is_a_problem(self):
        with mock.patch.object(slow.SlowConnections, "_connect", side_effect=ValueError("broken")):
            with slow.SlowConnections(self.listener.getsockname(), "key", 5) as connections:
                pass
        self.assertEqual(len(connections.problems), 2)
        self.assertIn("broken", connections.problems[0])

    def test_connections_that_cannot_be_opened_are_a_problem(self):
        with mock.patch.object(slow, "DEADLINE_S", 0.1), mock.patch.object(slow, "DRIBBLE_S", 0.01):
            address = self.listener.getsockname()
            self.listener.close()
            with slow.SlowConnections(address, "key", 5) as connections:
                pass
        self.assertEqual(len(connections.problems), 1)
        self.assertIn("only 0 of 5 slow connections were opened, last error: ConnectionRefused", connections.problems[0])


class QueryingTests(unittest.TestCase):
    def querying(self):
        querying = queries.Querying(None, 3)
        querying.stopping.set()
        return querying

    def test_wait_ends_when_a_query_has_succeeded(self):
        querying = self.querying()
        querying.statuses[200] += 1
        querying.wait_succeeded()
        self.assertEqual(querying.problems, [])

    def test_clients_without_a_success_before_the_deadline_are_a_problem(self):
        querying = self.querying()
        querying.statuses[503] += 1
        with mock.patch.object(queries, "DEADLINE_S", 0.1):
            querying.wait_succeeded()
        self.assertEqual(querying.problems, ["no query of 3 clients succeeded within 0.1 s"])


if __name__ == "__main__":
    unittest.main()
