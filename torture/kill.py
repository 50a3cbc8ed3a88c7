#!/usr/bin/env python3
"""Kills a server under load, again and again, and holds what it kept against what it said.

    torture/kill.py --binary target/release/playmeter --cycles 20 [--seconds-max 1.0] [--seed N]

Ends with `N passed, M failed` and the seed; the exit code is 1 if anything failed. The data folder, the ledger and
the server's own lines are kept and named if so.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import recount
from events import PUBLIC, SECRET, Known
from ledger import ACKED, DUPLICATE, UNKNOWN, Ledger
from load import Credential, Load
from server import Broken, Server

MIB = 1 << 20
START_S_MAX = 0.25
FIRST_START_S_MAX = 0.06
SECONDS_MIN = 0.3
# How often it is killed under load, while it stops, while it rebuilds, and while it starts.
KINDS = [6, 2, 2, 2]


class Run:
    """Some cycles on one data folder, then every check."""

    def __init__(self, given, seed, report, folder):
        self.given, self.seed, self.report = given, seed, report
        self.server = Server(given.binary, folder / "data", folder / "server.log")
        self.folder, self.data, self.ledger_path = folder, folder / "data", folder / "ledger"
        self.ledger = Ledger(self.ledger_path)
        self.known, self.resend = Known(), []
        self.position = 0
        self.since_hour = int(time.time()) // 3600
        self.starts_s = []

    def run(self, cycles):
        """All cycles, as long as nothing is wrong."""
        begin = time.monotonic()
        try:
            for cycle in range(cycles):
                if self.report.failures:
                    break
                self._cycle(cycle)
            self._check_all()
        except Broken as broken:
            self.report.check("the server does what it must", [str(broken)])
        finally:
            self.server.kill()
        slowest = max(self.starts_s, default=0)
        print(f"  {cycles} cycles in {time.monotonic() - begin:.1f} s, slowest start {slowest * 1000:.0f} ms")

    def _cycle(self, cycle):
        rng = random.Random(f"{self.seed}/{cycle}")
        kind = rng.choices([Run._kill_under_load, Run._kill_while_stopping, Run._kill_while_rebuilding, None], KINDS)[0]
        if cycle == 0 or kind is None:
            how = self._kill_first_starts(rng) if cycle == 0 else self._kill_while_starting(rng)
            self.report.check(f"cycle {cycle}: {how}", [])
            return
        self._start(rng)
        wrong = self._wait_ready()
        load = self._load(rng, cycle)
        load.start()
        time.sleep(rng.uniform(SECONDS_MIN, max(self.given.seconds_max, SECONDS_MIN)))
        how = kind(self, rng, wrong)
        wrong += self._settle(load)
        rows = ", ".join(f"{count} {word}" for word, count in self._counts().items())
        self.report.check(f"cycle {cycle}: {how}", wrong, rows)

    def _start(self, rng):
        """Small segments make the log change files; two threads and one find different races."""
        segment = rng.choice([MIB, 4 * MIB, 64 * MIB])
        self.server.start(LOG__SEGMENT_BYTES=segment, RUNTIMES=rng.choice([1, 2, 3]), LOG_LEVEL="warn")

    def _wait_ready(self):
        self.starts_s.append(self.server.wait_ready())
        if not (self.folder / "second.key").exists():
            self._make_second_game()
        self.clients = recount.games_of(self.server)
        return [line for game, client in self.clients.items() for line in self._accounts_so_far(game, client)]

    def _make_second_game(self):
        """A neighbour, whose ids and numbers must not mix with those of the first."""
        code, said = self.server.command("games", "create", "second")
        if code == 0:
            code, said = self.server.command("keys", "create", "--game", "second", "--scopes", "events:write,query")
        if code != 0:
            raise Broken(f"a second game could not be made: {said}")
        (self.folder / "second.key").write_text(said["secret_key"])

    def _accounts_so_far(self, game, client):
        """What the server counts after a restart, against the answers before it."""
        told = recount.load(client, self.since_hour, int(time.time()) // 3600 + 1)
        client.close()
        for line in recount.against_answers(told["totals"], self.ledger.totals[game]):
            yield f"game {game}, after the start: {line}"
        position = int(told["as_of"]["position"].split("/")[1])
        if position < self.position:
            yield f"the log ends at {position}, {self.position} was acknowledged"

    def _load(self, rng, cycle):
        resend, self.resend = self.resend, []
        name = f"{self.seed}.{cycle}"
        address, bootstrap = self.server.address(), self.server.bootstrap()
        code, games = self.server.command("games", "list")
        if code != 0:
            raise Broken(f"the games could not be listed: {games}")
        public = {game["number"]: game["public_key"] for game in games}
        credentials = [
            Credential(1, PUBLIC, public[1]),
            Credential(1, SECRET, bootstrap["secret_key"], imports=True),
            Credential(2, PUBLIC, public[2]),
            Credential(2, SECRET, (self.folder / "second.key").read_text()),
        ]
        pause_s = rng.choice([0.0, 0.004, 0.02])
        return Load(name, address, credentials, self.known, resend, self.given.connections, pause_s)

    def _settle(self, load):
        """After the crash: every row is on the disk before anything else happens."""
        tallies = load.stop()
        for tally in tallies:
            self.ledger.note(tally.rows)
            self.resend.extend(tally.unknown)
        self.ledger.sync()
        self.position = max([self.position] + [tally.position for tally in tallies])
        return [line for tally in tallies for line in tally.wrong]

    def _counts(self):
        words = (ACKED, DUPLICATE, "invalid", "late", UNKNOWN)
        return {word: sum(self.ledger.count(game, word) for game in (1, 2)) for word in words}

    # What happens to the server in a cycle. Each says how it went.

    def _kill_first_starts(self, rng):
        """A first start makes everything that later ones find; a folder has only one, so there are other folders."""
        for number in range(self.given.first_starts):
            folder = self.folder / f"first-{number}"
            server = Server(self.given.binary, folder, self.folder / "server.log")
            try:
                server.start()
                time.sleep(rng.random() * FIRST_START_S_MAX)
                server.kill()
                server.start()
                server.wait_ready()
                server.bootstrap()
            finally:
                server.kill()
            shutil.rmtree(folder)
        self._start(rng)
        time.sleep(rng.random() * FIRST_START_S_MAX)
        self.server.kill()
        return f"killed in {self.given.first_starts + 1} first starts"

    def _kill_while_starting(self, rng):
        self._start(rng)
        time.sleep(rng.random() * START_S_MAX)
        self.server.kill()
        return "killed while it started"

    def _kill_under_load(self, _rng, _wrong):
        self.server.kill()
        return "killed under load"

    def _kill_while_stopping(self, rng, wrong):
        """A stop drains and writes a checkpoint; it is killed somewhere in there, or allowed to end."""
        self.server.terminate()
        if rng.random() < 0.4:
            code = self.server.wait_stopped()
            wrong += [f"exit code {code} after a stop"] if code else []
            return "stopped under load"
        time.sleep(rng.random() * 0.1)
        self.server.kill()
        return "killed while it stopped"

    def _kill_while_rebuilding(self, rng, _wrong):
        """A rebuild writes a checkpoint and replaces every row, while load goes on."""
        command = [self.server.binary, "rebuild", "--data", str(self.data)]
        rebuild = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.random() * 0.3)
        self.server.kill()
        rebuild.wait(60)
        return "killed while it rebuilt"

    def _check_all(self):
        """The last start, nothing under way any more: everything is counted again."""
        self.server.start(LOG_LEVEL="warn")
        self.report.check("the last start counts what was answered", self._wait_ready())
        recount.check_running(self.report, self.data, self.ledger_path, self.clients, self.given.crc_bytes)
        recount.check_verify(self.report, self.server, "while the server runs")
        self.server.terminate()
        code = self.server.wait_stopped()
        self.report.check("the server stops when asked", [f"exit code {code}"] if code else [])
        recount.check_verify(self.report, self.server, "after the server stopped")
        self.server.start(LOG_LEVEL="warn")
        wrong = self._wait_ready()
        self.server.kill()
        self.report.check("a start after a checkpoint counts the same", wrong)


def folders(given, seed, report):
    """A new data folder for every so many cycles, so that long runs do not become slow ones."""
    left, number = given.cycles, 0
    while left > 0 and not report.failures:
        folder = Path(tempfile.mkdtemp(prefix="playmeter-torture-"))
        cycles = min(left, given.cycles_per_folder)
        print(f"{folder}: {cycles} cycles, seed {seed + number}", flush=True)
        try:
            Run(given, seed + number, report, folder).run(cycles)
        finally:
            if report.failures and not given.discard:
                print(f"kept {folder}: data, ledger and server.log")
            else:
                shutil.rmtree(folder, ignore_errors=True)
        left, number = left - cycles, number + 1
    return number - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, type=Path)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--cycles-per-folder", type=int, default=25)
    parser.add_argument("--seconds-max", type=float, default=2.0, help="load lasts up to so long before a kill")
    parser.add_argument("--first-starts", type=int, default=15, help="so many first starts are killed before each run")
    parser.add_argument("--connections", type=int, default=6)
    parser.add_argument("--crc-bytes", type=int, default=1 << 20, help="payload that is put through the checksum")
    parser.add_argument("--discard", action="store_true", help="remove the folder even if something failed")
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(10**9) if given.seed is None else given.seed
    report = recount.Report()
    last = folders(given, seed, report)
    print(
        f"{given.cycles} cycles: {report.events} events stored, {report.acked} acknowledged, "
        f"{report.lost} lost, {report.twice} twice"
    )
    return report.closing(seed + last if report.failures else seed)


if __name__ == "__main__":
    sys.exit(main())
