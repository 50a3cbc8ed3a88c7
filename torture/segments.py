"""Reads the server's log from its files alone.

An independent reader of the format in `docs/data_files.md`, deliberately strict: it raises `DamagedLogError` for
every deviation from that page. It expects a folder whose server has started since the last crash, so a torn tail is
damage too.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"PLAYMLOG"
HEADER = struct.Struct("<8sIIQQQ24s")
HEADER_COPY_AT = 2048
FRAMES_AT = 4096
FRAME = struct.Struct("<IIIIQIIQQ")
ENTRY = struct.Struct("<IBI")
BATCH = struct.Struct("<BBBBIq")
TALLY = struct.Struct("<BI")
EVENT = struct.Struct("<IHq")
# Kinds of entries: a batch of events, a live-ops command, a command about an erased player.
BATCH_KIND, COMMAND_KIND, ERASED_KIND = 1, 2, 3
# Bytes between the fixed fields of a batch and its events, by version.
ADDED_BYTES = {1: 0, 2: 4, 3: 8}

HAS_ID, HAS_VALUE, HAS_PLAYER, HAS_SESSION, HAS_DIMENSION = 1, 2, 4, 8, 16
HAS_PROPS, IS_BOT, TIME_REPLACED = 1 << 9, 1 << 10, 1 << 11
HAS_SAMPLES, HAS_DECLARED, HAS_ANONYMOUS, IS_ERASED = 1 << 12, 1 << 13, 1 << 14, 1 << 15
DIMENSIONS = ("country", "source", "platform", "version", "level")


class DamagedLogError(Exception):
    """The bytes violate the format."""


@dataclass(slots=True)
class StoredEvent:
    """One stored event; an absent text is empty."""

    event_id: int | None
    ts_ms: int
    name: str
    player: str
    session: str
    value: float | None
    dimensions: tuple
    props: str
    bot: bool
    time_replaced: bool


@dataclass(slots=True)
class StoredBatch:
    """One entry of the log: the accepted events of one request, and counts of the others."""

    offset: int
    endpoint: int
    key_class: int
    game: int
    received_ms: int
    tallies: list
    events: list
    # Aggregated samples, which are not events but take offsets too.
    samples: int = 0


def _crc_table():
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _crc_table()


def crc32c(data, crc=0):
    """Returns the CRC-32C of the data, continuing from the `crc` of preceding data."""
    table, crc = _TABLE, crc ^ 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


class Log:
    """All batches of a folder, in order. `crc_bytes` limits how much payload is verified by the slow checksum."""

    def __init__(self, folder, crc_bytes=1 << 20):
        self.crc_left = crc_bytes
        self.next = None
        self.durable = 0
        self.frames = 0
        self.segments = 0
        self.bytes = 0
        self.batches = []
        for path in sorted(Path(folder).glob("*.log")):
            self._segment(path)

    def events(self):
        """Returns every stored event with its batch."""
        return ((batch, event) for batch in self.batches for event in batch.events)

    def _segment(self, path):
        data = path.read_bytes()
        first, salt = _header(path, data)
        if self.next is None:
            self.next = first
        if first != self.next or int(path.stem) != first or len(path.stem) != 20:
            raise DamagedLogError(f"{path.name} begins at offset {first}, expected {self.next}")
        self.segments += 1
        self.bytes += len(data)
        seed, at = crc32c(struct.pack("<Q", salt)), FRAMES_AT
        while at + FRAME.size <= len(data) and data[at : at + FRAME.size] != bytes(FRAME.size):
            at = self._frame(path, data, at, seed)
        if data.count(0, at) != len(data) - at:
            raise DamagedLogError(f"{path.name}: bytes other than zero follow the last frame, which ends at byte {at}")

    def _frame(self, path, data, at, seed):
        head = FRAME.unpack_from(data, at)
        head_crc, payload_crc, length, entries, first, offsets, reserved, durable, _commit_ms = head
        where = f"{path.name} byte {at}"
        if crc32c(data[at + 4 : at + FRAME.size], seed) != head_crc:
            raise DamagedLogError(f"{where}: the frame's header fails its checksum")
        if first != self.next or reserved != 0:
            raise DamagedLogError(f"{where}: a frame begins at offset {first}, expected {self.next}")
        if not self.durable <= durable <= first:
            raise DamagedLogError(f"{where}: durable until {durable} after {self.durable}, at offset {first}")
        start, end = at + FRAME.size, at + FRAME.size + length
        after = -(-end // 8) * 8
        if end > len(data) or any(data[end:after]):
            raise DamagedLogError(f"{where}: the payload is truncated or not padded with zeros")
        payload = data[start:end]
        if self.crc_left >= length:
            self.crc_left -= length
            if crc32c(payload, seed) != payload_crc:
                raise DamagedLogError(f"{where}: the payload fails its checksum")
        self._payload(where, payload, entries)
        if self.next != first + offsets:
            raise DamagedLogError(f"{where}: the entries take {self.next - first} offsets, the header says {offsets}")
        self.durable, self.frames = durable, self.frames + 1
        return after

    def _payload(self, where, payload, entries):
        at = 0
        for _ in range(entries):
            length, kind, events = ENTRY.unpack_from(payload, at)
            start, at = at + ENTRY.size, at + ENTRY.size + length
            if at > len(payload) or kind not in (BATCH_KIND, COMMAND_KIND, ERASED_KIND):
                raise DamagedLogError(f"{where}: an entry is truncated or of the unknown kind {kind}")
            if kind != BATCH_KIND:
                if events or (kind == ERASED_KIND and length):
                    raise DamagedLogError(f"{where}: a command of {length} bytes says that it has {events} events")
                self.next += 1
                continue
            batch = read_batch(payload[start:at], self.next)
            found = len(batch.events) + batch.samples
            if found != events:
                raise DamagedLogError(f"{where}: an entry of {events} events contains {found}")
            self.batches.append(batch)
            self.next += events or 1
        if at != len(payload):
            raise DamagedLogError(f"{where}: bytes remain after the last entry")


def _header(path, data):
    for at in (0, HEADER_COPY_AT):
        if at and data[at : at + HEADER.size] != data[: HEADER.size]:
            raise DamagedLogError(f"{path.name}: the two headers differ")
        magic, version, crc, first, salt, _made_ms, zeros = HEADER.unpack_from(data, at)
        rest = data[at : at + 12] + data[at + 16 : at + HEADER.size]
        if magic != MAGIC or version != 1 or any(zeros) or crc32c(rest) != crc:
            raise DamagedLogError(f"{path.name}: the header at byte {at} is not one of version 1")
    return first, salt


def read_batch(content, offset=0):
    """Decodes the content of one entry."""
    version, endpoint, key_class, tallies, game, received_ms = BATCH.unpack_from(content)
    events_end = len(content) - tallies * TALLY.size
    at = BATCH.size + ADDED_BYTES.get(version, len(content))
    if events_end < at:
        raise DamagedLogError(f"offset {offset}: not a batch of a known version")
    events, samples = [], 0
    while at < events_end:
        (length,) = struct.unpack_from("<I", content, at)
        end = at + 4 + length
        if end > events_end:
            raise DamagedLogError(f"offset {offset}: an event is truncated")
        event = _event(content, at, end)
        if event is None:
            samples += 1
        else:
            events.append(event)
        at = end
    counted = [TALLY.unpack_from(content, events_end + index * TALLY.size) for index in range(tallies)]
    return StoredBatch(offset, endpoint, key_class, game, received_ms, counted, events, samples)


def _event(content, at, end):
    """Decodes one event; None for aggregated samples, which are not events."""
    _length, flags, ts_ms = EVENT.unpack_from(content, at)
    at += EVENT.size
    event_id = value = None
    if flags & HAS_ID:
        event_id, at = int.from_bytes(content[at : at + 16], "little"), at + 16
    if flags & HAS_VALUE:
        (value,), at = struct.unpack_from("<d", content, at), at + 8
    has_text = [True, flags & HAS_PLAYER, flags & HAS_SESSION]
    has_text += [flags & HAS_DIMENSION << index for index in range(len(DIMENSIONS))]
    texts = []
    for is_present in has_text:
        length = content[at] if is_present else 0
        at += 1 if is_present else 0
        texts.append(content[at : at + length])
        at += length
    if flags & HAS_DECLARED:
        at += 2 + int.from_bytes(content[at : at + 2], "little")
    if flags & HAS_ANONYMOUS:
        at += 1 + content[at]
    if flags & HAS_SAMPLES:
        return None
    props = content[at:end] if flags & HAS_PROPS else b""
    if at + len(props) != end:
        raise DamagedLogError(f"an event's fields end at byte {at}, the event at {end}")
    if flags & IS_ERASED:
        # Numbers identify the player of an erased event.
        texts[1] = texts[1].hex().encode()
    name, player, session, *dimensions = (text.decode("utf-8") for text in texts)
    bot, replaced = bool(flags & IS_BOT), bool(flags & TIME_REPLACED)
    return StoredEvent(event_id, ts_ms, name, player, session, value, tuple(dimensions), props.decode(), bot, replaced)
