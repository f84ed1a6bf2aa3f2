"""What a check finds: one type for `homebody doctor` and `homebody security audit`."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from gateway.doctor.checked_installation import Installation

Level: TypeAlias = Literal["ok", "note", "warning", "error"]
LEVELS: Final[tuple[Level, ...]] = ("ok", "note", "warning", "error")
"""``ok``: nothing is wrong. ``note``: worth knowing. ``warning``: something does not work as it should, or will not for long, or is
more open than it need be. ``error``: something does not work, or is open to others."""

Fix: TypeAlias = Callable[[], Awaitable[str]]
"""Mends a finding and returns what was done, as a sentence. Raises HomebodyError or OSError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One result of a check: what is so, why that matters, and the command or step that mends it.

    ``where``: the file, setting or address. ``fix``: what ``--fix`` does; None where it may not. ``check`` is set by the examination.
    """

    level: Level
    what: str
    why: str = ""
    mend: str = ""
    where: str = ""
    fix: Fix | None = field(default=None, compare=False, repr=False)
    check: str = ""

    @property
    def id(self) -> str:
        """What this finding is called: the same as long as the same is found."""
        text = f"{self.check}\0{self.level}\0{self.where}\0{self.what}"
        return f"{self.check}-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]}"

    def as_json(self) -> dict[str, Any]:
        """Return the finding as JSON values."""
        return {
            "id": self.id,
            "check": self.check,
            "level": self.level,
            "what": self.what,
            "where": self.where or None,
            "why": self.why or None,
            "mend": self.mend or None,
            "fixable": self.fix is not None,
        }


def ok(what: str) -> Finding:
    """Return the finding of a check that found nothing wrong."""
    return Finding(level="ok", what=what)


class NotChecked(Exception):
    """Raised by a check that cannot be made; the text says why, after "not checked: "."""


Examine: TypeAlias = "Callable[[Installation], Iterable[Finding] | Awaitable[Iterable[Finding]]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check. ``examine`` is a coroutine function, or a plain one that may block and runs in a thread of its own.

    ``seconds``: its time limit. ``quick``: part of `homebody status --deep`. ``online``: left out with ``--offline``.
    """

    name: str
    examine: Examine
    seconds: float = 20.0
    quick: bool = False
    online: bool = False


def worst(findings: Iterable[Finding]) -> Level:
    """Return the highest level of the findings; "ok" without any."""
    return max((one.level for one in findings), key=LEVELS.index, default="ok")


def counted(findings: Iterable[Finding]) -> dict[Level, int]:
    """Return the number of findings of each level."""
    listed = [one.level for one in findings]
    return {level: listed.count(level) for level in LEVELS}


def at_least(findings: Iterable[Finding], level: Level) -> Iterator[Finding]:
    """Yield the findings of a level and above."""
    return (one for one in findings if LEVELS.index(one.level) >= LEVELS.index(level))
