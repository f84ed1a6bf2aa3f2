"""Tells the owner of skills that wait for an approval, each content of a skill once, without being asked."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from agent.characters import without_smuggled
from gateway.base.atomic_file import write_atomically
from gateway.skills.catalog import Skill

FILE_NAME: Final = "skills-told.json"
MOST_NAMED: Final = 5
"""Skills that one message names."""
_REMEMBERED: Final = 2000
_PURPOSE: Final = 200
WAITING: Final = frozenset({"unapproved", "changed"})

log = logging.getLogger(__name__)


class SkillQuestions:
    """Remembers what was told in ``state``; if that is lost, it is told once more. Methods block, from whatever thread."""

    def __init__(self, state: Path, tell: Callable[[str], object]) -> None:
        self._path = state / FILE_NAME
        self._tell = tell
        self._lock = threading.Lock()
        self._told: list[str] | None = None

    def tell_of_new(self, skills: Sequence[Skill]) -> None:
        """Tell of those that wait and were not told of."""
        waiting = [one for one in skills if one.state in WAITING and one.digest]
        if not waiting:
            return
        with self._lock:
            known = self._read()
            fresh = [one for one in waiting if one.digest not in known]
            if not fresh:
                return
            self._told = [*known, *dict.fromkeys(one.digest for one in fresh)][-_REMEMBERED:]
            try:
                write_atomically(self._path, json.dumps(self._told), durable=False)
            except OSError as error:
                log.warning("%s cannot be written, so skills are told of again after a restart: %s", self._path, error)
        self._tell(question(fresh))

    def _read(self) -> list[str]:
        if self._told is None:
            try:
                found = json.loads(self._path.read_text("utf-8"))
                self._told = [str(one) for one in found] if isinstance(found, list) else []
            except (OSError, ValueError):
                self._told = []
        return self._told


def question(skills: Sequence[Skill]) -> str:
    """Return the message that asks the owner about skills."""
    from gateway.skills import skill_words

    lines = [f"- {one.name} ({skill_words.PLACES[one.place]}): {one.reason}{_purpose(one)}" for one in skills[:MOST_NAMED]]
    lines += [f"- and {len(skills) - MOST_NAMED} more" if len(skills) > MOST_NAMED else ""]
    name = skills[0].name if len(skills) == 1 else "NAME"
    return "\n".join(
        [
            "🔐 Skills wait for your approval; I am not given them until then:",
            *filter(None, lines),
            f"Look at one and approve it: /skills {name} here, or `homebody skills show {name}` and `homebody skills approve {name}`.",
        ]
    )


def _purpose(skill: Skill) -> str:
    if skill.header is None:
        return ""
    plain = " ".join(without_smuggled(skill.header.description).split())
    return f" — it says of itself: “{plain if len(plain) <= _PURPOSE else f'{plain[: _PURPOSE - 1]}…'}”"
