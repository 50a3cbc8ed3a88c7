"""The errors of the client. Each has a ``code``."""

from __future__ import annotations

import random
from typing import Any


class PlaymeterError(Exception):
    """The base class of all errors that the client raises or reports."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Unreachable(PlaymeterError):
    """There was no response. The same request may be sent again."""

    def __init__(self, message: str) -> None:
        super().__init__("unreachable", message)


class Refused(PlaymeterError):
    """The server rejected the request. ``code`` is the last segment of the problem type."""

    def __init__(self, status: int, problem: dict[str, Any], retry_after_s: float = 0) -> None:
        code = str(problem.get("type", "")).rsplit("/", 1)[-1] or f"http_{status}"
        super().__init__(code, str(problem.get("detail") or problem.get("title") or f"status {status}"))
        self.status = status
        self.field: str | None = problem.get("field")
        self.retry_after_s = retry_after_s

    @property
    def temporary(self) -> bool:
        """True if the same request may succeed later."""
        return self.status in (408, 429) or self.status >= 500


class EventsLost(PlaymeterError):
    """Events that were lost: ``queue_full``, ``refused``, ``invalid`` or ``closed``. Passed to ``on_error``, never raised."""

    def __init__(self, code: str, count: int, cause: object = None) -> None:
        super().__init__(code, f"{count} events lost: {cause}" if cause else f"{count} events lost")
        self.count = count
        self.cause = cause


def is_retryable(error: Exception) -> bool:
    """Returns true if a retry may succeed."""
    return error.temporary if isinstance(error, Refused) else isinstance(error, Unreachable)


def backoff_s(failures: int, error: Exception | None = None) -> float:
    """Returns the delay after the n-th consecutive failure: exponential, with jitter, after any ``Retry-After``."""
    after_s = error.retry_after_s if isinstance(error, Refused) else 0
    return after_s + min(300.0, 0.5 * 2.0 ** min(failures, 20)) * (0.5 + random.random() / 2)
