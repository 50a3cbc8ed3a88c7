"""Connections that generate load until they are stopped, and record the outcome of every event."""

import gzip
import json
import random
import socket
import threading
import time

import ledger
from events import ACCEPTED, DUPLICATE, EITHER, PUBLIC, EventGenerator, RequestContext, rfc3339
from server import DEADLINE_S

AGENTS = [
    ("torture/1", "", False),
    ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148", "ios", False),
    ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "other", True),
]
# Statuses that reject a whole request and ask for a retry.
RETRY_STATUSES = (408, 429, 503)
RETRY_SHARE = 0.7
# Pause after a connection failed. While a server stops it accepts none, which may take long on a busy machine.
RECONNECT_S = 0.05


class Request:
    """A request with its exact bytes, so that it can be sent again."""

    __slots__ = ("credential", "events", "context", "ack", "bytes", "is_retry")

    def __init__(self, credential, events, context, ack, content):
        self.credential, self.events, self.context, self.ack, self.bytes = credential, events, context, ack, content
        self.is_retry = False

    def rows(self, outcomes):
        """Returns the ledger rows for these outcomes, one per event."""
        game, key_class = self.credential.key
        both = zip(self.events, outcomes)
        return [(game, key_class, event.event_id, self.context.content_hash(event), outcome) for event, outcome in both]


class Credential:
    """A key of a game and what it permits."""

    def __init__(self, game, key_class, text, imports=False):
        self.key, self.text, self.imports = (game, key_class), text, imports


class ConnectionReport:
    """Results of a connection, read after it has stopped; other threads may read the numbers before."""

    def __init__(self):
        self.rows, self.unanswered, self.problems = [], [], []
        self.requests = self.position = 0
        # Responses, those that rejected a whole request, and events that were acknowledged.
        self.responses = self.rejections = self.acked = 0


class Load:
    """The connections of one cycle."""

    def __init__(self, seed, address, credentials, sent_events, retries, connections, pause_s):
        self.stopping = threading.Event()
        shares = [retries[index::connections] for index in range(connections)]
        self.connections = [
            Connection(f"{seed}.{index}", address, credentials, sent_events, shares[index], self.stopping, pause_s)
            for index in range(connections)
        ]
        self.threads = [threading.Thread(target=connection.run, daemon=True) for connection in self.connections]

    def start(self):
        for thread in self.threads:
            thread.start()

    def responses(self):
        """Returns how many responses have arrived."""
        return sum(connection.report.responses for connection in self.connections)

    def rejections(self):
        """Returns how many requests the server has rejected and asked to repeat."""
        return sum(connection.report.rejections for connection in self.connections)

    def acked(self):
        """Returns how many events have been acknowledged: as many as the ledger will count, or fewer."""
        return sum(connection.report.acked for connection in self.connections)

    def stop(self):
        """Stops all connections and returns their reports."""
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        return [connection.report for connection in self.connections]


class Connection:
    """One client: sends a request, waits for the response, sends the next one."""

    def __init__(self, name, address, credentials, sent_events, retries, stopping, pause_s):
        self.rng = random.Random(name)
        self.address, self.credentials, self.sent_events = address, credentials, sent_events
        self.retries, self.stopping, self.pause_s = retries, stopping, pause_s
        fresh_players = self.rng.choice([0.0, 0.0, 0.1])
        self.generator = EventGenerator(self.rng, sent_events, name, fresh_players)
        self.report = ConnectionReport()
        self.socket = self.buffer = None

    def run(self):
        try:
            self._send_until_stopped()
        except Exception as error:
            self.report.problems.append(f"a connection failed: {error!r}")
        self._close()
        self.report.unanswered.extend(self.retries)

    def _send_until_stopped(self):
        while not self.stopping.is_set():
            request = self._next_request()
            try:
                self._send_and_check(request)
            except socket.timeout:
                size = len(request.events)
                self.report.problems.append(f"a request of {size} events had no response within {DEADLINE_S} s")
                self._record_unanswered(request)
            except OSError:
                self._record_unanswered(request)
                self.stopping.wait(RECONNECT_S)
            if self.pause_s:
                self.stopping.wait(self.rng.random() * 2 * self.pause_s)

    def _next_request(self):
        if self.retries and self.rng.random() < 0.5:
            return self.retries.pop()
        return self._new_request()

    def _new_request(self):
        rng = self.rng
        credential = rng.choice(self.credentials)
        now_ms = time.time_ns() // 1_000_000
        skewed = rng.random() < 0.1
        sent_at_ms = now_ms + rng.randrange(-5_000, 5_000) if skewed else None
        context = RequestContext(*rng.choices(AGENTS, [8, 1, 1])[0], credential.imports, now_ms, sent_at_ms)
        size = 1 if rng.random() < 0.6 else rng.choice([2, 5, 20, 20, 50, 150])
        events = [self.generator.event(credential.key, context, now_ms) for _ in range(size)]
        events = self._deduplicated(events)
        ack = rng.choices(["disk", "os", "memory"], [18, 1, 1])[0]
        return Request(credential, events, context, ack, self._encode(credential, events, context, ack))

    def _deduplicated(self, events):
        """Adds repeats within a request and sets their expected outcomes: the first event of an id wins."""
        seen, result_events = {}, []
        if len(events) > 1 and self.rng.random() < 0.2:
            events.append(self.rng.choice(events))
        for event in events:
            if event.event_id in seen and event.expected in (ACCEPTED, DUPLICATE, EITHER):
                event = event.with_expected(DUPLICATE if seen[event.event_id] == ACCEPTED else event.expected)
                if event.event_id.startswith("-"):
                    continue
            seen.setdefault(event.event_id, event.expected)
            result_events.append(event)
        return result_events

    def _encode(self, credential, events, context, ack):
        texts, rng = [event.text for event in events], self.rng
        content_type = "application/json"
        if context.sent_at_ms is not None:
            body = f'{{"sent_at":"{rfc3339(context.sent_at_ms)}","events":[{",".join(texts)}]}}'
        elif len(texts) == 1 and rng.random() < 0.8:
            body = texts[0]
        elif rng.random() < 0.3:
            body, content_type = "\n".join(texts), "application/x-ndjson"
        else:
            body = f"[{','.join(texts)}]"
        body = body.encode()
        headers = [f"Content-Type: {content_type}", f"User-Agent: {context.agent}", "Host: torture"]
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

    def _send_and_check(self, request):
        if self.socket is None or self.rng.random() < 0.05:
            self._close()
            self.socket = socket.create_connection(self.address, DEADLINE_S)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.buffer = b""
        new_events = [event for event in request.events if event.expected == ACCEPTED]
        self.sent_events.add_sent(request.credential.key, new_events)
        self.report.requests += 1
        self.socket.sendall(request.bytes)
        status, content = self._read_response()
        self.report.responses += 1
        if status == 202:
            self._check_response(request, json.loads(content))
        elif status in RETRY_STATUSES:
            self.report.rejections += 1
            self._record_unanswered(request)
        else:
            self.report.problems.append(f"a valid request got status {status}: {content[:300]!r}")
            self._record_unanswered(request)

    def _read_response(self):
        while b"\r\n\r\n" not in self.buffer:
            self._receive()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:])
        length = int(headers.get("content-length", 0))
        while len(self.buffer) < length:
            self._receive()
        content, self.buffer = self.buffer[:length], self.buffer[length:]
        if headers.get("connection") == "close":
            self._close()
        return int(lines[0].split(" ")[1]), content

    def _receive(self):
        chunk = self.socket.recv(1 << 16)
        if not chunk:
            raise ConnectionError("closed in the middle of a response")
        self.buffer += chunk

    def _check_response(self, request, response):
        """Compares the response with the expected outcome of each event."""
        results_by_index = {result["i"]: result for result in response["results"]}
        outcomes = []
        for index, event in enumerate(request.events):
            result = results_by_index.get(index)
            actual = _outcome(result) if result else "accepted"
            is_unordered = event.is_raced or request.is_retry
            expected = EITHER if is_unordered and event.expected in (ACCEPTED, DUPLICATE) else event.expected
            if request.ack != "memory" and not _matches(expected, actual):
                self.report.problems.append(f"{event.text[:300]} got {actual} instead of {expected}")
            outcomes.append(ledger.ACKED if actual == "accepted" else actual)
            if result and result.get("id", event.event_id) != event.event_id:
                self.report.problems.append(f"result {index} names {result['id']} instead of {event.event_id}")
        self._check_sum(response, outcomes)
        if request.ack == "memory":
            # `ack=memory` guarantees nothing: these events may or may not be stored.
            self.report.rows.extend(request.rows([ledger.UNKNOWN] * len(outcomes)))
            return
        self.report.position = max(self.report.position, int(response["position"].split("/")[1]))
        self.report.rows.extend(request.rows(outcomes))
        self.report.acked += outcomes.count(ledger.ACKED)
        acked = [event for event, outcome in zip(request.events, outcomes) if outcome == ledger.ACKED]
        self.sent_events.add_accepted(request.credential.key, acked)

    def _check_sum(self, response, outcomes):
        counts = {outcome: 0 for outcome in ("accepted", "duplicate", "late", "limited", "invalid")}
        for outcome in outcomes:
            counts["accepted" if outcome == ledger.ACKED else outcome.split(":")[0]] += 1
        actual = {outcome: response[outcome] for outcome in counts}
        if actual != counts:
            self.report.problems.append(f"a response counts {actual} but lists {counts}")

    def _record_unanswered(self, request):
        """Records a missing response, and keeps the request for a retry unless a retry could store an event twice."""
        self._close()
        self.report.rows.extend(request.rows([ledger.UNKNOWN] * len(request.events)))
        may_be_duplicated = any(event.may_be_duplicated() for event in request.events)
        if not may_be_duplicated and self.rng.random() < RETRY_SHARE:
            request.is_retry = True
            self.report.unanswered.append(request)

    def _close(self):
        if self.socket is not None:
            self.socket.close()
            self.socket = None


def _outcome(result):
    return ledger.DUPLICATE if result["outcome"] == "duplicate" else f"{result['outcome']}:{result['reason']}"


def _matches(expected, actual):
    return actual in ("accepted", "duplicate") if expected == EITHER else actual == expected
