"""What a check found."""

from dataclasses import dataclass, field


@dataclass
class Outcome:
    """Counts and names of tests. A flaky test failed and then passed, so it is among the passed ones.

    `flaky_units` is the number of files, scripts and single Rust tests, the units that are run again, with flaky tests: when a
    program dies, all tests of a file that come after it fail for one reason. A server that several files use counts for each.
    """

    passed: int = 0
    skipped: int = 0
    failed: list[str] = field(default_factory=list)
    flaky: list[str] = field(default_factory=list)
    flaky_units: int = 0

    def add(self, other):
        self.passed += other.passed
        self.skipped += other.skipped
        self.failed += other.failed
        self.flaky += other.flaky
        self.flaky_units += other.flaky_units
