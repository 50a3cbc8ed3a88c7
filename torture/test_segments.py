"""Tests of the independent log reader with hand-made bytes."""

import struct
import tempfile
import unittest
import uuid
from pathlib import Path

from segments import (
    BATCH,
    ENTRY,
    FRAME,
    FRAMES_AT,
    HEADER,
    HEADER_COPY_AT,
    MAGIC,
    DamagedLogError,
    Log,
    crc32c,
    read_batch,
)

SALT = 0x1122334455667788
EVENT_ID = uuid.UUID("018bcfe5-6800-7000-8000-000000000001")


def short(text):
    return bytes([len(text.encode())]) + text.encode()


def event(name="score", event_id=EVENT_ID, value=1.5, player="ann", props=b'{"a":1}', ts_ms=1000):
    flags = 1 | 2 | 4 | 16 | 1 << 8 | 1 << 9
    body = struct.pack("<Hq", flags, ts_ms) + event_id.int.to_bytes(16, "little") + struct.pack("<d", value)
    body += short(name) + short(player) + short("FR") + short("3") + props
    return struct.pack("<I", len(body)) + body


def samples(name="$load.http.ok"):
    body = struct.pack("<Hq", 1 << 12, 1000) + short(name) + b"aggregate"
    return struct.pack("<I", len(body)) + body


def batch(*events, tallies=b"", tally_count=0):
    return BATCH.pack(1, 1, 1, tally_count, 7, 2000) + b"".join(events) + tallies


def frame(first, entries, durable=0):
    """Returns the bytes of a frame. Entries are pairs of content and number of events."""
    payload = b"".join(ENTRY.pack(len(content), 1, events) + content for content, events in entries)
    offsets = sum(events or 1 for _, events in entries)
    seed = crc32c(struct.pack("<Q", SALT))
    rest = struct.pack("<IIIQIIQQ", crc32c(payload, seed), len(payload), len(entries), first, offsets, 0, durable, 9)
    head = struct.pack("<I", crc32c(rest, seed)) + rest
    return head + payload + bytes(-len(payload) % 8)


def segment(first, *frames):
    rest = struct.pack("<8sI", MAGIC, 1), struct.pack("<QQQ24s", first, SALT, 5, b"")
    header = rest[0] + struct.pack("<I", crc32c(b"".join(rest))) + rest[1]
    data = bytearray(FRAMES_AT)
    data[: HEADER.size] = data[HEADER_COPY_AT : HEADER_COPY_AT + HEADER.size] = header
    return bytes(data) + b"".join(frames) + bytes(512)


class LogTests(unittest.TestCase):
    def read(self, *segments):
        """Reads segments, given as pairs of their first offset and their bytes."""
        with tempfile.TemporaryDirectory() as folder:
            for first, data in segments:
                (Path(folder) / f"{first:020}.log").write_bytes(data)
            return Log(folder)

    def check_damaged(self, message, *segments):
        with self.assertRaisesRegex(DamagedLogError, message):
            self.read(*segments)

    def test_checksum_matches_published_crc32c(self):
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)
        self.assertEqual(crc32c(b"6789", crc32c(b"12345")), 0xE3069283)

    def test_all_fields_of_an_event_are_read(self):
        read = read_batch(batch(event(), tallies=struct.pack("<BI", 12, 2), tally_count=1))
        self.assertEqual((read.key_class, read.game, read.received_ms, read.tallies), (1, 7, 2000, [(12, 2)]))
        stored = read.events[0]
        self.assertEqual((stored.event_id, stored.value, stored.ts_ms), (EVENT_ID.int, 1.5, 1000))
        self.assertEqual((stored.name, stored.player, stored.session, stored.props), ("score", "ann", "", '{"a":1}'))
        self.assertEqual((stored.dimensions, stored.bot), (("FR", "", "", "", "3"), False))

    def test_offsets_continue_across_frames_and_segments(self):
        one, none = (batch(event()), 1), (batch(tallies=struct.pack("<BI", 1, 4), tally_count=1), 0)
        first = segment(0, frame(0, [one, none]), frame(2, [(batch(event(), event()), 2)], durable=2))
        log = self.read((0, first), (4, segment(4, frame(4, [one], durable=4))))
        self.assertEqual([entry.offset for entry in log.batches], [0, 1, 2, 4])
        self.assertEqual((log.next, len(list(log.events()))), (5, 4))

    def test_aggregated_samples_take_offsets_and_are_no_events(self):
        log = self.read((0, segment(0, frame(0, [(batch(samples()), 1), (batch(samples(), event()), 2)]))))
        self.assertEqual((log.next, [entry.samples for entry in log.batches], len(list(log.events()))), (3, [1, 1], 1))
        self.check_damaged("an entry of 1 events contains 2", (0, segment(0, frame(0, [(batch(samples(), event()), 1)]))))

    def test_gap_in_offsets_is_damage(self):
        one = (batch(event()), 1)
        self.check_damaged("offset 3, expected 1", (0, segment(0, frame(0, [one]), frame(3, [one]))))
        self.check_damaged("offset 2, expected 1", (0, segment(0, frame(0, [one]))), (2, segment(2)))

    def test_any_changed_byte_is_damage(self):
        good = segment(0, frame(0, [(batch(event()), 1)]))
        for at in (20, FRAMES_AT + 5, FRAMES_AT + FRAME.size + 30, len(good) - 1):
            bad = bytearray(good)
            bad[at] ^= 4
            with self.assertRaises(DamagedLogError, msg=f"byte {at}"):
                self.read((0, bytes(bad)))

    def test_wrong_event_count_or_truncated_event_is_damage(self):
        self.check_damaged("an entry of 1 events contains 2", (0, segment(0, frame(0, [(batch(event(), event()), 1)]))))
        self.check_damaged("truncated", (0, segment(0, frame(0, [(batch(event()[:-3]), 1)]))))


if __name__ == "__main__":
    unittest.main()
