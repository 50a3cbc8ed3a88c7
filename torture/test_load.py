"""Tests of the connections that generate load."""

import json
import socket
import unittest
from unittest import mock

from events import SECRET, SentEvents
from load import Connection, Credential, Load


def new_load(address, connections=1):
    return Load("test", address, [Credential(1, SECRET, "key")], SentEvents(), [], connections, 0.0)


class CountTests(unittest.TestCase):
    """A fake server that answers every request with one status."""

    def counts(self, status, answer):
        """Returns what a connection counted when it had one response or more, and its problems."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        load = new_load(listener.getsockname())
        load.start()
        while not load.responses():
            accepted, _ = listener.accept()
            with accepted:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += accepted.recv(1 << 16)
                body = json.dumps(answer).encode()
                accepted.sendall(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
                accepted.recv(1 << 20)
        listener.close()
        return load, load.stop()[0]

    def test_rejected_request_counts_as_a_response_and_a_rejection(self):
        load, report = self.counts(503, {})
        self.assertGreaterEqual(load.rejections(), 1)
        self.assertEqual((load.rejections(), load.acked()), (load.responses(), 0))
        self.assertEqual(report.problems, [])

    def test_connection_that_fails_is_a_problem(self):
        with mock.patch.object(Connection, "_next_request", side_effect=KeyError("broken")):
            load = new_load(("127.0.0.1", 9), connections=2)
            load.start()
            for thread in load.threads:
                thread.join()
            problems = [line for report in load.stop() for line in report.problems]
        self.assertEqual(problems, ["a connection failed: KeyError('broken')"] * 2)


if __name__ == "__main__":
    unittest.main()
