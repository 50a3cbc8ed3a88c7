"""Several connections that offer load until they are told to stop, and note what became of every event."""

import gzip
import json
import random
import socket
import threading
import time

import ledger
from events import EITHER, PUBLIC, REPEATED, TAKEN, Door, Maker, rfc3339

AGENTS = [
    ("torture/1", "", False),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148", "ios", False),
    ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "other", True),
]
ANSWER_S = 15
# Refusals of a whole request that ask to send it again.
AGAIN = (408, 429, 503)
RESENT_SHARE = 0.7


class Request:
    """A body and everything needed to send it once more, byte by byte."""

    __slots__ = ("credential", "events", "door", "ack", "bytes", "again")

    def __init__(self, credential, events, door, ack, content):
        self.credential, self.events, self.door, self.ack, self.bytes = credential, events, door, ack, content
        self.again = False

    def rows(self, outcomes):
        """The ledger's rows for these outcomes, one for each event."""
        game, key_class = self.credential.key
        both = zip(self.events, outcomes)
        return [(game, key_class, event.ident, self.door.content_hash(event), outcome) for event, outcome in both]


class Credential:
    """A key with what it stands for."""

    def __init__(self, game, key_class, text, imports=False):
        self.key, self.text, self.imports = (game, key_class), text, imports


class Tally:
    """What a connection has to tell after it ended."""

    def __init__(self):
        self.rows, self.unknown, self.wrong = [], [], []
        self.requests = self.position = 0


class Load:
    """The connections of one cycle."""

    def __init__(self, seed, address, credentials, known, resend, connections, pause_s):
        self.stopping = threading.Event()
        shares = [resend[index::connections] for index in range(connections)]
        self.connections = [
            Connection(f"{seed}.{index}", address, credentials, known, shares[index], self.stopping, pause_s)
            for index in range(connections)
        ]
        self.threads = [threading.Thread(target=connection.run, daemon=True) for connection in self.connections]

    def start(self):
        for thread in self.threads:
            thread.start()

    def stop(self):
        """Ends all connections and returns what they have to tell."""
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        return [connection.tally for connection in self.connections]


class Connection:
    """One client: sends, waits for the answer, sends again."""

    def __init__(self, name, address, credentials, known, resend, stopping, pause_s):
        self.rng = random.Random(name)
        self.address, self.credentials, self.known = address, credentials, known
        self.resend, self.stopping, self.pause_s = resend, stopping, pause_s
        fresh_players = self.rng.choice([0.0, 0.0, 0.1])
        self.maker = Maker(self.rng, known, name, fresh_players)
        self.tally = Tally()
        self.socket = self.buffer = None

    def run(self):
        while not self.stopping.is_set():
            request = self._next()
            try:
                self._send_and_settle(request)
            except socket.timeout:
                self.tally.wrong.append(f"a request of {len(request.events)} events had no answer in {ANSWER_S} s")
                self._unknown(request)
            except OSError:
                self._unknown(request)
                self.stopping.wait(0.005)
            if self.pause_s:
                self.stopping.wait(self.rng.random() * 2 * self.pause_s)
        self._close()
        self.tally.unknown.extend(self.resend)

    def _next(self):
        if self.resend and self.rng.random() < 0.5:
            return self.resend.pop()
        return self._fresh()

    def _fresh(self):
        rng = self.rng
        credential = rng.choice(self.credentials)
        now_ms = time.time_ns() // 1_000_000
        skewed = rng.random() < 0.1
        sent_at_ms = now_ms + rng.randrange(-5_000, 5_000) if skewed else None
        door = Door(*rng.choices(AGENTS, [8, 1, 1])[0], credential.imports, now_ms, sent_at_ms)
        size = 1 if rng.random() < 0.6 else rng.choice([2, 5, 20, 20, 50, 150])
        events = [self.maker.event(credential.key, door, now_ms) for _ in range(size)]
        events = self._without_surprises(events)
        ack = rng.choices(["disk", "os", "memory"], [18, 1, 1])[0]
        return Request(credential, events, door, ack, self._bytes(credential, events, door, ack))

    def _without_surprises(self, events):
        """Within a request the first of an id decides; now and then the same event stands there twice."""
        seen, kept = {}, []
        if len(events) > 1 and self.rng.random() < 0.2:
            events.append(self.rng.choice(events))
        for event in events:
            if event.ident in seen and event.fate in (TAKEN, REPEATED, EITHER):
                event = event.again(REPEATED if seen[event.ident] == TAKEN else event.fate)
                if event.ident.startswith("-"):
                    continue
            seen.setdefault(event.ident, event.fate)
            kept.append(event)
        return kept

    def _bytes(self, credential, events, door, ack):
        texts, rng = [event.text for event in events], self.rng
        content_type = "application/json"
        if door.sent_at_ms is not None:
            body = f'{{"sent_at":"{rfc3339(door.sent_at_ms)}","events":[{",".join(texts)}]}}'
        elif len(texts) == 1 and rng.random() < 0.8:
            body = texts[0]
        elif rng.random() < 0.3:
            body, content_type = "\n".join(texts), "application/x-ndjson"
        else:
            body = f"[{','.join(texts)}]"
        body = body.encode()
        headers = [f"Content-Type: {content_type}", f"User-Agent: {door.agent}", "Host: torture"]
        if rng.random() < 0.15:
            body = gzip.compress(body, 1)
            headers.append("Content-Encoding: gzip")
        query = [] if ack == "disk" and rng.random() < 0.5 else [f"ack={ack}"]
        if credential.key[1] == PUBLIC and rng.random() < 0.5:
            query.append(f"key={credential.text}")
        else:
            headers.append(f"Authorization: Bearer {credential.text}")
        headers.append(f"Content-Length: {len(body)}")
        target = "/v1/events" + ("?" + "&".join(query) if query else "")
        return f"POST {target} HTTP/1.1\r\n".encode() + "\r\n".join(headers).encode() + b"\r\n\r\n" + body

    def _send_and_settle(self, request):
        if self.socket is None or self.rng.random() < 0.05:
            self._close()
            self.socket = socket.create_connection(self.address, ANSWER_S)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.buffer = b""
        self.known.offer(request.credential.key, [event for event in request.events if event.fate == TAKEN])
        self.tally.requests += 1
        self.socket.sendall(request.bytes)
        status, content = self._answer()
        if status == 202:
            self._settle(request, json.loads(content))
        elif status in AGAIN:
            self._unknown(request)
        else:
            self.tally.wrong.append(f"a good request was answered {status}: {content[:300]!r}")
            self._unknown(request)

    def _answer(self):
        while b"\r\n\r\n" not in self.buffer:
            self._more()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:])
        length = int(headers.get("content-length", 0))
        while len(self.buffer) < length:
            self._more()
        content, self.buffer = self.buffer[:length], self.buffer[length:]
        if headers.get("connection") == "close":
            self._close()
        return int(lines[0].split(" ")[1]), content

    def _more(self):
        chunk = self.socket.recv(1 << 16)
        if not chunk:
            raise ConnectionError("closed in the middle of an answer")
        self.buffer += chunk

    def _settle(self, request, answer):
        """Holds the answer against what was expected of each event."""
        refused = {result["i"]: result for result in answer["results"]}
        outcomes = []
        for index, event in enumerate(request.events):
            result = refused.get(index)
            said = _word(result) if result else "accepted"
            open_race = event.overtaken or request.again
            expected = EITHER if open_race and event.fate in (TAKEN, REPEATED) else event.fate
            if request.ack != "memory" and not _agrees(expected, said):
                self.tally.wrong.append(f"{event.text[:300]} was answered {said}, not {expected}")
            outcomes.append(ledger.ACKED if said == "accepted" else said)
            if result and result.get("id", event.ident) != event.ident:
                self.tally.wrong.append(f"result {index} names {result['id']}, not {event.ident}")
        self._check_sum(answer, outcomes)
        if request.ack == "memory":
            # Nothing is promised for these: neither that they are stored nor that they are not.
            self.tally.rows.extend(request.rows([ledger.UNKNOWN] * len(outcomes)))
            return
        self.tally.position = max(self.tally.position, int(answer["position"].split("/")[1]))
        self.tally.rows.extend(request.rows(outcomes))
        acked = [event for event, outcome in zip(request.events, outcomes) if outcome == ledger.ACKED]
        self.known.ack(request.credential.key, acked)

    def _check_sum(self, answer, outcomes):
        counted = {word: 0 for word in ("accepted", "duplicate", "late", "limited", "invalid")}
        for outcome in outcomes:
            counted["accepted" if outcome == ledger.ACKED else outcome.split(":")[0]] += 1
        said = {word: answer[word] for word in counted}
        if said != counted:
            self.tally.wrong.append(f"an answer says {said} and names {counted}")

    def _unknown(self, request):
        """No answer: noted, and kept to be sent again, unless it was refused before it could be stored twice."""
        self._close()
        self.tally.rows.extend(request.rows([ledger.UNKNOWN] * len(request.events)))
        once_only = any(event.may_be_stored_twice() for event in request.events)
        if not once_only and self.rng.random() < RESENT_SHARE:
            request.again = True
            self.tally.unknown.append(request)

    def _close(self):
        if self.socket is not None:
            self.socket.close()
            self.socket = None


def _word(result):
    return ledger.DUPLICATE if result["outcome"] == "duplicate" else f"{result['outcome']}:{result['reason']}"


def _agrees(expected, said):
    return said in ("accepted", "duplicate") if expected == EITHER else said == expected
