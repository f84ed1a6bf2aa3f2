"""Reads the front matter of SKILL.md: as YAML, and line by line where it is none, as many published skills are written."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from agent.errors import InvalidSkill

MOST_BYTES: Final = 64_000
"""The longest front matter that is read; the longest of the 118 that were looked at has 2,300."""
_BOUNDARY: Final = re.compile(r"^-{3}[ \t]*$", re.MULTILINE)
_KEY: Final = re.compile(r"([A-Za-z][\w.-]*)[ \t]*:(?:[ \t]+(.*)|)")
_BLOCKS: Final = frozenset({"|", ">", "|-", ">-", "|+", ">+", ""})
"""Values after which a longer text begins on the next line."""


def split(text: str) -> tuple[str, str]:
    """Return the front matter and the instructions of a SKILL.md.

    Raises:
        InvalidSkill: it does not begin with a front matter, or with one that is too long or does not end.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    first = _BOUNDARY.match(text)
    if first is None:
        raise InvalidSkill("SKILL.md has no front matter: its first line has to be ---, with name and description below")
    last = _BOUNDARY.search(text, first.end())
    if last is None:
        raise InvalidSkill("the front matter of SKILL.md does not end: a line --- is missing below it")
    header = text[first.end() + 1 : last.start()]
    if len(header.encode()) > MOST_BYTES:
        raise InvalidSkill(f"the front matter of SKILL.md is longer than {MOST_BYTES:,} bytes")
    return header, text[last.end() :].lstrip("\n")


def parse(header: str) -> dict[str, Any]:
    """Return the fields of a front matter. What is no YAML is read line by line, so that a bare colon in a description does no harm."""
    import yaml

    try:
        found = yaml.safe_load(header)
    except (yaml.YAMLError, ValueError, RecursionError):  # ValueError: a date that does not exist
        found = None
    if isinstance(found, dict):
        return {str(key): value for key, value in found.items()}
    return _by_lines(header)


def _by_lines(header: str) -> dict[str, Any]:
    """Read ``key: value`` lines; indented lines continue the value above them."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in header.split("\n"):
        match = _KEY.fullmatch(line.rstrip())
        if match is not None:
            lines = found.setdefault(match[1], [])
            lines[:] = [match[2] or ""]
        elif line.strip() and line[:1] in " \t":
            lines.append(line.strip())
    return {key: _value(lines) for key, lines in found.items()}


def _value(lines: list[str]) -> Any:
    rest = lines[1:] if lines[0].strip() in _BLOCKS else lines
    text = " ".join(part.strip() for part in rest)
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return as_mapping(text) or text


def as_mapping(value: Any) -> dict[str, Any]:
    """Return a mapping that may be written as JSON in a text; empty for anything else."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return {str(key): one for key, one in value.items()} if isinstance(value, dict) else {}
