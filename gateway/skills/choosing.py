"""Finds the skill that the owner means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.base.errors import UsageError
from gateway.skills.catalog import Skill, SkillCatalog

LEAST_DIGEST: Final = 8
"""Figures of a digest that name a content."""


def named(catalog: SkillCatalog, name: str) -> list[Skill]:
    """Return the skills of a name in all places, the first that count first. Blocks. Raises UsageError where there is none."""
    skills = catalog.scan()
    found = [one for one in skills if one.name == name]
    if not found:
        from difflib import get_close_matches

        near = get_close_matches(name, [one.name for one in skills], n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise UsageError(f"there is no skill {name[:80]!r}", hint=f"{hint}homebody skills list shows all.")
    return found


def approvable(found: Sequence[Skill], digest: str | None) -> Skill:
    """Return the one of several skills of a name that is to be approved; of those that wait, the one with that digest.

    Raises:
        UsageError: it cannot be used, or none has the digest.
    """
    waiting = [one for one in found if one.state in {"unapproved", "changed"}]
    matching = [one for one in (*waiting, *found) if _has(one, digest)]
    one = next(iter((*matching, *waiting, *found)))
    if one.state == "broken":
        raise UsageError(f"{one.name} cannot be approved: {one.reason}", hint=one.hint)
    if digest is not None and not matching:
        hint = f"Look at it again: homebody skills show {one.name}"
        raise UsageError(f"{one.name} is not the one with the digest {digest[:64]} (any more)", hint=hint)
    return one


def _has(skill: Skill, digest: str | None) -> bool:
    return digest is not None and len(digest) >= LEAST_DIGEST and skill.digest.startswith(digest.lower())
