"""Keeps events until the server has received them, and sends them from a thread."""

from __future__ import annotations

import datetime
import json
import logging
import threading
import time
from typing import Any, Callable, Mapping

from .errors import EventsLost, PlaymeterError, Refused, backoff_s, is_retryable
from .http import Http
from .store import MemoryStore, Row

PATH = "/v1/events"
BATCH_EVENTS = 500
BATCH_BYTES = 256 << 10
#: The server's limit for one event.
EVENT_BYTES_MAX = 65_536

_log = logging.getLogger("playmeter")


class Queue:
    """Sends the events of a store in batches, with the same ids until the server has received them."""

    def __init__(
        self, http: Http, store: MemoryStore, interval_s: float, on_error: Callable[[Exception], None] | None
    ) -> None:
        self._http = http
        self._store = store
        self._interval_s = interval_s
        self._on_error = on_error or (lambda error: _log.warning("%s", error))
        #: Guards the store and the fields below.
        self._changed = threading.Condition()
        #: Held while a batch is sent: one request at a time.
        self._sending = threading.Lock()
        self._failures = 0
        self._not_before = 0.0
        self._due: float | None = time.monotonic() if len(store) else None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="playmeter", daemon=True)
        self._thread.start()

    def add(self, event_id: str, event: Mapping[str, Any]) -> None:
        """Queues an event. One that is not JSON or too large is reported as lost."""
        try:
            text = json.dumps(event, separators=(",", ":"), allow_nan=False)
            if len(text) > EVENT_BYTES_MAX:
                raise ValueError(f"an event must not be larger than {EVENT_BYTES_MAX} bytes")
        except (TypeError, ValueError, RecursionError) as error:
            self._lost("invalid", 1, error)
            return
        failure: OSError | None = None
        with self._changed:
            is_closed, dropped = self._closed, 0
            try:
                dropped = 0 if is_closed else self._store.add((event_id, text))
            except OSError as error:
                # The event is in memory: only a crash would lose it now.
                failure = error
            if self._due is None:
                self._due = time.monotonic() + self._interval_s
                self._changed.notify()
        if failure:
            self._report(PlaymeterError("queue_file", f"the queue cannot be written: {failure}"))
        self._lost("closed", int(is_closed))
        self._lost("queue_full", dropped)

    def flush(self) -> None:
        """Sends the queued events. Raises if that fails; the events stay queued."""
        try:
            with self._sending:
                self._drain()
        except PlaymeterError as error:
            with self._changed:
                self._failures += 1
                delay_s = backoff_s(self._failures, error)
                if isinstance(error, Refused) and error.retry_after_s:
                    self._not_before = time.monotonic() + delay_s
                self._due = time.monotonic() + delay_s
                self._changed.notify()
            raise
        with self._changed:
            self._failures = 0

    def close(self) -> None:
        """Stops the thread. Queued events stay in the store."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify()
        self._thread.join()
        with self._sending, self._changed:
            self._store.close()

    def _run(self) -> None:
        while self._wait_until_due():
            try:
                self.flush()
            except PlaymeterError as error:
                _log.debug("events stay queued: %s", error)
            except Exception as error:
                self._report(error)
                with self._changed:
                    self._due = time.monotonic() + backoff_s(8)

    def _wait_until_due(self) -> bool:
        with self._changed:
            while not self._closed:
                wait_s = None if self._due is None else self._due - time.monotonic()
                if wait_s is not None and wait_s <= 0:
                    self._due = None
                    return True
                self._changed.wait(wait_s)
        return False

    def _drain(self) -> None:
        wait_s = self._not_before - time.monotonic()
        if wait_s > 0:
            raise PlaymeterError("waiting", f"the server asked to wait {wait_s:.1f} s more")
        while True:
            with self._changed:
                rows = _batch(self._store.read(BATCH_EVENTS))
            if not rows:
                return
            self._send(rows)
            with self._changed:
                try:
                    self._store.remove([event_id for event_id, _ in rows])
                except OSError as error:
                    _log.warning("the queue cannot be written: %s", error)

    def _send(self, rows: list[Row]) -> None:
        """Sends a batch. Returns when it was received, or rejected and reported as lost."""
        sent_at = datetime.datetime.now(datetime.timezone.utc).isoformat()
        body = f'{{"sent_at":"{sent_at}","events":[{",".join(text for _, text in rows)}]}}'
        try:
            data = self._http.send("POST", PATH, body=body.encode()).data
        except PlaymeterError as error:
            if is_retryable(error):
                raise
            self._lost("refused", len(rows), error)
            return
        if isinstance(data, dict):
            count = sum(int(data.get(outcome) or 0) for outcome in ("invalid", "late", "limited"))
            self._lost("invalid", count, data.get("results"))

    def _lost(self, code: str, count: int, cause: object = None) -> None:
        if count:
            self._report(EventsLost(code, count, cause))

    def _report(self, error: Exception) -> None:
        try:
            self._on_error(error)
        except Exception:
            _log.exception("on_error failed")


def _batch(rows: list[Row]) -> list[Row]:
    """Returns as many of the first rows as fit in one request, but at least one."""
    size = 0
    for count, (_, text) in enumerate(rows):
        size += len(text)
        if size > BATCH_BYTES and count:
            return rows[:count]
    return rows
