"""A server under test: started, waited for, killed by its process id; and a small client for its questions."""

import http.client
import json
import os
import select
import signal
import subprocess
import time
from urllib.parse import urlsplit

READY_S = 30
STOP_S = 30


class Broken(Exception):
    """The server or a command did something it must never do."""


class Server:
    """One process at a time on one data folder."""

    def __init__(self, binary, data, log_path):
        self.binary, self.data, self.log_path = str(binary), data, log_path
        self.process = None

    def start(self, **settings):
        """Starts the process without waiting. Settings are the variables without their prefix."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PLAYMETER_")}
        fault = os.environ.get("PLAYMETER_INJECTED_FAULT")
        environment |= {"PLAYMETER_INJECTED_FAULT": fault} if fault else {}
        environment |= {f"PLAYMETER_{name}": str(value) for name, value in settings.items()}
        command = [self.binary, "serve", "--data", str(self.data), "--listen", "127.0.0.1:0"]
        with open(self.log_path, "ab") as log:
            log.write(f"--- {' '.join(command)} {settings}\n".encode())
            log.flush()
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=environment
            )

    def wait_ready(self):
        """Returns the seconds until the server said that it is ready."""
        begin, said = time.monotonic(), b""
        while not said.endswith(b"\n"):
            left = begin + READY_S - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise Broken(f"the server was not ready within {READY_S} s")
            chunk = os.read(self.process.stdout.fileno(), 4096)
            if not chunk:
                said = self.log_path.read_text(errors="replace").splitlines()[-1:]
                raise Broken(f"the server ended with {self.process.wait()} instead of starting: {said}")
            said += chunk
        return time.monotonic() - begin

    def kill(self):
        """`kill -9`, whatever it was doing."""
        if self.process is not None:
            self.process.kill()
            self._ended()

    def terminate(self):
        """Asks it to stop, without waiting."""
        self.process.send_signal(signal.SIGTERM)

    def wait_stopped(self):
        """After `terminate`: its exit code, which has to come in time."""
        try:
            code = self.process.wait(STOP_S)
        except subprocess.TimeoutExpired as late:
            self.kill()
            raise Broken(f"the server did not stop within {STOP_S} s") from late
        self._ended()
        return code

    def _ended(self):
        self.process.wait()
        self.process.stdout.close()
        self.process = None

    def bootstrap(self):
        """What the server wrote down about itself."""
        path = self.data / "bootstrap.json"
        if not path.exists():
            raise Broken("the server is ready but there is no bootstrap.json, so nobody has its keys")
        return json.loads(path.read_text())

    def address(self):
        """Host and port of this start."""
        url = urlsplit(self.bootstrap()["url"])
        return url.hostname, url.port

    def command(self, *arguments):
        """Runs `playmeter ARGUMENTS --data DIR --json`: its exit code and what it said."""
        command = [self.binary, *arguments, "--data", str(self.data), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        return done.returncode, json.loads(done.stdout) if done.stdout.strip() else done.stderr.strip()


class Client:
    """Asks questions with a secret key, over one connection."""

    def __init__(self, address, secret_key):
        self.connection = http.client.HTTPConnection(*address, timeout=60)
        self.headers = {"Authorization": f"Bearer {secret_key}", "Content-Type": "application/json"}

    def get(self, path):
        """The answer's JSON."""
        return self._ask("GET", path, None)

    def post(self, path, question):
        """The answer's JSON."""
        return self._ask("POST", path, json.dumps(question))

    def close(self):
        self.connection.close()

    def _ask(self, method, path, body):
        self.connection.request(method, path, body, self.headers)
        response = self.connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise Broken(f"{method} {path} {body or ''}: {response.status} {content[:400].decode()}")
        return json.loads(content)
