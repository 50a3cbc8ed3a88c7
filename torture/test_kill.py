"""Tests of the wait for enough acknowledgements in a cycle."""

import unittest
from unittest import mock

import kill


class FakeLoad:
    """A load whose numbers advance each time they are read: `steps` are (events acknowledged, responses)."""

    def __init__(self, *steps):
        self.steps = list(steps)

    def acked(self):
        if len(self.steps) > 1:
            self.steps.pop(0)
        return self.steps[0][0]

    def responses(self):
        return self.steps[0][1]


class FloorTests(unittest.TestCase):
    def wait(self, load, commands=kill.COMMANDS_MIN, exit_code=None):
        """Waits with a deadline of 0.1 s; returns the problems."""
        with mock.patch.object(kill, "DEADLINE_S", 0.1):
            return kill.wait_for_floors(load, lambda: commands, lambda: exit_code)

    def test_wait_lasts_until_the_floors_are_reached(self):
        load = FakeLoad((0, 0), (1, 1), (kill.ACKED_MIN - 1, 50), (kill.ACKED_MIN, 51))
        self.assertEqual(self.wait(load), [])
        self.assertEqual(load.steps, [(kill.ACKED_MIN, 51)])

    def test_each_floor_missed_before_the_deadline_is_named(self):
        problems = self.wait(FakeLoad((99, 2_000)), commands=9)
        expected = ["99 events instead of 100", "9 commands instead of 10"]
        self.assertEqual(problems, [f"{line} acknowledged within 0.1 s" for line in expected])

    def test_wait_ends_early_if_everything_is_rejected(self):
        with mock.patch.object(kill.time, "sleep", side_effect=AssertionError("waited")):
            problems = self.wait(FakeLoad((0, kill.RESPONSES_WITHOUT_ACK_MAX)), commands=0)
        self.assertEqual(problems, [f"the server acknowledged no event in {kill.RESPONSES_WITHOUT_ACK_MAX} responses"])

    def test_wait_ends_early_if_the_server_exits(self):
        with mock.patch.object(kill.time, "sleep", side_effect=AssertionError("waited")):
            self.assertEqual(self.wait(FakeLoad((5, 5)), exit_code=7), ["the server exited with 7 under load"])

    def test_count_below_its_floor_is_too_few(self):
        counts = {"events": (100, 100), "commands": (9, 10), "numbers": (0, 0)}
        self.assertEqual(kill.too_few(counts), ["9 commands instead of 10"])


if __name__ == "__main__":
    unittest.main()
