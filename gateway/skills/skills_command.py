"""The slash command ``/skills``: shows which skills an agent is given, why others are not, and approves one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from agent.characters import without_smuggled
from agent.errors import InvalidSkill
from channels.messages import Button
from gateway.base.errors import HomebodyError, UsageError
from gateway.routing.routed_message import RoutedMessage
from gateway.skills import skill_folder as folders
from gateway.skills import skill_words
from gateway.skills.catalog import Skill, SkillCatalog
from gateway.skills.choosing import LEAST_DIGEST, approvable, named

Reply: TypeAlias = "tuple[str, Sequence[Button]]"
_USAGE: Final = "Send /skills for the list, /skills NAME for one, or /skills approve NAME to look at one and approve it."
_SHOWN: Final = 1500
"""Characters of a SKILL.md that are shown before it is approved."""
_PURPOSE: Final = 120
_MOST_DATA: Final = 60
"""Bytes that a button can carry."""
_WAITING: Final = frozenset({"unapproved", "changed"})


class SkillsCommand:
    """Answers ``/skills``, for owners. ``catalog`` finds the skills of an agent. May be called twice for one message after a crash."""

    def __init__(self, catalog: Callable[[str], SkillCatalog]) -> None:
        self._catalog = catalog

    async def reply(self, argument: str, message: RoutedMessage) -> Reply:
        """Do what the argument says and return the reply with its buttons."""
        if not message.actor.owner or message.route.audience.kind != "owner":
            return "Only my owner can use this command, in a private chat.", ()
        try:
            return await asyncio.to_thread(_reply, self._catalog(message.route.agent), argument.split())
        except HomebodyError as error:
            text = str(error)
            return f"{text[:1].upper()}{text[1:]}. {error.hint}".strip(), ()


def _reply(catalog: SkillCatalog, said: Sequence[str]) -> Reply:
    match said:
        case []:
            return _listed(catalog.scan()), ()
        case ["approve", name]:
            return _approval_question(approvable(named(catalog, name), None))
        case ["approve", name, digest]:
            one = approvable(named(catalog, name), digest)
            if one.place != "bundled":
                catalog.trust.approve(one.name, one.digest)
            return f"✅ Approved {one.name} as it is now.{_still(catalog, one)}", ()
        case [name]:
            one = named(catalog, name)[0]
            return _approval_question(one) if one.state in _WAITING else (skill_words.shown(one), ())
        case _:
            return _USAGE, ()


def _listed(skills: Sequence[Skill]) -> str:
    ready = [f"- `{one.name}` — {_cut(_purpose(one), _PURPOSE)}" for one in skills if one.state == "ready"]
    waiting = [f"- `{one.name}` ({skill_words.PLACES[one.place]}): {one.reason}" for one in skills if one.state in _WAITING]
    left = [
        f"- `{one.name}` ({skill_words.PLACES[one.place]}): {_cut(one.reason, 2 * _PURPOSE)}"
        for one in skills
        if one.state not in {"ready", *_WAITING}
    ]
    parts = [["Skills that I am given:", "", *ready] if ready else ["I am given no skills."]]
    if waiting:
        parts.append(["🔐 These wait for your approval (/skills approve NAME):", "", *waiting])
    if left:
        parts.append(["Left out:", "", *left])
    return "\n\n".join("\n".join(part) for part in parts)


def _approval_question(skill: Skill) -> Reply:
    """Show a skill as it is now, with a button that approves this and nothing else. Raises UsageError where it changes meanwhile."""
    if skill.state not in _WAITING:
        return f"{skill.name} needs no approval: it is {skill_words.STATES[skill.state]}. {skill.reason}".strip(), ()
    try:
        content = folders.read(skill.folder)
    except InvalidSkill as error:
        raise UsageError(f"{skill.name} cannot be approved: {error}", hint=skill.hint) from error
    if content.digest != skill.digest:
        raise UsageError(f"{skill.name} has just changed", hint=f"Look at it again: /skills approve {skill.name}")
    command = f"/skills approve {skill.name} {skill.digest[:LEAST_DIGEST]}"
    text = _cut("\n".join(without_smuggled(line) for line in content.text.strip().splitlines()), _SHOWN)
    more = [f"(the rest is in {skill.folder / folders.SKILL_FILE})"] if text.endswith("…") else []
    lines = [
        f"🔐 {skill.name} ({skill_words.PLACES[skill.place]}): {skill.reason}. Its {folders.SKILL_FILE} says:",
        "",
        *(f"> {line}" for line in text.splitlines()),
        "",
        *more,
        *skill_words.file_lines(skill.files),
        "",
        f"I will follow it once you approve it, and its other files with it ({skill.folder}): {command}",
    ]
    button = Button(label="✅ Approve", value=command)
    return "\n".join(lines), (button,) if len(command.encode()) <= _MOST_DATA else ()


def _still(catalog: SkillCatalog, skill: Skill) -> str:
    """Say why a skill that was approved is left out all the same; "" if it is not."""
    now = next((one for one in catalog.scan() if one.folder == skill.folder), skill)
    return "" if now.state == "ready" else f" It is left out all the same: {now.reason}. {now.hint}".rstrip()


def _purpose(skill: Skill) -> str:
    return skill.header.description if skill.header else ""


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
