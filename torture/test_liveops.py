"""Tests of the search for erased players."""

import random
import tempfile
import unittest
from pathlib import Path

from liveops import find, new_canary


class FindTest(unittest.TestCase):
    """A name is found as a whole and in the pieces that compression leaves of it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.rng = Path(folder.name), random.Random(1)

    def found(self, content, canary):
        (self.folder / "file").write_bytes(content)
        return find(self.folder, [canary, new_canary(self.rng)])

    def test_whole_name(self):
        canary = new_canary(self.rng)
        expected = [f"file contains {canary}"]
        self.assertEqual(self.found(b"\x00\xe4" + canary.encode() + b"\xff", canary), expected)

    def test_name_in_pieces(self):
        canary = new_canary(self.rng)
        name = canary.encode()
        pieces = name[:9] + b"\x42\x07\x00" + name[14:23] + b"\x31\x09\x00" + name[30:]
        self.assertEqual(self.found(pieces, canary), [f"file contains {canary}"])

    def test_other_names(self):
        self.assertEqual(self.found(new_canary(self.rng).encode() * 100 + bytes(range(256)), new_canary(self.rng)), [])


if __name__ == "__main__":
    unittest.main()
