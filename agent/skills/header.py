"""What the front matter of a skill says: name, description, and what it needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field

from agent.characters import without_smuggled
from agent.errors import InvalidSkill
from agent.skills import front_matter

NAME: Final = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(?:-[a-z0-9]+)*")
"""Names by the format: at most 64 lower-case letters, digits and single hyphens."""
LONG: Final = 1024
"""The longest description by the format; a longer one is taken, with a warning."""
_PROGRAMS: Final = ("homebody", "openclaw", "clawdbot")
"""Whose part of ``metadata`` is read, the first before the others."""
_MOST: Final = 64
_WORD: Final = 200


class Needs(Struct, frozen=True, kw_only=True):
    """What has to be there for a skill to be of use. ``always``: nothing has, whatever else is said.

    ``bins`` are programs, of ``any_bins`` one is enough; ``env`` are variables, ``config`` keys of the settings such as
    ``mail.accounts``, ``os`` the names of systems as ``sys.platform`` or Node.js give them.
    """

    bins: tuple[str, ...] = ()
    any_bins: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    config: tuple[str, ...] = ()
    os: tuple[str, ...] = ()
    always: bool = False


class Header(Struct, frozen=True, kw_only=True):
    """The front matter of one skill. ``key_variable`` is the variable that its API key is given in; "" for none.

    ``advice`` are its own words on how to install what it needs. ``warnings`` say where it departs from the format.
    """

    name: str
    description: str
    needs: Needs = field(default_factory=Needs)
    license: str = ""
    compatibility: str = ""
    homepage: str = ""
    key_variable: str = ""
    advice: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def read_header(text: str, folder: str) -> Header:
    """Read the header of a SKILL.md that lies in the folder of that name.

    Raises:
        InvalidSkill: it cannot be used as a skill; the text says why.
    """
    fields = front_matter.parse(front_matter.split(text)[0])
    name = _line(fields.get("name")) or folder
    if NAME.fullmatch(name) is None:
        raise InvalidSkill(
            f"the name {name[:80]!r} is not allowed: up to 64 lower-case letters, digits and single hyphens"
            + ("" if fields.get("name") else " (SKILL.md says none, so it is that of its folder)")
        )
    if name != folder:
        raise InvalidSkill(f"SKILL.md says name: {name}, but its folder is named {folder!r}; both have to be the same")
    description = _line(fields.get("description"))
    if not description:
        raise InvalidSkill("SKILL.md has no description: say in one sentence what the skill does and when to use it")
    metadata = front_matter.as_mapping(fields.get("metadata"))
    parts = [part for program in _PROGRAMS if (part := front_matter.as_mapping(metadata.get(program)))]
    warnings = (
        [f"its description has {len(description):,} characters; the format allows {LONG:,}"] if len(description) > LONG else []
    )
    return Header(
        name=name,
        description=description,
        needs=_needs([*parts, metadata, fields]),
        license=_line(fields.get("license")),
        compatibility=_line(fields.get("compatibility")),
        homepage=_line(fields.get("homepage")),
        key_variable=next(filter(None, (_line(part.get("primaryEnv")) for part in parts)), ""),
        advice=tuple(one for part in parts for one in _advice(part)),
        warnings=tuple(warnings),
    )


def _needs(places: list[dict[str, Any]]) -> Needs:
    """Merge what is needed by all places that can say so."""
    required = [front_matter.as_mapping(place.get("requires")) for place in places]

    def merged(sources: list[dict[str, Any]], key: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(word for source in sources for word in _words(source.get(key))))[:_MOST]

    return Needs(
        bins=merged(required, "bins"),
        any_bins=merged(required, "anyBins"),
        env=merged(required, "env"),
        config=merged(required, "config"),
        os=merged([*places, *required], "os"),
        always=any(place.get("always") is True for place in [*places, *required]),
    )


def _advice(part: Mapping[str, Any]) -> Iterator[str]:
    listed = part.get("install")
    for one in (listed if isinstance(listed, list) else [])[:_MOST]:
        if isinstance(one, dict) and (label := _line(one.get("label"))):
            yield label[:_WORD]


def _words(value: Any) -> Iterator[str]:
    """Yield the words of a list, of one text, or of words with commas between them."""
    listed = value if isinstance(value, list) else value.split(",") if isinstance(value, str) else []
    for one in listed:
        if isinstance(one, str) and (word := _line(one)):
            yield word[:_WORD]


def _line(value: Any) -> str:
    """Return a value as one line without characters that people do not see; "" for what is no text or number."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return " ".join(without_smuggled(str(value)).split())
