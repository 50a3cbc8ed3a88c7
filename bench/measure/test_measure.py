"""Tests of what turns runs into figures: `python3 -m unittest discover -s bench`."""

import struct
import tempfile
import unittest
from pathlib import Path

from measure import floors, jobs, load, pairs, results


class Accounting(unittest.TestCase):
    def check(self, answers, expected):
        self.assertEqual(jobs.settled(iter(answers).__next__, 5, patience_s=0.2), expected)

    def test_an_account_that_is_behind_is_waited_for(self):
        self.check([3, 4, 5], 5)

    def test_an_account_that_stays_wrong_is_taken_as_it_is(self):
        self.check([4] * 100, 4)

    def test_a_server_without_accounts_is_not_asked_again(self):
        self.check([None], None)


class Ratios(unittest.TestCase):
    def check(self, ours, theirs, expected):
        rows = [[{"cpu_us": value} for value in values] for values in (ours, theirs)]
        ratio = pairs.ratios(*rows, "cpu_us")
        self.assertEqual(ratio and (ratio["median"], ratio["min"], ratio["max"]), expected)

    def test_a_ratio_is_taken_within_each_round(self):
        self.check([1, 2, 4], [10, 22, 36], (10, 9, 11))

    def test_a_round_without_a_figure_is_left_out(self):
        self.check([1, None, 2], [3, 5, 8], (3.5, 3, 4))
        self.check([None], [1], None)

    def test_subjects_take_turns(self):
        turns = []

        def run(subject):
            turns.append(subject)
            return {"subject": subject}

        pairs.alternate(["a", "b"], run, 3, lambda _: None)
        self.assertEqual("".join(turns), "ababab")


class Files(unittest.TestCase):
    def test_requests_stand_after_their_lengths(self):
        with tempfile.TemporaryDirectory() as folder:
            path = load.request_file(Path(folder), [b"GET", b"POST"])
            self.assertEqual(path.read_bytes(), struct.pack("<I3sI4s", 3, b"GET", 4, b"POST"))

    def test_a_page_shows_medians_ratios_and_failed_checks(self):
        record = {
            "job": "1a", "title": "T", "goal": "G", "time": "now", "rounds": 3, "seconds": 4, "warmup": 2,
            "machine": {"commit": "c", "cpu": "2 x C", "memory_gib": 1, "kernel": "6"},
            "rows": {"ours": [{"cpu_us": value, "offered": "1/s"} for value in (1.0, 3.0, 2.0)]},
            "peers": {"peer": {"figure": "cpu_us", "median": 4.0, "min": 3.5, "max": 5.0}},
            "floors": {}, "highest": {}, "figures": {"x_us": 1.5},
            "checks": [{"check": "accounting", "passed": False, "why": "1 of 2"}], "notes": ["n", "n"],
        }  # fmt: skip
        page = results.markdown(record)
        for expected in (
            "| ours | 2 (1 to 3) |",
            "- peer: 4.00 (3.50 to 5.00)",
            "**FAILED** accounting: 1 of 2",
            "- n (x2)",
        ):
            self.assertIn(expected, page)


class Limits(unittest.TestCase):
    def test_a_missing_floor_says_where_it_was_looked_for(self):
        self.assertIn("no nothing.c in", floors.missing("nothing"))

    def test_every_job_says_its_goal(self):
        self.assertTrue(all(job.title and job.goal and callable(job.run) for job in jobs.JOBS.values()))


if __name__ == "__main__":
    unittest.main()
