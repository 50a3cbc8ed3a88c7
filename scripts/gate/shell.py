"""Runs commands: their output goes to the terminal and to a log, and nothing that they started outlives them."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

# Only a hang takes longer. The slowest command, the first build, takes 22 minutes on two cores without other work.
TIMEOUT_S = 2 * 3600
STOP_TIMEOUT_S = 20


@dataclass
class Finished:
    """The exit code and the output lines of a command; the code is `None` if it was ended after the timeout."""

    code: int | None
    lines: list[str]


class Shell:
    """Runs commands in a repository, one at a time, with these additions to the environment."""

    def __init__(self, root, environment, log_path, out=sys.stdout):
        self.root, self.environment, self.out = Path(root), environment, out
        self.log = open(log_path, "w", encoding="utf-8")

    def print(self, text):
        """Prints a line of the runner itself."""
        print(text, file=self.out, flush=True)
        print(text, file=self.log, flush=True)

    def run(self, argv, cwd=".", environment=None, timeout_s=TIMEOUT_S):
        """Runs a command until it exits or the timeout has passed, then ends the processes that it left in its group."""
        self.print(f"$ {'' if cwd == '.' else f'cd {cwd} && '}{' '.join(map(str, argv))}")
        try:
            process = subprocess.Popen(
                [*map(str, argv)],
                cwd=self.root / cwd,
                env=os.environ | self.environment | (environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            self.print(str(error))
            return Finished(127, [str(error)])
        lines = []
        reader = threading.Thread(target=self._read, args=(process.stdout, lines), daemon=True)
        reader.start()
        try:
            status = _wait(process.pid, timeout_s)
        finally:
            _stop(process)
        reader.join(10)
        if status is None:
            self.print(f"ended after {timeout_s} s")
            return Finished(None, [*lines, f"ended after {timeout_s} s"])
        exited = status.si_code == os.CLD_EXITED
        return Finished(status.si_status if exited else 128 + status.si_status, lines)

    def _read(self, pipe, lines):
        with pipe:
            for line in pipe:
                lines.append(line.rstrip("\n"))
                self.print(lines[-1])

    def close(self):
        self.log.close()


def _wait(process, timeout_s):
    """Waits for a process to exit; returns its status, or `None` after the timeout.

    The process is not reaped, so that the number of its group is not given to another one before the group has ended.
    """
    deadline_s = time.monotonic() + timeout_s
    while (status := os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT | os.WNOHANG)) is None:
        if time.monotonic() > deadline_s:
            return None
        time.sleep(0.02)
    return status


def _stop(process):
    """Ends a process and its group. First it may end what it has started in other groups, as nextest does with tests."""
    if _wait(process.pid, 0) is None:
        os.killpg(process.pid, signal.SIGTERM)
        _wait(process.pid, STOP_TIMEOUT_S)
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
