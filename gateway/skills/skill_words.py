"""How skills are told to people, in the terminal and in chats, and to programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gateway.skills.catalog import Skill

STATES: Final = {
    "ready": "ready",
    "unapproved": "not approved",
    "changed": "changed",
    "needs": "lacks something",
    "off": "off",
    "hidden": "hidden",
    "broken": "broken",
}
PLACES: Final = {"workspace": "workspace", "managed": "installed", "bundled": "of Homebody", "extra": "extraDirs"}
_LISTED: Final = 90
_FILES: Final = 30


def facts(skill: Skill) -> dict[str, Any]:
    """Return a skill as JSON values."""
    header = skill.header
    return {
        "name": skill.name,
        "description": header.description if header else "",
        "place": skill.place,
        "state": skill.state,
        "path": str(skill.folder),
        "digest": skill.digest,
        "reason": skill.reason,
        "hint": skill.hint,
        "missing": [one.what for one in skill.missing],
        "warnings": list(header.warnings) if header else [],
    }


def details(skill: Skill) -> dict[str, Any]:
    """Return all that is known of a skill as JSON values."""
    header = skill.header
    said = {"license": header.license, "homepage": header.homepage, "compatibility": header.compatibility} if header else {}
    return {**facts(skill), **said, "files": [{"name": name, "bytes": size} for name, size in skill.files]}


def listed(skills: Sequence[Skill]) -> str:
    """Return a table of skills for the terminal."""
    wide = max([8, *(len(one.name) for one in skills)])
    rows = [f"{'skill':{wide}} {'from':11} {'state':15} what it is for"]
    rows += [f"{one.name:{wide}} {PLACES[one.place]:11} {STATES[one.state]:15} {_short(_purpose(one))}" for one in skills]
    left = sum(one.state != "ready" for one in skills)
    more = [f"{left} of them are not given to the agent: homebody skills check says why."] if left else []
    return "\n".join([*rows, *more])


def checked(skills: Sequence[Skill]) -> str:
    """Return why skills are not given to the agent, and what to do, for the terminal."""
    lines = [f"{sum(one.state == 'ready' for one in skills)} of {len(skills)} skills are given to the agent."]
    for one in skills:
        if one.state != "ready":
            lines.append(f"- {one.name} ({PLACES[one.place]}): {one.reason}. {one.hint}".rstrip())
        lines += [f"- {one.name}: note: {warning}." for warning in (one.header.warnings if one.header else ())]
    return "\n".join(lines)


def shown(skill: Skill) -> str:
    """Return one skill for the terminal."""
    header = skill.header
    lines = [f"{skill.name}: {STATES[skill.state]}, {PLACES[skill.place]}", _purpose(skill), f"Folder: {skill.folder}"]
    if skill.reason:
        lines.append(f"{skill.reason[:1].upper()}{skill.reason[1:]}. {skill.hint}".rstrip())
    if header:
        lines += [f"{name}: {value}" for name, value in (("License", header.license), ("Homepage", header.homepage)) if value]
    return "\n".join([*lines, *file_lines(skill.files), *([f"Digest: {skill.digest}"] if skill.digest else [])])


def file_lines(files: Sequence[tuple[str, int]]) -> list[str]:
    """Return the files of a skill for people."""
    lines = [f"  {name} ({size:,} bytes)" for name, size in files[:_FILES]]
    more = [f"  ... and {len(files) - _FILES} more"] if len(files) > _FILES else []
    return [f"Files ({sum(size for _, size in files):,} bytes):", *lines, *more] if files else []


def _purpose(skill: Skill) -> str:
    return skill.header.description if skill.header else "(it cannot be read)"


def _short(text: str) -> str:
    return text if len(text) <= _LISTED else f"{text[: _LISTED - 1].rstrip()}…"
