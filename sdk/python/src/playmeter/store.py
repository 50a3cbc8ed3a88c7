"""The queue of events, in memory or in a file that survives a crash. Both are bounded."""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import IO, Iterable, List, Tuple

Row = Tuple[str, str]


class MemoryStore:
    """Keeps events in memory; the oldest are dropped first."""

    def __init__(self, events_max: int, bytes_max: int) -> None:
        self._rows: OrderedDict[str, str] = OrderedDict()
        self._events_max = events_max
        self._bytes_max = bytes_max
        self._bytes = 0

    def add(self, row: Row) -> int:
        """Adds an event and returns the number of oldest events that were dropped for it."""
        event_id, text = row
        self._discard(event_id)
        self._rows[event_id] = text
        self._bytes += len(text)
        dropped = 0
        while len(self._rows) > self._events_max or self._bytes > self._bytes_max:
            self._discard(next(iter(self._rows)))
            dropped += 1
        return dropped

    def read(self, limit: int) -> List[Row]:
        """Returns at most ``limit`` of the oldest events."""
        return [row for _, row in zip(range(limit), self._rows.items())]

    def remove(self, ids: Iterable[str]) -> None:
        """Removes events that the server has received or rejected."""
        for event_id in ids:
            self._discard(event_id)

    def close(self) -> None:
        """Releases the file, if there is one."""

    def __len__(self) -> int:
        return len(self._rows)

    def _discard(self, event_id: str) -> None:
        text = self._rows.pop(event_id, None)
        self._bytes -= len(text or "")


class FileStore(MemoryStore):
    """A queue in a file of lines: ``+ID EVENT`` for each event, ``-ID`` for each that is done.

    A line that a crash has cut off is ignored. The file is rewritten when it is four times as long as the queue may be.
    One process may use it at a time.
    """

    def __init__(self, path: str, events_max: int, bytes_max: int) -> None:
        super().__init__(events_max, bytes_max)
        self._path = path
        self._lock = _locked(path + ".lock")
        try:
            self._load()
            self._file = self._rewrite()
        except BaseException:
            self._lock.close()
            raise

    def add(self, row: Row) -> int:
        dropped = super().add(row)
        self._write(f"+{row[0]} {row[1]}\n")
        return dropped

    def remove(self, ids: Iterable[str]) -> None:
        ids = list(ids)
        super().remove(ids)
        self._write("".join(f"-{event_id}\n" for event_id in ids))

    def close(self) -> None:
        self._file.close()
        self._lock.close()

    def _load(self) -> None:
        try:
            with open(self._path, encoding="utf-8", errors="replace", newline="\n") as file:
                for line in file:
                    self._apply(line)
        except FileNotFoundError:
            pass

    def _apply(self, line: str) -> None:
        event_id, _, text = line[1:].rstrip("\n").partition(" ")
        if not line.endswith("\n"):
            return
        if line[0] == "+" and text.startswith("{") and text.endswith("}"):
            super().add((event_id, text))
        elif line[0] == "-":
            super().remove([event_id])

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()
        if self._file.tell() > 4 * self._bytes_max + (1 << 16):
            self._file.close()
            self._file = self._rewrite()

    def _rewrite(self) -> IO[str]:
        """Replaces the file by one with the queued events only, and opens it for appending."""
        new = self._path + ".new"
        with open(new, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"+{event_id} {text}\n" for event_id, text in self._rows.items())
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self._path)
        return open(self._path, "a", encoding="utf-8", newline="\n")


def _locked(path: str) -> IO[str]:
    """Opens and locks a file. Where the system has no such locks, the file is only opened."""
    file = open(path, "a", encoding="utf-8")
    try:
        import fcntl
    except ImportError:
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise ValueError(f"another process uses the queue: {path}") from None
    return file
