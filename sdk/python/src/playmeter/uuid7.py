"""UUIDs of version 7 (RFC 9562). They begin with the time, which makes deduplication on the server cheapest."""

from __future__ import annotations

import secrets
import threading
import time
import uuid

_lock = threading.Lock()
_last = 0


def uuid7() -> str:
    """Returns a new id. The ids of a process are in order."""
    global _last
    with _lock:
        # 48 bits of milliseconds, then a counter of 12 bits.
        _last = max(_last + 1, (time.time_ns() // 1_000_000) << 12)
        stamp = _last
    ms, counter = stamp >> 12, stamp & 0xFFF
    return str(uuid.UUID(int=ms << 80 | 7 << 76 | counter << 64 | 2 << 62 | secrets.randbits(62)))
