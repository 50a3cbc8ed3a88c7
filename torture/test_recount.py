"""Tests of the checks: each kind of problem must be found, and correct data must pass."""

import io
import unittest
from collections import Counter, defaultdict

import ledger
import recount
from segments import StoredBatch, StoredEvent
from views import Aggregate, ExpectedViews, QueryChecker, Sessions, matches

NOW_MS = 1_800_000_000_000


def stored(event_id=5, value=1.0, name="score", player="ann", ts_ms=NOW_MS, country="FR", bot=False):
    return StoredEvent(event_id, ts_ms, name, player, "", value, (country, "", "", "", ""), "", bot, False)


class FakeLog:
    def __init__(self, *events, tallies=()):
        self.batches = [StoredBatch(0, 1, 0, 1, NOW_MS, list(tallies), list(events))]
        self.next = max(len(events), 1)

    def events(self):
        return ((batch, event) for batch in self.batches for event in batch.events)


def row(event, outcome):
    key = (1, 0, recount.ledger_event_id(event))
    return key, ledger.content_hash(ledger.stored_fields(event), ledger.RECEIPT), outcome


class LedgerCheckTests(unittest.TestCase):
    def failures(self, log, rows):
        entries, report = defaultdict(ledger.LedgerEntry), recount.Report(io.StringIO())
        for key, content, outcome in rows:
            entry = entries[key]
            {"acked": entry.acked, "unknown": entry.unanswered}.get(outcome, []).append(content)
            entry.rejected += outcome.startswith("invalid")
            entry.duplicate += outcome == "duplicate"
        recount.check_ledger(report, log, entries)
        return report.failures

    def test_sent_and_stored_events_pass(self):
        one, two = stored(1), stored(2)
        self.assertEqual(self.failures(FakeLog(one, two), [row(one, "acked"), row(two, "unknown")]), [])

    def test_only_unanswered_events_may_be_missing(self):
        self.assertEqual(self.failures(FakeLog(), [row(stored(1), "unknown")]), [])
        for response in ("acked", "duplicate"):
            failures = self.failures(FakeLog(), [row(stored(1), response)])
            self.assertEqual(failures, ["every acknowledged event is stored"])

    def test_event_stored_or_accepted_twice_fails(self):
        one = stored(1)
        twice = ["no event is stored or accepted twice"]
        self.assertEqual(self.failures(FakeLog(one, one), [row(one, "acked")]), twice)
        self.assertEqual(self.failures(FakeLog(one), [row(one, "acked"), row(one, "acked")]), twice)

    def test_stored_event_that_was_rejected_or_never_sent_fails(self):
        one = stored(1)
        self.assertEqual(self.failures(FakeLog(one), []), ["every stored event was sent"])
        self.assertEqual(self.failures(FakeLog(one), [row(one, "invalid:x")]), ["no rejected event is stored"])

    def test_different_content_fails(self):
        for other in (stored(1, value=2.0), stored(1, ts_ms=NOW_MS - 1), stored(1, bot=True), stored(1, country="")):
            failures = self.failures(FakeLog(other), [row(stored(1), "acked")])
            self.assertEqual(failures, ["stored content equals sent content"])

    def test_counts_must_match_responses(self):
        rows = {"acked": 5, "duplicate": 1, "unknown": 2}
        problems = lambda **account: list(recount.compare_with_responses(Counter(account), Counter(rows)))
        self.assertEqual(problems(accepted=5, duplicate=1), [])
        self.assertEqual(problems(accepted=7, duplicate=1), [])
        self.assertEqual(len(problems(accepted=4, duplicate=1)), 2)
        self.assertEqual(len(problems(accepted=8, duplicate=1)), 2)
        self.assertEqual(len(problems(accepted=7, duplicate=2)), 1)


class ExpectedViewsTests(unittest.TestCase):
    def aggregate(self, *values):
        aggregate = Aggregate()
        for index, value in enumerate(values):
            aggregate.add(f"p{index % 2}", value)
        return aggregate

    def test_measures_are_exact(self):
        aggregate = self.aggregate(1e17, 1.0, -1e17, 0.5, None)
        measured = [aggregate.measure(name) for name in ("count", "sum", "min", "max", "avg", "uniques", "p50", "p99")]
        self.assertEqual(measured, [5, 1.5, -1e17, 1e17, 0.375, 2, 0.5, 1e17])
        self.assertEqual([Aggregate().measure(name) for name in ("count", "sum", "min", "p50")], [0, 0.0, None, None])

    def test_only_large_player_counts_and_quantiles_are_approximate(self):
        self.assertTrue(matches("p90", 100.0, 100.9) and not matches("p90", 100.0, 101.1))
        self.assertTrue(matches("uniques", 1000, 1029) and not matches("uniques", 999, 1000))
        self.assertFalse(matches("sum", 0.3, 0.1 + 0.2) or matches("min", None, 0) or matches("max", 0, None))

    def sessions(self, *steps):
        sessions = Sessions()
        return [sessions.observe(player, name, 600_000 + at_s) for at_s, player, name in steps]

    def test_session_begins_with_start_event_or_after_30_minutes_of_inactivity(self):
        steps = (0, "$session_start"), (60, "$ping"), (70, "$session_end"), (80, "x")
        observed = self.sessions(*((at_s, "ann", name) for at_s, name in steps))
        self.assertEqual(observed, [(True, 0), (False, 60), (False, 10), (True, 0)])
        observed = self.sessions((0, "ann", "x"), (1799, "ann", "x"), (3599, "ann", "x"))
        self.assertEqual(observed, [(True, 0), (False, 1799), (True, 0)])

    def test_event_that_is_hours_late_begins_no_session(self):
        observed = self.sessions((7200, "ann", "x"), (0, "ann", "x"), (0, "bo", "x"), (7230, "ann", "x"))
        self.assertEqual(observed, [(True, 0), (False, 0), (False, 0), (False, 30)])

    def test_bots_are_counted_as_events_but_not_as_players(self):
        expected_views = ExpectedViews()
        log = FakeLog(stored(1), stored(2, player="bot", bot=True))
        for batch, event in log.events():
            expected_views.add(batch, event)
        aggregate = expected_views.table("$events", "", expected_views.windows()[0], 60)[()][-1]
        self.assertEqual((aggregate.count, aggregate.players), (2, {"ann"}))


class QueryCheckerTests(unittest.TestCase):
    """A fake server whose results are correct except for one number."""

    def problems(self, change):
        expected_views = ExpectedViews()
        for batch, event in FakeLog(stored(1), stored(2, country="DE"), stored(3)).events():
            expected_views.add(batch, event)
        window = expected_views.windows()[0]
        series = [
            {"name": "count", "key": {"country": "FR"}, "values": [2], "total": 2},
            {"name": "count", "key": {"country": "DE"}, "values": [1], "total": 1},
        ]
        change(series)
        response = {"times": ["t"], "series": series, "as_of": {"position": "0/3"}}
        client = type("Client", (), {"post": lambda self, path, body: response})()
        checker = QueryChecker(client, expected_views, 3)
        table = expected_views.table("score", "country", window, 60)
        checker._compare_breakdown("score", ["count"], "country", window, "hour", table, 10)
        return checker.problems

    def test_single_wrong_number_or_key_is_found(self):
        self.assertEqual(self.problems(lambda series: None), [])
        self.assertEqual(len(self.problems(lambda series: series[0].update(values=[3]))), 1)
        self.assertEqual(len(self.problems(lambda series: series[1].update(total=2))), 1)
        self.assertEqual(len(self.problems(lambda series: series[1].update(key={"country": "BR"}))), 1)
        self.assertEqual(len(self.problems(lambda series: series.pop())), 1)


if __name__ == "__main__":
    unittest.main()
