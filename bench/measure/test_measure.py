"""Tests of the arithmetic from runs to figures: `python3 -m unittest discover -s bench`."""

import struct
import tempfile
import unittest
from pathlib import Path

import run
from measure import datagrams, floors, jobs, live, load, packets, pairs, results, sockets


class Accounting(unittest.TestCase):
    def check(self, answers, expected):
        self.assertEqual(jobs.wait_for_count(iter(answers).__next__, 5, timeout_s=0.2), expected)

    def test_lagging_count_is_waited_for(self):
        self.check([3, 4, 5], 5)

    def test_wrong_count_is_returned_after_the_timeout(self):
        self.check([4] * 100, 4)

    def test_server_without_accounting_is_queried_once(self):
        self.check([None], None)


class Ratios(unittest.TestCase):
    def check(self, ours, theirs, expected):
        rows = [[{"cpu_us": value} for value in values] for values in (ours, theirs)]
        ratio = pairs.ratios(*rows, "cpu_us")
        self.assertEqual(ratio and (ratio["median"], ratio["min"], ratio["max"]), expected)

    def test_ratios_are_computed_within_each_round(self):
        self.check([1, 2, 4], [10, 22, 36], (10, 9, 11))

    def test_round_without_figure_is_skipped(self):
        self.check([1, None, 2], [3, 5, 8], (3.5, 3, 4))
        self.check([None], [1], None)

    def test_subjects_run_in_interleaved_rounds(self):
        turns = []

        def run(subject):
            turns.append(subject)
            return {"subject": subject}

        pairs.alternate(["a", "b"], run, 3, lambda _: None)
        self.assertEqual("".join(turns), "ababab")


class Files(unittest.TestCase):
    def test_requests_are_preceded_by_their_lengths(self):
        with tempfile.TemporaryDirectory() as folder:
            path = load.request_file(Path(folder), [b"GET", b"POST"])
            self.assertEqual(path.read_bytes(), struct.pack("<I3sI4s", 3, b"GET", 4, b"POST"))

    def test_page_shows_medians_ratios_and_failed_checks(self):
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


class Delivery(unittest.TestCase):
    def check(self, passed, merges=False, **found):
        seen = {"deliveries": 40, "merged": 0, "disordered": 0, "newest_min": 4, "newest_max": 4} | found
        report = {
            "setup": {"subscribers": 10},
            "subscribers": {"lost": found.get("lost", 0)},
            "measured": {"updates": 4, "is_complete": found.get("is_complete", True)},
            "seen": seen,
        }
        result = jobs.Result()
        live.check_delivery(result, "x", report, merges)
        self.assertEqual(result.checks[0]["passed"], passed, result.checks)

    def test_complete_ordered_delivery_passes(self):
        self.check(True)

    def test_lost_or_repeated_delivery_fails(self):
        self.check(False, deliveries=39)
        self.check(False, deliveries=41)
        self.check(False, lost=1)
        self.check(False, disordered=1)
        self.check(False, is_complete=False)

    def test_only_merging_servers_may_merge(self):
        self.check(True, merges=True, deliveries=30, merged=10)
        self.check(False, merges=False, deliveries=30, merged=10)

    def test_options_become_flags(self):
        self.assertEqual(sockets.to_flags({"post": "/p", "grace": 5}), ["--post", "/p", "--grace", "5"])

    def test_queries_of_a_hundred_subscribers_differ(self):
        for options in (live.affected_query(), live.unaffected_query()):
            self.assertEqual(len({options["what"].replace("{i}", str(i)) for i in range(100)}), 100)


class JobSelection(unittest.TestCase):
    def test_number_selects_all_its_letters(self):
        self.assertEqual(run.select_jobs(["4b", "6"]), ["4b", "6a", "6b", "6c", "6d", "6e", "6f", "6g"])
        self.assertEqual(run.select_jobs(["1"])[0], "1a")
        self.assertEqual(run.select_jobs(["10", "generator"]), ["10", "generator"])

    def test_unknown_job_is_rejected(self):
        with self.assertRaises(KeyError):
            run.select_jobs(["7"])


class JobsAndFloors(unittest.TestCase):
    def test_missing_floor_reports_the_searched_folder(self):
        self.assertIn("no nothing.c in", floors.missing("nothing"))

    def test_every_job_has_title_and_goal(self):
        self.assertTrue(all(job.title and job.goal and callable(job.run) for job in run.JOBS.values()))


class Packets(unittest.TestCase):
    """A server that receives up to a given rate without loss, and a generator that reaches a given rate."""

    def check(self, takes, reaches, expected):
        class Fake(packets.Stream):
            def run(self, result, settings, rate):
                offered = min(rate, reaches)
                return {
                    "lost": max(0.0, 1 - takes / offered),
                    "events_per_second": min(offered, takes),
                    "generator_cores": 1,
                }

        stream = Fake("fake", None, (("rate", 20_000),))
        found = packets.highest_rate(stream, jobs.Settings(log=lambda _: None))
        self.assertTrue(expected / 1.1 <= found["packets_per_second"] <= expected, found)

    def test_highest_rate_without_loss_is_found_within_a_tenth(self):
        self.check(300_000, 1_000_000, 300_000)
        self.check(5_000, 1_000_000, 5_000)

    def test_search_ends_at_the_limit_of_the_generator(self):
        self.check(1_000_000, 90_000, 90_000)

    def test_cost_is_per_received_packet(self):
        report = {
            "setup": {"load": "statsd", "lines": 1, "names": 500, "rate": 10, "sockets": 1},
            "server_cpu": {"us_per_packet": 3.0, "us_per_line": 3.0, "cores": 0.5},
            "server_memory_bytes": 1 << 20,
            "measured": {"packets_per_second": 10.0},
            "lag_us": {"p99": 1.0},
            "generator_cores": 0.1,
            "machine": {"load_average": 1.0, "waiting_for_cpu": 0.0},
        }
        row = packets.Stream("a", None, ()).row(report, sent=100, received_count=75)
        self.assertEqual((row["cpu_us"], row["lost"], row["events_per_second"]), (4.0, 0.25, 7.5))

    def test_queried_names_are_those_of_the_generator(self):
        self.assertEqual((datagrams.metric_names()[0], datagrams.metric_names()[-1]), ("bench.0.0", "bench.49.9"))


if __name__ == "__main__":
    unittest.main()
