"""Paths of settings as text: ``agents.list[0].model``, ``channels.telegram.groups["-100.7"].requireMention``."""

from __future__ import annotations

import re

KeyPath = tuple[str | int, ...]

_STEP = re.compile(r"""\[(\d+)\] | \["((?:[^"\\]|\\.)*)"\] | (?:^|(?<!^)\.)([^.\[\]"]+)""", re.VERBOSE)
_PLAIN = re.compile(r"""[^.\[\]"]+""")


def parse_key(text: str) -> KeyPath:
    """Parse a dotted key. In ``list.0`` the 0 stays text: only the models tell whether it is an index. Raises ValueError."""
    path: list[str | int] = []
    position = 0
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None or step.end() == position:
            raise ValueError(f"{text!r} is not the name of a setting (at {text[position:]!r})")
        index, quoted, plain = step.groups()
        if index is not None:
            path.append(int(index))
        else:
            path.append(plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
        position = step.end()
    if not path:
        raise ValueError("the name of a setting is empty")
    return tuple(path)


def dotted_key(path: KeyPath) -> str:
    """Return a path as text that ``parse_key`` reads back."""
    parts: list[str] = []
    for step in path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif _PLAIN.fullmatch(step):
            parts.append(f".{step}" if parts else step)
        else:
            escaped = step.replace("\\", "\\\\").replace('"', '\\"')
            parts.append(f'["{escaped}"]')
    return "".join(parts)
