"""Live-ops, identities, erasures and collected files under crashes: requests that are repeated until they are answered.

Every writer has one request at a time and repeats it, with the same `Idempotency-Key` or event ids, until it gets an
answer, also after restarts. So the exact result of everything it sent is known at the end.
"""

import http.client
import json
import random
import re
import socket
import threading
import time
import uuid
from urllib.parse import quote

from server import BUSY_PAUSE_S, DEADLINE_S, Client

GAME = "third"
SCOPES = "events:write,scores:write,players:delete,query,admin"
BOARD = "torture"
MEETING, FILED, PRIVATE = "meeting", "filed", "private"
RETRY_STATUSES = (408, 429, 503)
# Every this many-th step of a writer; the other steps submit scores.
IDENTIFY_EVERY, ERASE_EVERY = 5, 17
PLAYERS_PER_WRITER = 20
LINES_PER_FILE = 40


class State:
    """What the writers have sent and which answers they got, over all cycles of one data folder."""

    def __init__(self, folder, writers=3):
        self.inbox = folder / "inbox"
        self.inbox.mkdir()
        self.key_path = folder / "third.key"
        self.writers = [Writer(number) for number in range(writers)]
        self.lines = 0

    def settings(self):
        """Returns the settings of the collector, once the game that it is for exists."""
        if not self.key_path.exists():
            return {}
        names = {"TRANSPORT": "dir", "DECODER": "json", "GAME": GAME, "PATH": self.inbox}
        names |= {"AFTER": "delete", "SETTLE_MS": 20, "SCAN_INTERVAL_MS": 50}
        return {f"COLLECTORS__FILES__{name}": value for name, value in names.items()}

    def write_file(self):
        """Adds a file of events to the collector's folder; it is complete when it gets its name."""
        first, self.lines = self.lines, self.lines + LINES_PER_FILE
        lines = (json.dumps({"event": FILED, "player": f"line {number}"}) for number in range(first, self.lines))
        unfinished = self.inbox / f"{first}.part"
        unfinished.write_text("\n".join(lines) + "\n")
        unfinished.rename(self.inbox / f"{first}.ndjson")

    def commands(self):
        """Returns the number of commands that were answered."""
        return sum(writer.answered for writer in self.writers)


class Writer:
    """One client and what it knows."""

    def __init__(self, number):
        self.number, self.steps, self.answered = number, 0, 0
        self.player, self.total = f"writer {number}", 0
        self.links = self.meetings = 0
        self.pending = None
        # Ids of players whose data was stored and then erased, by the receipt of the erasure.
        self.erased = {}

    def next_request(self, rng):
        """Returns the request without an answer, or else a new one: (method, path, body, what to do with the answer)."""
        if self.pending is None:
            self.steps += 1
            if self.steps == 1:
                self.pending = self._declare_board()
            elif self.steps % ERASE_EVERY == 0:
                self.pending = self._private_event(rng)
            elif self.steps % IDENTIFY_EVERY == 0:
                self.pending = self._identify()
            else:
                self.pending = self._score(rng.randrange(1, 1000))
        return self.pending

    def _declare_board(self):
        return "PUT", f"/v1/boards/{BOARD}", {"mode": "open", "keep": "sum"}, None, lambda _: None

    def _score(self, score):
        body = {"player": self.player, "score": score}
        return "POST", f"/v1/boards/{BOARD}/scores", body, uuid.uuid4().hex, lambda answer: self._scored(score, answer)

    def _scored(self, score, answer):
        self.total += score
        if answer["best"] != self.total:
            return f"{self.player}: the answer to a score says {answer['best']} instead of {self.total}"
        return None

    def _identify(self):
        anonymous = f"anonymous {self.number}/{self.links}"
        player = f"person {self.number}/{self.links % PLAYERS_PER_WRITER}"
        events = [
            {"event": MEETING, "player": anonymous},
            {"event": "$identify", "player": player, "props": {"anonymous": anonymous}},
            {"event": MEETING, "player": player},
        ]
        events = [event | {"id": str(uuid.uuid4())} for event in events]
        return "POST", "/v1/events", events, None, lambda answer: self._identified(answer)

    def _identified(self, answer):
        self.links, self.meetings = self.links + 1, self.meetings + 2
        if answer["accepted"] + answer["duplicate"] != 3:
            return f"{self.player}: linking an anonymous id was answered with {answer}"
        return None

    def _private_event(self, rng):
        canary = new_canary(rng)
        event = {"event": PRIVATE, "player": canary, "props": {"note": f"{canary} was here"}, "id": str(uuid.uuid4())}
        return "POST", "/v1/events", event, None, lambda _: self._erase(canary)

    def _erase(self, canary):
        self.pending = "DELETE", f"/v1/players/{quote(canary)}", None, uuid.uuid4().hex, lambda it: self._erased(canary, it)

    def _erased(self, canary, answer):
        self.erased[canary] = answer["receipt"]

    def accept(self, answer):
        """Takes the answer to the pending request; returns the problem with it, if any."""
        answered, self.pending = self.pending, None
        self.answered += 1
        return answered[4](answer)


class LiveOpsLoad:
    """The writers of one cycle, and the files that are collected during it."""

    def __init__(self, seed, address, state):
        self.address, self.state, self.stopping = address, state, threading.Event()
        self.key, self.problems = state.key_path.read_text(), []
        self.rngs = [random.Random(f"{seed}/{writer.number}") for writer in state.writers]
        pairs = zip(state.writers, self.rngs)
        self.threads = [threading.Thread(target=self._write, args=pair, daemon=True) for pair in pairs]

    def start(self):
        self.state.write_file()
        for thread in self.threads:
            thread.start()

    def stop(self):
        """Stops the writers and returns what was wrong."""
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        return self.problems

    def _write(self, writer, rng):
        try:
            self._write_until_stopped(writer, rng)
        except Exception as error:
            self.problems.append(f"{writer.player} failed: {error!r}")

    def _write_until_stopped(self, writer, rng):
        connection = None
        while not self.stopping.is_set():
            try:
                connection = connection or http.client.HTTPConnection(*self.address, timeout=DEADLINE_S)
                self._step(connection, writer, rng)
            except socket.timeout:
                self.problems.append(f"{writer.player}: no response within {DEADLINE_S} s")
                connection = None
            except (OSError, http.client.HTTPException):
                connection = None
                self.stopping.wait(0.01)
            self.stopping.wait(rng.random() * 0.01)

    def _step(self, connection, writer, rng):
        status, answer = send(connection, self.key, *writer.next_request(rng)[:4])
        if status in RETRY_STATUSES:
            self.stopping.wait(0.05)
        elif status >= 300:
            self.problems.append(f"{writer.player}: {writer.pending[:2]} got status {status}: {answer}")
            writer.pending = None
        else:
            problem = writer.accept(answer)
            self.problems += [problem] if problem else []


def send(connection, key, method, path, body, idempotency_key):
    """Sends a request; returns its status and its JSON."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    headers |= {"Idempotency-Key": idempotency_key} if idempotency_key else {}
    content = None if body is None else json.dumps(body, ensure_ascii=False).encode()
    connection.request(method, path.replace(" ", "%20"), content, headers)
    response = connection.getresponse()
    content = response.read()
    return response.status, json.loads(content) if content else None


def send_until_answered(connection, *request):
    """Sends a request again as long as the server says that it is busy; returns its status and its JSON.

    Commands have an `Idempotency-Key` and events have ids, so that a repeat changes nothing. A full disk is not a busy
    server.
    """
    deadline_s = time.monotonic() + DEADLINE_S
    while True:
        status, answer = send(connection, *request)
        is_busy = status in RETRY_STATUSES and (answer or {}).get("type") != "/problems/disk_full"
        if not is_busy or time.monotonic() > deadline_s:
            return status, answer
        time.sleep(BUSY_PAUSE_S)


def finish(state, address):
    """Answers everything that is pending, without further crashes; returns what was wrong."""
    connection = http.client.HTTPConnection(*address, timeout=DEADLINE_S)
    key, problems = state.key_path.read_text(), []
    for writer in state.writers:
        while writer.pending is not None:
            status, answer = send_until_answered(connection, key, *writer.pending[:4])
            if status >= 300:
                return problems + [f"{writer.player}: {writer.pending[:2]} got status {status}: {answer}"]
            problem = writer.accept(answer)
            problems += [problem] if problem else []
    deadline_s = time.monotonic() + DEADLINE_S
    receipts = [receipt for writer in state.writers for receipt in writer.erased.values()]
    while receipts or any(state.inbox.iterdir()):
        if time.monotonic() > deadline_s:
            left = [path.name for path in state.inbox.iterdir()]
            return problems + [f"after {DEADLINE_S} s: erasures {receipts} and files {left} are not done"]
        get = lambda receipt: send_until_answered(connection, key, "GET", f"/v1/erasures/{receipt}", None, None)[1]
        receipts = [receipt for receipt in receipts if get(receipt).get("state") != "done"]
        time.sleep(0.05)
    connection.close()
    return problems


def check(report, state, data, address):
    """Checks the sums of the scores, the players behind linked ids, the collected lines, and the erased players."""
    report.check("every command gets its own answer", finish(state, address), f"{state.commands()} answered")
    if not state.key_path.exists() or report.failures:
        return
    connection = http.client.HTTPConnection(*address, timeout=DEADLINE_S)
    key = state.key_path.read_text()
    _, page = send_until_answered(connection, key, "GET", f"/v1/boards/{BOARD}/scores?per_page=100", None, None)
    stored = {row["player"]: row["score"] for row in page["rows"]}
    sent = {writer.player: writer.total for writer in state.writers if writer.total}
    report.check("every score is added once", compare("scores", stored, sent), f"{len(sent)} sums")
    people = sum(min(writer.links, PLAYERS_PER_WRITER) for writer in state.writers)
    expected = {
        (MEETING, "count"): sum(writer.meetings for writer in state.writers),
        (MEETING, "uniques"): people,
        (FILED, "count"): state.lines,
        (FILED, "uniques"): state.lines,
    }
    client, found = Client(address, key), {}
    for metric, measure in expected:
        query = {"metric": metric, "measure": measure, "last": "24h", "step": "all"}
        series = client.post("/v1/query", query)["series"]
        found[metric, measure] = series[0]["total"] if series else 0
    # Beyond 1,000 the number of distinct players is an estimate.
    exact = {name: count for name, count in expected.items() if name[1] == "count" or count < 1_000}
    wrong = compare("counts", {name: found[name] for name in exact}, exact)
    report.check("linked ids are one player, and every collected line counts once", wrong, f"{expected}")
    canaries = [canary for writer in state.writers for canary in writer.erased]
    report.check("no byte of the data names an erased player", find(data, canaries), f"{len(canaries)} erased")
    client.close()
    connection.close()


def compare(name, found, expected):
    """Returns the difference as a problem, if there is one."""
    different = {key: (found.get(key), expected.get(key)) for key in found | expected}
    different = {key: both for key, both in different.items() if both[0] != both[1]}
    return [f"{name} (found, expected): {different}"] if different else []


def new_canary(rng):
    """Returns a player id whose pairs of characters occur nowhere else."""
    return "canary-" + "".join(chr(rng.randrange(0x4E00, 0x9FA6)) for _ in range(12))


# Two characters of a canary. The expression looks ahead, so that pairs overlap.
PAIR = re.compile(rb"(?=((?:[\xe4-\xe9][\x80-\xbf]{2}){2}))")


def find(data, canaries):
    """Returns where a file of the folder contains a part of a canary.

    Two adjacent characters are enough: a compressed table keeps a name as a whole or in pieces, and a piece that it
    replaces by a reference occurred before.
    """
    names = {pair.group(1): canary for canary in canaries for pair in PAIR.finditer(canary.encode())}
    problems = []
    for path in sorted(data.rglob("*")):
        if path.is_file():
            found = {names.get(pair.group(1)) for pair in PAIR.finditer(path.read_bytes())} - {None}
            problems += [f"{path.relative_to(data)} contains {canary}" for canary in sorted(found)]
    return problems
