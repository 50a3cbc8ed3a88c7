#!/usr/bin/env python3
"""Takes and restores backups in buckets of a real S3 server, which is interrupted, refuses, and loses its bucket.

    python3 compat/s3/run.py PLAYMETER
    python3 compat/s3/run.py --fetch     only downloads the S3 server
"""

import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
import uuid

HERE = pathlib.Path(__file__).resolve().parent
JARS = HERE / "jars"
IDENTITY, CREDENTIAL = "test-identity", "test-credential"
# Only what is broken takes so long: a loaded machine is slow.
TIMEOUT_S = 180
# The seed of the events' ids and contents, so that each run sends the same.
SEED = 20


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until(condition, what):
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


class S3Server:
    """S3Proxy on a folder; each folder in it is a bucket."""

    def __init__(self, root):
        self.buckets = root / "buckets"
        self.buckets.mkdir()
        self.port = free_port()
        settings = {
            "s3proxy.endpoint": f"http://127.0.0.1:{self.port}",
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": IDENTITY,
            "s3proxy.credential": CREDENTIAL,
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(self.buckets),
        }
        self.settings = root / "s3proxy.conf"
        self.settings.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self.log = (root / "s3proxy.log").open("w")
        command = ["java", "-cp", f"{JARS}/*", "org.gaul.s3proxy.Main", "--properties", str(self.settings)]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        wait_until(self.answers, "S3Proxy does not start")

    def answers(self):
        assert self.process.poll() is None, "S3Proxy has ended"
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=5)
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return True

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


class Proxy:
    """Forwards connections; `fault(number)` says what happens to each: None, "503", or the bytes after which it is cut."""

    def __init__(self, port):
        self.target = port
        self.fault = lambda number: None
        # The bytes of a connection after which it waits until `resume` is set.
        self.stall_after, self.resume = None, threading.Event()
        self.connections = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(client, self.fault(self.connections)), daemon=True).start()

    def serve(self, client, fault):
        if fault == "503":
            client.recv(65536)
            body = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
            head = f"HTTP/1.1 503 Slow Down\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            client.sendall(head.encode() + body)
            client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass
            client.close()
            return
        server = socket.create_connection(("127.0.0.1", self.target))
        back = threading.Thread(target=self.pump, args=(server, client, None), daemon=True)
        back.start()
        self.pump(client, server, fault)
        back.join(TIMEOUT_S)
        client.close()
        server.close()

    def pump(self, source, sink, bytes_max):
        passed = 0
        try:
            while data := source.recv(16384):
                passed += len(data)
                if self.stall_after is not None and passed > self.stall_after:
                    self.resume.wait(TIMEOUT_S)
                sink.sendall(data)
                if bytes_max is not None and passed > bytes_max:
                    sink.shutdown(socket.SHUT_RDWR)
                    source.shutdown(socket.SHUT_RDWR)
                    return
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def stop(self):
        self.listener.close()


class Playmeter:
    """A server with a few megabytes of events."""

    def __init__(self, program, root, environment, settings="", name="data"):
        self.program, self.root, self.environment = program, root, environment
        self.data = root / name
        self.random = random.Random(SEED)
        (root / "playmeter.toml").write_text("[log]\nsegment_bytes = 1048576\n" + settings)
        self.log = (root / f"{name}.log").open("a")
        command = [program, "serve", "--data", self.data, "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.log, cwd=root, env={**os.environ, **environment}
        )
        assert b"ready" in self.process.stdout.readline(), (root / f"{name}.log").read_text()
        self.bootstrap = json.loads((self.data / "bootstrap.json").read_text())

    def request(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.bootstrap['secret_key']}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.bootstrap["url"] + path, content, headers, method=method)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return answer.read()

    def new_id(self):
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def send(self, count):
        for _ in range(count // 500):
            events = [
                {"event": "hit", "id": self.new_id(), "props": {"text": self.random.randbytes(300).hex()}}
                for _ in range(500)
            ]
            self.request("POST", "/v1/events", events)

    def count(self):
        query = {"metric": "hit", "last": "24h", "step": "all"}
        return json.loads(self.request("POST", "/v1/query", query))["series"][0]["total"]

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(TIMEOUT_S) == 0
        self.process.stdout.close()
        self.log.close()


class S3Backups(unittest.TestCase):
    program = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        cls.s3 = S3Server(cls.root)

    @classmethod
    def tearDownClass(cls):
        cls.s3.stop()
        cls.folder.cleanup()

    def setUp(self):
        self.bucket = f"bucket-{uuid.uuid4().hex[:8]}"
        (self.s3.buckets / self.bucket).mkdir()
        self.root = pathlib.Path(tempfile.mkdtemp(dir=type(self).root))
        self.proxy = Proxy(self.s3.port)
        self.addCleanup(self.proxy.stop)
        self.target = f"s3://{self.bucket}/games/one"
        self.environment = {
            "AWS_ACCESS_KEY_ID": IDENTITY,
            "AWS_SECRET_ACCESS_KEY": CREDENTIAL,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.proxy.port}",
        }

    def serve(self, settings="", name="data"):
        server = Playmeter(self.program, self.root, self.environment, settings, name)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        return server

    def run_command(self, *arguments, expected=0, **environment):
        command = [self.program, *map(str, arguments)]
        environment = {**os.environ, **self.environment, **environment}
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.root, env=environment, timeout=300)
        self.assertEqual(done.returncode, expected, done.stdout + done.stderr)
        return done.stdout if expected == 0 else done.stderr

    def back_up(self, server, *flags, **options):
        return self.run_command("backup", "--json", "--data", server.data, "--to", self.target, *flags, **options)

    def remove_partial_uploads(self):
        """Removes what S3Proxy keeps of interrupted uploads in its folder, and then fails to list. S3 keeps nothing."""
        for path in (self.s3.buckets / self.bucket).rglob("*"):
            if path.is_file() and re.search(r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", path.name):
                path.unlink()

    def check_restored(self, hits, *flags):
        name = f"restored-{uuid.uuid4().hex[:8]}"
        report = self.run_command("restore", "--json", "--from", self.target, "--data", self.root / name, *flags)
        self.assertTrue(json.loads(report)["verified"]["agrees"], report)
        restored = self.serve(name=name)
        self.assertEqual(restored.count(), hits)
        restored.stop()

    def test_backups_are_incremental_restorable_and_pruned(self):
        server = self.serve()
        server.send(6000)
        (self.root / "key").write_text("7c" * 32)
        flags = ("--key-file", self.root / "key")
        first = json.loads(self.back_up(server, *flags))
        second = json.loads(self.back_up(server, *flags))
        self.assertLess(second["new_bytes"] * 3, first["new_bytes"])
        server.send(500)
        self.back_up(server, *flags)
        self.check_restored(6000, "--at", first["name"], *flags)
        self.check_restored(6500, *flags)
        self.back_up(server, "--keep", "1", *flags)
        listed = self.run_command("backups", "--from", self.target, "--check", "--json", *flags)
        self.assertEqual(len(listed.splitlines()), 1)
        self.assertEqual(json.loads(listed)["damaged"], [])

    def test_wrong_credentials_and_missing_buckets_are_named(self):
        server = self.serve()
        server.send(500)
        wrong = self.back_up(server, expected=1, AWS_SECRET_ACCESS_KEY="wrong")
        self.assertRegex(wrong, "the access key or its secret is wrong|access is denied")
        self.target = "s3://no-such-bucket/games"
        self.assertIn("the bucket does not exist", self.back_up(server, expected=1))
        # The endpoint may not answer at all.
        unreachable = f"http://127.0.0.1:{free_port()}"
        self.assertIn("failed 5 times", self.back_up(server, expected=1, AWS_ENDPOINT_URL=unreachable))
        self.assertIn(b"playmeter_backups_failed_total 3", server.request("GET", "/metrics"))

    def test_interrupted_uploads_are_repeated(self):
        server = self.serve()
        server.send(4000)
        # Every other connection is cut within a request, or answered with an error.
        faults = [None, 700_000, None, "503", None, 100, None, 2_000_000]
        self.proxy.fault = lambda number: faults[number % len(faults)]
        for _ in range(3):
            self.back_up(server)
            self.remove_partial_uploads()
            server.send(500)
        self.assertGreater(self.proxy.connections, 3)
        self.proxy.fault = lambda number: None
        self.back_up(server)
        self.check_restored(5500)

    def test_a_target_that_fails_for_good_leaves_the_earlier_backup(self):
        server = self.serve()
        server.send(2000)
        self.back_up(server)
        server.send(2000)
        self.proxy.fault = lambda number: 300_000
        self.assertIn("failed 5 times", self.back_up(server, expected=1))
        self.remove_partial_uploads()
        self.proxy.fault = lambda number: None
        self.check_restored(2000)
        self.back_up(server)
        self.check_restored(4000)

    def test_a_bucket_that_vanishes_is_noticed_and_the_next_backup_is_complete(self):
        server = self.serve()
        server.send(6000)
        bucket = self.s3.buckets / self.bucket
        moved = self.root / "moved"

        def vanish(number):
            if number == 1:
                threading.Timer(0.15, lambda: shutil.move(bucket, moved)).start()
            return None

        self.back_up(server)
        server.send(3000)
        self.run_command("backups", "--from", self.target)
        shutil.move(bucket, moved)
        self.assertIn("the bucket does not exist", self.back_up(server, expected=1))
        shutil.move(moved, bucket)
        # While a backup runs: it fails or was complete just before.
        self.proxy.connections, self.proxy.fault = 0, vanish
        command = [self.program, "backup", "--data", server.data, "--to", self.target]
        subprocess.run(command, env={**os.environ, **self.environment}, capture_output=True, timeout=300)
        wait_until(moved.exists, "the bucket has not vanished")
        shutil.rmtree(bucket, ignore_errors=True)
        shutil.move(moved, bucket)
        self.remove_partial_uploads()
        self.proxy.fault = lambda number: None
        self.back_up(server)
        self.check_restored(9000)
        listed = self.run_command("backups", "--from", self.target, "--check", "--json").splitlines()
        self.assertEqual([json.loads(line)["damaged"] for line in listed], [[]] * len(listed))

    def test_an_erasure_waits_for_the_backup_that_runs(self):
        server = self.serve()
        server.request("POST", "/v1/events", [{"event": "hit", "player": "to-be-erased"}])
        server.send(4000)
        self.proxy.stall_after = 300_000
        command = [self.program, "backup", "--data", server.data, "--to", self.target]
        backup = subprocess.Popen(command, env={**os.environ, **self.environment}, stdout=subprocess.DEVNULL)
        wait_until((server.data / "log/backup.unfinished").exists, "the backup does not begin")
        server.request("DELETE", "/v1/players/to-be-erased")
        # Nothing shows that an erasure waits: without the wait it would be done within this time.
        time.sleep(2)
        erased = lambda: "players were erased" in (self.root / "data.log").read_text()
        self.assertFalse(erased())
        # Another backup is refused, events are accepted.
        self.assertIn("another backup is running", self.back_up(server, expected=1))
        server.send(500)
        self.assertFalse(erased())
        self.proxy.resume.set()
        self.assertEqual(backup.wait(TIMEOUT_S), 0)
        wait_until(erased, "the player is not erased")
        self.check_restored(4001)
        self.back_up(server)
        self.check_restored(4501)

    def test_scheduled_backups_use_the_environment_of_the_server(self):
        server = self.serve(f'[backup]\nto = "{self.target}"\nevery_hours = 1\n')
        taken = b"playmeter_backups_completed_total 1"
        wait_until(lambda: taken in server.request("GET", "/metrics"), "no backup was taken")
        listed = self.run_command("backups", "--from", self.target, "--check")
        self.assertIn("complete", listed)


def fetch_jars():
    """Downloads the S3 server with Maven unless that version is complete."""
    pom = HERE / "pom.xml"
    version = pom.read_text()
    marker = JARS / "pom.xml"
    if marker.exists() and marker.read_text() == version:
        return
    print("downloading S3Proxy", flush=True)
    shutil.rmtree(JARS, ignore_errors=True)
    # -U: Maven remembers that a download failed, and would not try it again.
    command = ["mvn", "-q", "-B", "-U", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={JARS}"]
    if code := subprocess.run(command).returncode:
        sys.exit(f"FAILED downloading S3Proxy: mvn exited with {code}")
    # Written last, so that an interrupted download is not used.
    marker.write_text(version)


if __name__ == "__main__":
    fetch_jars()
    program = sys.argv.pop(1)
    if program != "--fetch":
        S3Backups.program = str(pathlib.Path(program).resolve())
        unittest.main(verbosity=2)
