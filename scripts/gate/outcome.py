"""What a check found."""

from dataclasses import dataclass, field


@dataclass
class Outcome:
    """Counts and names of tests. A flaky test failed and then passed, so it is among the passed ones."""

    passed: int = 0
    skipped: int = 0
    failed: list[str] = field(default_factory=list)
    flaky: list[str] = field(default_factory=list)

    def add(self, other):
        self.passed += other.passed
        self.skipped += other.skipped
        self.failed += other.failed
        self.flaky += other.flaky
