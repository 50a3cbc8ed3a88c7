"""Requests to the server."""

from __future__ import annotations

import email.utils
import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Mapping, NamedTuple

from .errors import Refused, Unreachable

#: The largest response that is read.
BODY_BYTES_MAX = 32 << 20


class Response(NamedTuple):
    """A response of 2xx or 304."""

    status: int
    data: Any
    etag: str | None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would send the key to another server."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Http:
    """The server and the key."""

    def __init__(self, url: str, key: str, timeout_s: float) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError("url must begin with http:// or https://")
        self._base = url.rstrip("/")
        self._key = key
        self._timeout_s = timeout_s
        self._opener = urllib.request.build_opener(_NoRedirects)
        self.secret = key.startswith("pm_sk")

    def limit_timeout(self, timeout_s: float) -> None:
        """Shortens the time limit of later requests."""
        self._timeout_s = min(self._timeout_s, timeout_s)

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Sends a request. Raises ``Unreachable`` or ``Refused``."""
        pairs = list(_pairs(query or {}))
        url = self._base + path + ("?" + urllib.parse.urlencode(pairs) if pairs else "")
        request = urllib.request.Request(url, body, dict(headers or {}), method=method)
        request.add_header("Authorization", "Bearer " + self._key)
        if body is not None:
            request.add_header("Content-Type", "application/json")
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                data = _parse(response.read(BODY_BYTES_MAX))
                return Response(response.status, data, response.headers.get("ETag"))
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 304:
                    return Response(304, None, error.headers.get("ETag"))
                try:
                    problem = _parse(error.read(1 << 20))
                except (OSError, http.client.HTTPException):
                    problem = None
                after_s = _retry_after_s(error.headers.get("Retry-After"))
                raise Refused(error.code, problem if isinstance(problem, dict) else {}, after_s) from None
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(str(error) or type(error).__name__) from error


def _pairs(query: Mapping[str, object]) -> Any:
    for name, value in query.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{key}", _text(one)) for key, one in value.items())
        elif value is not None:
            yield name, _text(value)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _parse(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _retry_after_s(value: str | None) -> float:
    if not value:
        return 0
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0
