"""Reads and writes of live-ops. A write is signed if the key is public, retried, and applied once."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import json
import threading
import time
from typing import Any, Callable, Mapping, NamedTuple
from urllib.parse import quote

from .errors import Refused, backoff_s, is_retryable
from .http import Http
from .uuid7 import uuid7

TRIES = 3
#: A retry that would be delayed longer than this is not made.
WAIT_S_MAX = 5.0
#: The server keeps a session for 15 minutes.
LIFE_S = 900
RENEW_BEFORE_S = 60


class _Session(NamedTuple):
    session: str
    key: bytes
    #: How far the server's clock is ahead.
    skew_s: float
    renew_at: float


class Api:
    """Requests in the name of a player."""

    def __init__(self, http: Http, player: str, name: str | None) -> None:
        self._http = http
        self._lock = threading.Lock()
        self._session: _Session | None = None
        self.player = player
        self.name = name

    def identify(self, player: str, name: str | None) -> None:
        with self._lock:
            self.player, self.name, self._session = player, name, None

    def identity(self, field: str = "name") -> dict[str, Any]:
        return {"player": self.player, **({field: self.name} if self.name else {})}

    def get(self, path: str, query: Mapping[str, object] | None = None) -> dict[str, Any]:
        data: dict[str, Any] = _with_retries(lambda: self._http.send("GET", path, query=query).data)
        return data

    def write(
        self, method: str, path: str, value: Mapping[str, object] | None = None, query: Mapping[str, object] | None = None
    ) -> dict[str, Any]:
        """Every try has the same idempotency key: the server applies the write once and repeats its response."""
        body = None if value is None else json.dumps({k: v for k, v in value.items() if v is not None}).encode()
        idempotency = {"Idempotency-Key": uuid7()}

        def attempt() -> Any:
            for renewed in (False, True):
                signature = {} if self._http.secret else self._sign(method, path, body or b"")
                try:
                    return self._http.send(method, path, query=query, body=body, headers={**idempotency, **signature}).data
                except Refused as error:
                    # The session has expired, or the server no longer knows it: retry once with a new one.
                    if renewed or error.code != "signature":
                        raise
                    with self._lock:
                        self._session = None
            raise AssertionError("the second try returns or raises")

        data: dict[str, Any] = _with_retries(attempt)
        return data

    def friends(self, query: Mapping[str, object]) -> dict[str, object]:
        """Resolves ``friends="follows"`` to the players that the player follows."""
        return {**query, **({"friends": "follows:" + self.player} if query.get("friends") == "follows" else {})}

    def _sign(self, method: str, path: str, body: bytes) -> dict[str, str]:
        session = self._current()
        at, nonce = int(time.time() + session.skew_s), uuid7()
        message = "\n".join([str(at), nonce, method, path, hashlib.sha256(body).hexdigest()])
        mac = hmac.new(session.key, message.encode(), hashlib.sha256).hexdigest()
        return {"X-Playmeter-Signature": ";".join(["v1", session.session, str(at), nonce, mac])}

    def _current(self) -> _Session:
        with self._lock:
            if self._session is None or time.monotonic() > self._session.renew_at:
                renew_at = time.monotonic() + LIFE_S - RENEW_BEFORE_S
                data = self._http.send("POST", "/v1/session", body=json.dumps(self.identity()).encode()).data
                key = base64.urlsafe_b64decode(data["key"] + "=" * (-len(data["key"]) % 4))
                expires_at = datetime.datetime.fromisoformat(data["expires_at"].replace("Z", "+00:00")).timestamp()
                self._session = _Session(data["session"], key, expires_at - LIFE_S - time.time(), renew_at)
            return self._session


def _with_retries(attempt: Callable[[], Any]) -> Any:
    tries = 1
    while True:
        try:
            return attempt()
        except Exception as error:
            delay_s = backoff_s(tries, error)
            if tries >= TRIES or delay_s > WAIT_S_MAX or not is_retryable(error):
                raise
        time.sleep(delay_s)
        tries += 1


def segment(text: str) -> str:
    """Returns a segment of a path."""
    return quote(text, safe="")
