#!/usr/bin/env python3
"""Kills a server under load repeatedly and compares what it stored with what it acknowledged.

    torture/kill.py --binary target/release/playmeter --cycles 20 --seconds-max 1.0 --seed 1    as make test does
    torture/kill.py --binary target/release/playmeter --cycles 1000                              as make torture does

A cycle loads until enough was acknowledged, then for a random time, and then kills. `--seed N` repeats the same load
and the same times. Without it the seed is random. It is printed at the start and at the end.

Ends with `N passed, M failed` and the seed; the exit code is 1 if any check failed. In that case the data folder, the
ledger and the server's output are kept, and their path is printed.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import liveops
import recount
from events import PUBLIC, SECRET, SentEvents
from ledger import ACKED, DUPLICATE, UNKNOWN, Ledger
from load import Credential, Load
from server import DEADLINE_S, Server, ServerFailure

MIB = 1 << 20
START_S_MAX = 0.25
FIRST_START_S_MAX = 0.06
SECONDS_MIN = 0.3
# Weights of the kinds of cycles: killed under load, while stopping, while rebuilding, while starting.
KIND_WEIGHTS = [6, 2, 2, 2]
# What must have been acknowledged in each cycle under load before the kill: a server that rejects everything proves
# nothing.
ACKED_MIN, COMMANDS_MIN = 100, 10
# What must have been compared on each data folder. One hour with events of one game has more than 7,000 numbers to
# compare, whatever the events are, so that every run with an acknowledged event reaches this.
COMPARED_MIN = 5_000
# A server that has responded so often without acknowledging any event rejects everything.
RESPONSES_WITHOUT_ACK_MAX = 1_000


class CrashTest:
    """Some cycles on one data folder, followed by all checks."""

    def __init__(self, args, seed, report, folder):
        self.args, self.seed, self.report = args, seed, report
        self.server = Server(args.binary, folder / "data", folder / "server.log")
        self.folder, self.data, self.ledger_path = folder, folder / "data", folder / "ledger"
        self.ledger = Ledger(self.ledger_path)
        self.sent_events, self.retries = SentEvents(), []
        self.liveops = liveops.State(folder)
        self.position = self.loaded = 0
        self.compared_before = report.compared
        self.since_hour = int(time.time()) // 3600
        self.starts_s = []

    def run(self, cycles):
        """Runs the cycles until a check fails, then all checks."""
        started_s = time.monotonic()
        try:
            for cycle in range(cycles):
                if self.report.failures:
                    break
                self._cycle(cycle)
            self._check_all()
        except ServerFailure as error:
            self.report.check("the server does not fail", [str(error)])
        finally:
            self.server.kill()
        slowest = max(self.starts_s, default=0)
        print(f"  {cycles} cycles in {time.monotonic() - started_s:.1f} s, slowest start {slowest * 1000:.0f} ms")

    def _cycle(self, cycle):
        rng = random.Random(f"{self.seed}/{cycle}")
        actions = [
            CrashTest._kill_under_load,
            CrashTest._kill_while_stopping,
            CrashTest._kill_while_rebuilding,
            None,
        ]
        action = rng.choices(actions, KIND_WEIGHTS)[0]
        if cycle == 0 or action is None:
            description = self._kill_first_starts(rng) if cycle == 0 else self._kill_while_starting(rng)
            self.report.check(f"cycle {cycle}: {description}", [])
            return
        self._start(rng)
        problems = self._wait_ready()
        load, liveops_load = self._load(rng, cycle)
        answered_before = self.liveops.commands()
        load.start()
        liveops_load.start()
        commands = lambda: self.liveops.commands() - answered_before
        problems += wait_for_floors(load, commands, self.server.exit_code)
        time.sleep(rng.uniform(SECONDS_MIN, max(self.args.seconds_max, SECONDS_MIN)))
        description = action(self, rng, problems)
        problems += self._record_responses(load) + liveops_load.stop()
        self.loaded += 1
        rows = ", ".join(f"{count} {outcome}" for outcome, count in self._counts().items())
        self.report.check(f"cycle {cycle}: {description}", problems, rows)

    def _start(self, rng):
        """Small segments force frequent segment changes; different numbers of threads find different races."""
        segment = rng.choice([MIB, 4 * MIB, 64 * MIB])
        settings = {"LOG__SEGMENT_BYTES": segment, "RUNTIMES": rng.choice([1, 2, 3])}
        self.server.start(LOG_LEVEL="warn", **settings, **self.liveops.settings())

    def _wait_ready(self):
        self.starts_s.append(self.server.wait_ready())
        if not (self.folder / "second.key").exists():
            self._create_games()
        self.clients = recount.clients_by_game(self.server)
        return [line for game, client in self.clients.items() for line in self._compare_accounting(game, client)]

    def _create_games(self):
        """Creates a second game, whose ids and numbers must not mix with those of the first, and one for live-ops."""
        self._create_game("second", "events:write,query", self.folder / "second.key")
        self._create_game(liveops.GAME, liveops.SCOPES, self.liveops.key_path)

    def _create_game(self, game, scopes, key_path):
        code, output = self.server.command("games", "create", game)
        if code == 0:
            code, output = self.server.command("keys", "create", "--game", game, "--scopes", scopes)
        if code != 0:
            raise ServerFailure(f"creating a game failed: {output}")
        key_path.write_text(output["secret_key"])

    def _compare_accounting(self, game, client):
        """Compares the accounting after a restart with the responses before it."""
        reported = recount.load(client, self.since_hour, int(time.time()) // 3600 + 1)
        client.close()
        for line in recount.compare_with_responses(reported["totals"], self.ledger.totals[game]):
            yield f"game {game}, after the start: {line}"
        position = int(reported["as_of"]["position"].split("/")[1])
        if position < self.position:
            yield f"the log ends at {position}, but {self.position} was acknowledged"

    def _load(self, rng, cycle):
        retries, self.retries = self.retries, []
        name = f"{self.seed}.{cycle}"
        address, bootstrap = self.server.address(), self.server.bootstrap()
        code, games = self.server.command("games", "list")
        if code != 0:
            raise ServerFailure(f"listing the games failed: {games}")
        public = {game["number"]: game["public_key"] for game in games}
        credentials = [
            Credential(1, PUBLIC, public[1]),
            Credential(1, SECRET, bootstrap["secret_key"], imports=True),
            Credential(2, PUBLIC, public[2]),
            Credential(2, SECRET, (self.folder / "second.key").read_text()),
        ]
        pause_s = rng.choice([0.0, 0.004, 0.02])
        load = Load(name, address, credentials, self.sent_events, retries, self.args.connections, pause_s)
        return load, liveops.LiveOpsLoad(name, address, self.liveops)

    def _record_responses(self, load):
        """Stops the load after the crash and syncs every row to the ledger before anything else happens."""
        reports = load.stop()
        for connection_report in reports:
            self.ledger.append(connection_report.rows)
            self.retries.extend(connection_report.unanswered)
        self.ledger.sync()
        self.position = max([self.position] + [connection_report.position for connection_report in reports])
        return [line for connection_report in reports for line in connection_report.problems]

    def _counts(self):
        outcomes = (ACKED, DUPLICATE, "invalid", "late", UNKNOWN)
        return {outcome: sum(self.ledger.count(game, outcome) for game in (1, 2)) for outcome in outcomes}

    # The kinds of cycles. Each returns a description.

    def _kill_first_starts(self, rng):
        """A first start creates the files that later starts find; it happens once per folder, so this uses many."""
        for number in range(self.args.first_starts):
            folder = self.folder / f"first-{number}"
            server = Server(self.args.binary, folder, self.folder / "server.log")
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
        return f"killed during {self.args.first_starts + 1} first starts"

    def _kill_while_starting(self, rng):
        self._start(rng)
        time.sleep(rng.random() * START_S_MAX)
        self.server.kill()
        return "killed while starting"

    def _kill_under_load(self, _rng, _wrong):
        self.server.kill()
        return "killed under load"

    def _kill_while_stopping(self, rng, problems):
        """A stop drains requests and writes a checkpoint; the server is killed during it, or allowed to finish."""
        self.server.terminate()
        if rng.random() < 0.4:
            code = self.server.wait_stopped()
            problems += [f"exit code {code} after a stop"] if code else []
            return "stopped under load"
        time.sleep(rng.random() * 0.1)
        self.server.kill()
        return "killed while stopping"

    def _kill_while_rebuilding(self, rng, _wrong):
        """A rebuild writes a checkpoint and replaces every row while load continues."""
        command = [self.server.binary, "rebuild", "--data", str(self.data)]
        rebuild = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.random() * 0.3)
        self.server.kill()
        try:
            rebuild.wait(DEADLINE_S)
        except subprocess.TimeoutExpired as error:
            rebuild.kill()
            raise ServerFailure(f"the rebuild did not end within {DEADLINE_S} s after its server was killed") from error
        return "killed while rebuilding"

    def _check_all(self):
        """Starts the server a last time, without load, and recounts everything."""
        self.server.start(LOG_LEVEL="warn", **self.liveops.settings())
        self.report.check("the counts after the last start match the responses", self._wait_ready())
        if self.loaded:
            liveops.check(self.report, self.liveops, self.data, self.server.address())
        recount.check_running(self.report, self.data, self.ledger_path, self.clients, self.args.crc_bytes)
        self._check_floors()
        recount.check_verify(self.report, self.server, "while the server runs")
        self.server.terminate()
        code = self.server.wait_stopped()
        self.report.check("the server stops on SIGTERM", [f"exit code {code}"] if code else [])
        recount.check_verify(self.report, self.server, "after the server stopped")
        self.server.start(LOG_LEVEL="warn")
        problems = self._wait_ready()
        self.server.kill()
        self.report.check("counts are the same after a restart from a checkpoint", problems)

    def _check_floors(self):
        """Checks that enough was acknowledged and compared for the other checks to mean something."""
        acked = sum(self.ledger.count(game, ACKED) for game in (1, 2))
        done = {
            "events": (acked, ACKED_MIN * self.loaded),
            "commands": (self.liveops.commands(), COMMANDS_MIN * self.loaded),
            "numbers": (self.report.compared - self.compared_before, COMPARED_MIN if self.loaded else 0),
        }
        few = too_few(done)
        detail = ", ".join(f"{count} {name}" for name, (count, _) in done.items())
        self.report.check("enough was acknowledged and compared", few, f"{detail} in {self.loaded} cycles under load")


def too_few(counts):
    """Returns the counts below their floors as text, from (count, floor) by name."""
    return [f"{count} {name} instead of {floor}" for name, (count, floor) in counts.items() if count < floor]


def wait_for_floors(load, commands, exit_code):
    """Waits until enough was acknowledged in this cycle; returns what prevented it.

    A busy machine takes longer, but reaches the floors too. `commands()` returns how many were answered, and
    `exit_code()` is None while the server runs.
    """
    deadline_s = time.monotonic() + DEADLINE_S
    while few := too_few({"events": (load.acked(), ACKED_MIN), "commands": (commands(), COMMANDS_MIN)}):
        if exit_code() is not None:
            return [f"the server exited with {exit_code()} under load"]
        if load.acked() == 0 and load.responses() >= RESPONSES_WITHOUT_ACK_MAX:
            return [f"the server acknowledged no event in {load.responses()} responses"]
        if time.monotonic() > deadline_s:
            return [f"{line} acknowledged within {DEADLINE_S} s" for line in few]
        time.sleep(0.01)
    return []


def run_in_folders(args, seed, report):
    """Uses a new data folder every `--cycles-per-folder` cycles, so that long runs do not slow down."""
    remaining, number = args.cycles, 0
    while remaining > 0 and not report.failures:
        folder = Path(tempfile.mkdtemp(prefix="playmeter-torture-"))
        cycles = min(remaining, args.cycles_per_folder)
        print(f"{folder}: {cycles} cycles, seed {seed + number}", flush=True)
        try:
            CrashTest(args, seed + number, report, folder).run(cycles)
        finally:
            if report.failures and not args.discard:
                print(f"kept {folder}: data, ledger and server.log")
            else:
                shutil.rmtree(folder, ignore_errors=True)
        remaining, number = remaining - cycles, number + 1
    return number - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, type=Path)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--cycles-per-folder", type=int, default=25)
    # The floors come first, so that a busy machine loads for longer.
    parser.add_argument("--seconds-max", type=float, default=2.0, help="maximum duration of load beyond the floors")
    parser.add_argument("--first-starts", type=int, default=15, help="first starts that are killed before each run")
    parser.add_argument("--connections", type=int, default=6)
    parser.add_argument("--crc-bytes", type=int, default=1 << 20, help="bytes of payload whose checksums are verified")
    parser.add_argument("--discard", action="store_true", help="remove the folder even if a check failed")
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    seed = random.SystemRandom().randrange(10**9) if args.seed is None else args.seed
    report = recount.Report()
    last = run_in_folders(args, seed, report)
    print(
        f"{args.cycles} cycles: {report.events} events stored, {report.acked} acknowledged, "
        f"{report.lost} lost, {report.duplicated} duplicated"
    )
    return report.finish(seed + last if report.failures else seed)


if __name__ == "__main__":
    sys.exit(main())
