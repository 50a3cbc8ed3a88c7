"""Starts, stops and kills a server under test, and a small client for its API."""

import http.client
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

# Every wait for a condition ends after this time. Only something broken takes that long, however busy the machine is.
DEADLINE_S = 180
# Pause before a request is repeated that a busy server has rejected.
BUSY_PAUSE_S = 0.2
# A command may rebuild or verify the whole data folder.
COMMAND_TIMEOUT_S = 600


class ServerFailure(Exception):
    """The server or a command violated its contract."""


class Server:
    """A server process on a data folder; one process at a time."""

    def __init__(self, binary, data, log_path):
        self.binary, self.data, self.log_path = str(binary), data, log_path
        self.process = None

    def start(self, **settings):
        """Starts the process without waiting. `settings` are environment variables without their prefix."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PLAYMETER_")}
        fault = os.environ.get("PLAYMETER_INJECTED_FAULT")
        environment |= {"PLAYMETER_INJECTED_FAULT": fault} if fault else {}
        # A server for which no disk has enough space rejects everything.
        settings |= {"LOG__FREE_BYTES_MIN": 1 << 62} if fault == "reject_everything" else {}
        settings = {"STOP_TIMEOUT_S": DEADLINE_S} | settings
        environment |= {f"PLAYMETER_{name}": str(value) for name, value in settings.items()}
        command = [self.binary, "serve", "--data", str(self.data), "--listen", "127.0.0.1:0"]
        with open(self.log_path, "ab") as log:
            log.write(f"--- {' '.join(command)} {settings}\n".encode())
            log.flush()
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=environment
            )

    def wait_ready(self):
        """Waits until the server reports that it is ready; returns the seconds that took."""
        started_s, output = time.monotonic(), b""
        while not output.endswith(b"\n"):
            remaining_s = started_s + DEADLINE_S - time.monotonic()
            if remaining_s <= 0 or not select.select([self.process.stdout], [], [], remaining_s)[0]:
                raise ServerFailure(f"the server was not ready within {DEADLINE_S} s")
            chunk = os.read(self.process.stdout.fileno(), 4096)
            if not chunk:
                code = self.process.wait()
                raise ServerFailure(f"the server exited with {code} instead of starting: {self.last_lines()}")
            output += chunk
        return time.monotonic() - started_s

    def last_lines(self):
        """Returns the end of the server's log."""
        return self.log_path.read_text(errors="replace").splitlines()[-3:]

    def exit_code(self):
        """Returns the exit code of the process, or None while it runs."""
        return self.process.poll()

    def kill(self):
        """Kills the process with SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self._close()

    def terminate(self):
        """Sends SIGTERM without waiting."""
        self.process.send_signal(signal.SIGTERM)

    def wait_stopped(self):
        """Waits for the process to stop after `terminate`; returns its exit code."""
        try:
            code = self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise ServerFailure(f"the server did not stop within {DEADLINE_S} s") from error
        self._close()
        return code

    def _close(self):
        self.process.wait()
        self.process.stdout.close()
        self.process = None

    def bootstrap(self):
        """Returns the content of the server's bootstrap.json."""
        path = self.data / "bootstrap.json"
        if not path.exists():
            raise ServerFailure("the server is ready but bootstrap.json is missing, so its keys are unknown")
        return json.loads(path.read_text())

    def address(self):
        """Returns the host and port of the running server."""
        url = urlsplit(self.bootstrap()["url"])
        return url.hostname, url.port

    def command(self, *args):
        """Runs `playmeter ARGUMENTS --data DIR --json`; returns its exit code and its output."""
        command = [self.binary, *args, "--data", str(self.data), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S)
        return done.returncode, json.loads(done.stdout) if done.stdout.strip() else done.stderr.strip()


def run_checks(binary, name, settings, check):
    """Runs `check(server, folder)`, which yields what is wrong, on a new server; prints the outcome, returns the exit code."""
    with tempfile.TemporaryDirectory(prefix=f"playmeter-{name}-") as folder:
        server = Server(binary.resolve(), Path(folder) / "data", Path(folder) / "server.log")
        try:
            server.start(**settings)
            server.wait_ready()
            problems = list(check(server, Path(folder)))
            server.terminate()
            code = server.wait_stopped()
            problems += [f"the server exited with {code}: {server.last_lines()}"] if code else []
        except ServerFailure as error:
            problems = [str(error)]
        finally:
            server.kill()
    for problem in problems:
        print(f"FAILED {problem}")
    print(f"{0 if problems else 1} passed, {1 if problems else 0} failed")
    return 1 if problems else 0


class Client:
    """Sends requests with a secret key over one connection."""

    def __init__(self, address, secret_key):
        self.connection = http.client.HTTPConnection(*address, timeout=DEADLINE_S)
        self.headers = {"Authorization": f"Bearer {secret_key}", "Content-Type": "application/json"}

    def get(self, path):
        """Returns the JSON of the response."""
        return self._request("GET", path, None)

    def post(self, path, body):
        """Returns the JSON of the response."""
        return self._request("POST", path, json.dumps(body))

    def close(self):
        self.connection.close()

    def _request(self, method, path, body):
        deadline_s = time.monotonic() + DEADLINE_S
        while True:
            try:
                self.connection.request(method, path, body, self.headers)
                response = self.connection.getresponse()
                content = response.read()
            except (OSError, http.client.HTTPException) as error:
                raise ServerFailure(f"{method} {path} {body or ''}: no response: {error!r}") from error
            # On a busy machine queries time out, and those that have not ended yet count against the limit of a game.
            if response.status not in (429, 503) or time.monotonic() > deadline_s:
                break
            time.sleep(BUSY_PAUSE_S)
        if response.status != 200:
            raise ServerFailure(f"{method} {path} {body or ''}: {response.status} {content[:400].decode()}")
        return json.loads(content)
