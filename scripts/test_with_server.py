"""Tests of `with-server`, with a program in place of the server."""

import pathlib
import subprocess
import tempfile
import unittest

WITH_SERVER = pathlib.Path(__file__).resolve().parent / "with-server"

READY = """
import http.server, json, os, pathlib, sys

class SignIn(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/exit":
            print("a panic", flush=True)
            os._exit(3)
        self.send_response(int(self.path[1:]))
        if self.path == "/303":
            self.send_header("set-cookie", "session=abc; HttpOnly")
        self.end_headers()

server = http.server.HTTPServer(("127.0.0.1", 0), SignIn)
url = f"http://127.0.0.1:{server.server_port}"
data = pathlib.Path(sys.argv[sys.argv.index("--data") + 1])
bootstrap = {"url": url, "sign_in_url": f"{url}/STATUS", "public_key": "public", "secret_key": "secret"}
(data / "bootstrap.json").write_text(json.dumps(bootstrap))
print("Playmeter is ready", flush=True)
server.serve_forever()
"""


class WithServer(unittest.TestCase):
    def run_with(self, server, *command, timeout_s=120):
        """Runs the command with this Python program as the server."""
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "server")
            program.write_text(f"#!/usr/bin/env python3\n{server}")
            program.chmod(0o755)
            environment = {"PATH": "/usr/bin:/bin", "TMPDIR": folder, "WITH_SERVER_TIMEOUT_S": str(timeout_s)}
            whole = [WITH_SERVER, program, "--", *command]
            done = subprocess.run(whole, capture_output=True, text=True, env=environment, timeout=300)
            self.assertEqual([path.name for path in pathlib.Path(folder).iterdir()], ["server"], "files are left behind")
            return done

    def test_command_gets_the_address_the_keys_and_a_session(self):
        names = "$PLAYMETER_PUBLIC_KEY $PLAYMETER_SECRET_KEY $PLAYMETER_SESSION $PLAYMETER_URL"
        done = self.run_with(READY.replace("STATUS", "303"), "sh", "-c", f"echo {names}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^public secret session=abc http://127\.0\.0\.1:\d+\n$")

    def test_exit_code_is_that_of_the_command(self):
        done = self.run_with(READY.replace("STATUS", "303"), "sh", "-c", "exit 7")
        self.assertEqual((done.returncode, "exited" in done.stderr), (7, False), done.stderr)

    def test_server_that_ends_at_once_fails_with_its_output(self):
        done = self.run_with("import sys; sys.exit('no such option')", "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the server ended before it was ready", done.stderr)
        self.assertIn("no such option", done.stderr)

    def test_server_that_never_gets_ready_fails_with_its_output(self):
        done = self.run_with("import time; print('recovering', flush=True); time.sleep(300)", "true", timeout_s=5)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the server was not ready within 5 s", done.stderr)
        self.assertIn("recovering", done.stderr)

    def test_refused_sign_in_fails(self):
        done = self.run_with(READY.replace("STATUS", "401"), "true")
        self.assertEqual((done.returncode, "signing in failed" in done.stderr), (1, True), done.stderr)

    def test_sign_in_without_a_cookie_fails(self):
        done = self.run_with(READY.replace("STATUS", "200"), "true")
        self.assertEqual((done.returncode, "set no cookie" in done.stderr), (1, True), done.stderr)

    def test_server_that_dies_during_the_command_is_reported(self):
        command = ["sh", "-c", "curl -s $PLAYMETER_URL/exit; sleep 1; exit 5"]
        done = self.run_with(READY.replace("STATUS", "303"), *command)
        self.assertEqual(done.returncode, 5)
        self.assertIn("the server exited with 3", done.stderr)
        self.assertIn("a panic", done.stderr)


if __name__ == "__main__":
    unittest.main()
