"""What came over, was changed or was left out, one line for each thing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

Outcome = Literal["taken", "changed", "left out", "problem"]
_MARKS: dict[Outcome, str] = {"taken": "✓", "changed": "~", "left out": "-", "problem": "!"}


@dataclass(frozen=True, slots=True)
class Line:
    """One thing: its ``kind`` (settings, keys, workspace, sessions, people, jobs, skills), its name, and what became of it."""

    kind: str
    name: str
    outcome: Outcome
    told: str = ""


class Report:
    """Collects the lines of a migration, in order."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def add(self, kind: str, name: str, outcome: Outcome, told: str = "") -> None:
        """Add a line."""
        self.lines.append(Line(kind, name, outcome, told))

    def count(self, outcome: Outcome) -> int:
        """Return how many things had this outcome."""
        return sum(line.outcome == outcome for line in self.lines)

    def facts(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "lines": [asdict(line) for line in self.lines],
            "taken": self.count("taken"),
            "changed": self.count("changed"),
            "leftOut": self.count("left out"),
            "problems": self.count("problem"),
        }

    def text_lines(self) -> Iterator[str]:
        """Yield the report as text."""
        kind = ""
        for line in self.lines:
            if line.kind != kind:
                kind = line.kind
                yield f"{kind}:"
            yield f"  {_MARKS[line.outcome]} {line.name}{f': {line.told}' if line.told else ''}"
        yield ""
        yield (
            f"{self.count('taken')} taken over (✓), {self.count('changed')} changed (~), "
            f"{self.count('left out')} left out (-), {self.count('problem')} with problems (!)."
        )
