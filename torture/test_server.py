"""Tests of the client that asks a busy server again."""

import http.server
import json
import threading
import unittest
from unittest import mock

import liveops
import server

BUSY = 429, {"type": "/problems/too_many"}
FULL = 503, {"type": "/problems/disk_full"}
DONE = 200, {"done": True}


class BusyServerTests(unittest.TestCase):
    """A fake server that answers with the given responses in turn, and goes on with the last one."""

    def start(self, *answers):
        left = list(answers)

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                status, answer = left.pop(0) if len(left) > 1 else left[0]
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                """Keeps the output of the tests short."""

        fake = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        fake.daemon_threads = True
        self.addCleanup(fake.server_close)
        self.addCleanup(fake.shutdown)
        threading.Thread(target=fake.serve_forever, args=(0.01,), daemon=True).start()
        return fake.server_address

    def get(self, *answers):
        client = server.Client(self.start(*answers), "key")
        self.addCleanup(client.close)
        with mock.patch.object(server, "BUSY_PAUSE_S", 0.01), mock.patch.object(server, "DEADLINE_S", 0.1):
            return client.get("/")

    def send(self, *answers):
        connection = liveops.http.client.HTTPConnection(*self.start(*answers), timeout=10)
        self.addCleanup(connection.close)
        with mock.patch.object(liveops, "BUSY_PAUSE_S", 0.01), mock.patch.object(liveops, "DEADLINE_S", 0.1):
            return liveops.send_until_answered(connection, "key", "GET", "/", None, None)

    def test_busy_server_is_asked_again(self):
        self.assertEqual(self.get(BUSY, BUSY, DONE), DONE[1])
        self.assertEqual(self.send(BUSY, BUSY, DONE), DONE)

    def test_server_that_stays_busy_has_failed_at_the_deadline(self):
        with self.assertRaisesRegex(server.ServerFailure, "GET / : 429"):
            self.get(BUSY)
        self.assertEqual(self.send(BUSY), BUSY)

    def test_other_rejections_are_final(self):
        with self.assertRaisesRegex(server.ServerFailure, "404"):
            self.get((404, {}), DONE)
        self.assertEqual(self.send(FULL, DONE), FULL)


if __name__ == "__main__":
    unittest.main()
