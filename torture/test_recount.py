"""The judge judged: each kind of wrong has to be seen, and what is right has to pass."""

import io
import unittest
from collections import Counter, defaultdict

import ledger
import recount
from segments import Batch, Event
from views import Cell, Questions, Recount, Sessions, agrees

NOW_MS = 1_800_000_000_000


def stored(ident=5, value=1.0, name="score", player="ann", ts_ms=NOW_MS, country="FR", bot=False):
    return Event(ident, ts_ms, name, player, "", value, (country, "", "", "", ""), "", bot, False)


class FakeLog:
    def __init__(self, *events, tallies=()):
        self.batches = [Batch(0, 1, 0, 1, NOW_MS, list(tallies), list(events))]
        self.next = max(len(events), 1)

    def events(self):
        return ((batch, event) for batch in self.batches for event in batch.events)


def row(event, outcome):
    key = (1, 0, recount.identity(event))
    return key, ledger.content_hash(ledger.stored_fields(event), ledger.RECEIPT), outcome


class Judging(unittest.TestCase):
    def failures(self, log, rows):
        sent, report = defaultdict(ledger.Sent), recount.Report(io.StringIO())
        for key, content, outcome in rows:
            entry = sent[key]
            {"acked": entry.acked, "unknown": entry.unknown}.get(outcome, []).append(content)
            entry.refused += outcome.startswith("invalid")
            entry.duplicate += outcome == "duplicate"
        recount.check_ledger(report, log, sent)
        return report.failures

    def test_what_was_sent_and_stored_passes(self):
        one, two = stored(1), stored(2)
        self.assertEqual(self.failures(FakeLog(one, two), [row(one, "acked"), row(two, "unknown")]), [])

    def test_an_unanswered_event_may_be_missing_and_an_answered_one_may_not(self):
        self.assertEqual(self.failures(FakeLog(), [row(stored(1), "unknown")]), [])
        for answer in ("acked", "duplicate"):
            failures = self.failures(FakeLog(), [row(stored(1), answer)])
            self.assertEqual(failures, ["every acknowledged event is stored"])

    def test_an_event_is_stored_and_accepted_once(self):
        one = stored(1)
        twice = ["no event is stored or accepted twice"]
        self.assertEqual(self.failures(FakeLog(one, one), [row(one, "acked")]), twice)
        self.assertEqual(self.failures(FakeLog(one), [row(one, "acked"), row(one, "acked")]), twice)

    def test_nothing_is_stored_that_was_refused_or_never_sent(self):
        one = stored(1)
        self.assertEqual(self.failures(FakeLog(one), []), ["what is stored was sent"])
        self.assertEqual(self.failures(FakeLog(one), [row(one, "invalid:x")]), ["what was refused is not stored"])

    def test_content_has_to_be_equal(self):
        for other in (stored(1, value=2.0), stored(1, ts_ms=NOW_MS - 1), stored(1, bot=True), stored(1, country="")):
            self.assertEqual(self.failures(FakeLog(other), [row(stored(1), "acked")]), ["contents are equal"])

    def test_outcomes_are_counted_as_often_as_they_were_answered(self):
        rows = {"acked": 5, "duplicate": 1, "unknown": 2}
        wrong = lambda **account: list(recount.against_answers(Counter(account), Counter(rows)))
        self.assertEqual(wrong(accepted=5, duplicate=1), [])
        self.assertEqual(wrong(accepted=7, duplicate=1), [])
        self.assertEqual(len(wrong(accepted=4, duplicate=1)), 2)
        self.assertEqual(len(wrong(accepted=8, duplicate=1)), 2)
        self.assertEqual(len(wrong(accepted=7, duplicate=2)), 1)


class Counting(unittest.TestCase):
    def cell(self, *values):
        cell = Cell()
        for index, value in enumerate(values):
            cell.add(f"p{index % 2}", value)
        return cell

    def test_measures_are_exact(self):
        cell = self.cell(1e17, 1.0, -1e17, 0.5, None)
        measured = [cell.measure(name) for name in ("count", "sum", "min", "max", "avg", "uniques", "p50", "p99")]
        self.assertEqual(measured, [5, 1.5, -1e17, 1e17, 0.375, 2, 0.5, 1e17])
        self.assertEqual([Cell().measure(name) for name in ("count", "sum", "min", "p50")], [0, 0.0, None, None])

    def test_only_players_in_thousands_and_quantiles_may_be_off(self):
        self.assertTrue(agrees("p90", 100.0, 100.9) and not agrees("p90", 100.0, 101.1))
        self.assertTrue(agrees("uniques", 1000, 1029) and not agrees("uniques", 999, 1000))
        self.assertFalse(agrees("sum", 0.3, 0.1 + 0.2) or agrees("min", None, 0) or agrees("max", 0, None))

    def sessions(self, *steps):
        sessions = Sessions()
        return [sessions.observe(player, name, 600_000 + at_s) for at_s, player, name in steps]

    def test_a_session_begins_with_its_start_or_after_half_an_hour_of_silence(self):
        steps = (0, "$session_start"), (60, "$ping"), (70, "$session_end"), (80, "x")
        told = self.sessions(*((at_s, "ann", name) for at_s, name in steps))
        self.assertEqual(told, [(True, 0), (False, 60), (False, 10), (True, 0)])
        told = self.sessions((0, "ann", "x"), (1799, "ann", "x"), (3599, "ann", "x"))
        self.assertEqual(told, [(True, 0), (False, 1799), (True, 0)])

    def test_an_event_that_is_hours_late_begins_no_session(self):
        told = self.sessions((7200, "ann", "x"), (0, "ann", "x"), (0, "bo", "x"), (7230, "ann", "x"))
        self.assertEqual(told, [(True, 0), (False, 0), (False, 0), (False, 30)])

    def test_bots_are_counted_but_are_no_players(self):
        recount_ = Recount()
        log = FakeLog(stored(1), stored(2, player="bot", bot=True))
        for batch, event in log.events():
            recount_.add(batch, event)
        cell = recount_.table("$events", "", recount_.windows()[0], 60)[()][-1]
        self.assertEqual((cell.count, cell.players), (2, {"ann"}))


class Asking(unittest.TestCase):
    """A server that answers right but for one number."""

    def wrong(self, change):
        recount_ = Recount()
        for batch, event in FakeLog(stored(1), stored(2, country="DE"), stored(3)).events():
            recount_.add(batch, event)
        window = recount_.windows()[0]
        series = [
            {"name": "count", "key": {"country": "FR"}, "values": [2], "total": 2},
            {"name": "count", "key": {"country": "DE"}, "values": [1], "total": 1},
        ]
        change(series)
        answer = {"times": ["t"], "series": series, "as_of": {"position": "0/3"}}
        client = type("Client", (), {"post": lambda self, path, body: answer})()
        questions = Questions(client, recount_, 3)
        table = recount_.table("score", "country", window, 60)
        questions._compare("score", ["count"], "country", window, "hour", table, 10)
        return questions.wrong

    def test_one_wrong_number_or_key_is_seen(self):
        self.assertEqual(self.wrong(lambda series: None), [])
        self.assertEqual(len(self.wrong(lambda series: series[0].update(values=[3]))), 1)
        self.assertEqual(len(self.wrong(lambda series: series[1].update(total=2))), 1)
        self.assertEqual(len(self.wrong(lambda series: series[1].update(key={"country": "BR"}))), 1)
        self.assertEqual(len(self.wrong(lambda series: series.pop())), 1)


if __name__ == "__main__":
    unittest.main()
