"""The client of a game.

``track`` never blocks on the network and never raises. An event is queued before it is sent, and is sent until the server
has received it.
"""

from __future__ import annotations

import atexit
import threading
import time
from types import TracebackType
from typing import Any, Callable, Mapping

from .api import Api
from .errors import PlaymeterError
from .http import Http
from .liveops import Achievements, Board, Feed, GameVars, Levels
from .queue import Queue
from .store import FileStore, MemoryStore
from .uuid7 import uuid7

FIRST_PING_S = 60.0
PING_S = 30.0
#: The server's limit: an event after a longer pause starts a new session.
SESSION_TIMEOUT_S = 30 * 60
#: How long the end of the program waits for each response.
EXIT_TIMEOUT_S = 10.0


class Playmeter:
    """The client of a game. All methods may be called from any thread."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        player: str | None = None,
        name: str | None = None,
        version: str | None = None,
        platform: str | None = None,
        source: str | None = None,
        country: str | None = None,
        segment: list[str] | None = None,
        defaults: Mapping[str, Any] | None = None,
        sessions: bool = False,
        queue_file: str | None = None,
        queue_events_max: int = 10_000,
        queue_bytes_max: int = 16 << 20,
        flush_interval_s: float = 5.0,
        timeout_s: float = 30.0,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        """Creates a client.

        ``queue_file`` keeps the events of a program that crashed for its next start; one process may use it at a time.
        ``sessions`` sends ``$session_start``, ``$ping`` and ``$session_end``. ``on_error`` gets errors that no call can
        raise, such as lost events; by default they are logged.
        """
        self._http = Http(url, key, timeout_s)
        self._api = Api(self._http, player or uuid7(), name)
        self._details = {"version": version, "platform": platform, "source": source, "country": country}
        self._segment = segment
        limits = (queue_events_max, queue_bytes_max)
        store = FileStore(queue_file, *limits) if queue_file else MemoryStore(*limits)
        self._queue = Queue(self._http, store, flush_interval_s, on_error)
        self.vars = GameVars(self._http, self._viewer, defaults or {})
        self.levels = Levels(self._api)
        self.achievements = Achievements(self._api)
        self.feed = Feed(self._api)
        self._sessions = sessions
        self._session: str | None = None
        self._last_event = 0.0
        self._lock = threading.RLock()
        self._closed = threading.Event()
        atexit.register(self._exit)
        if sessions:
            self._start_session()
            threading.Thread(target=self._ping, name="playmeter-ping", daemon=True).start()

    @property
    def player(self) -> str:
        return self._api.player

    def track(
        self,
        event: str,
        *,
        value: float | None = None,
        level: str | None = None,
        props: Mapping[str, object] | None = None,
        ts: int | None = None,
        **details: object,
    ) -> None:
        """Queues an event. ``ts`` is in milliseconds since 1970; the default is now."""
        with self._lock:
            if self._sessions and time.monotonic() - self._last_event > SESSION_TIMEOUT_S:
                self._start_session()
            self._last_event = time.monotonic()
            session = self._session
        fields = {
            "event": event,
            "id": uuid7(),
            "ts": time.time_ns() // 1_000_000 if ts is None else ts,
            "player": self.player,
            "session": session,
            **self._details,
            "value": value,
            "level": level,
            "props": props,
            **details,
        }
        present = {name: value for name, value in fields.items() if value is not None}
        self._queue.add(str(present["id"]), present)

    def identify(self, player: str, name: str | None = None) -> None:
        """Sets the player of all later events. Earlier events are linked to the player."""
        before = self.player
        self._api.identify(player, name or self._api.name)
        if player != before:
            self.track("$identify", props={"anonymous": before})

    def board(self, table: str) -> Board:
        """Returns a leaderboard."""
        return Board(self._api, table)

    def flush(self) -> None:
        """Sends the queued events. Raises if that fails; the events stay queued and are sent later."""
        self._queue.flush()

    def close(self) -> None:
        """Ends the session, sends the queued events and stops. Raises if the events cannot be sent."""
        if self._closed.is_set():
            return
        self._closed.set()
        atexit.unregister(self._exit)
        if self._session:
            self.track("$session_end")
        try:
            self._queue.flush()
        finally:
            self._queue.close()

    def __enter__(self) -> Playmeter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.close()
        except PlaymeterError:
            if error is None:
                raise

    def _exit(self) -> None:
        """Sends the last events at the end of the program; each request has less time than usual."""
        self._http.limit_timeout(EXIT_TIMEOUT_S)
        try:
            self.close()
        except PlaymeterError:
            # With a queue file, the next start sends them.
            pass

    def _start_session(self) -> None:
        with self._lock:
            self._session = uuid7()
            self._last_event = time.monotonic()
            self.track("$session_start")

    def _ping(self) -> None:
        wait_s = FIRST_PING_S
        while not self._closed.wait(wait_s):
            self.track("$ping")
            wait_s = PING_S

    def _viewer(self) -> dict[str, object]:
        """The properties by which the server evaluates variables."""
        viewer = {"player": self.player, "platform": self._details["platform"], "version": self._details["version"]}
        # For a public key the server determines the country itself.
        country = self._details["country"] if self._http.secret else None
        return {**viewer, "segment": self._segment, "country": country}
