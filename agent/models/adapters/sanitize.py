"""Makes a request valid for every provider: valid Unicode, legal and unique call ids, known image types."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from agent.messages import ToolCall
from agent.models.protocol import ToolSpec

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""Pictures that every provider takes."""

_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
_ILLEGAL = re.compile("[\ud800-\udfff\x00]")
_MOST_TOOLS = 256
_DATED = re.compile(r"-(?:20\d{6}|20\d{2}-\d{2}-\d{2})$")


def clean(text: str) -> str:
    """Return the text without lone surrogates and NUL, which no API takes: each becomes U+FFFD, the replacement character."""
    if text.isascii() and "\0" not in text:  # most texts, and much quicker than the pattern
        return text
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text) if _ILLEGAL.search(text) else text


def clean_json(value: Any) -> Any:
    """Return JSON data with every string in it cleaned, keys too."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(key)): clean_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_json(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class CleanTools:
    """Remembers descriptions and parameters of tools as they are sent: they go along with every request, and hardly ever change."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ToolSpec, str, Any]] = {}

    def of(self, specs: Sequence[ToolSpec]) -> list[tuple[str, str, Any]]:
        """Return name, description and parameters of each, cleaned. They are shared by all requests: nobody may change them."""
        return [(spec.name, *self._of(spec)) for spec in specs]

    def _of(self, spec: ToolSpec) -> tuple[str, Any]:
        known = self._known.get(id(spec))
        if known is None or known[0] is not spec:
            if len(self._known) >= _MOST_TOOLS:
                self._known.clear()
            known = self._known[id(spec)] = (spec, clean(spec.description), clean_json(spec.parameters))
        return known[1:]


TOOLS = CleanTools()


def is_clean(value: Any) -> bool:
    """Tell whether ``clean_json`` would leave JSON data as it is."""
    return bool(clean_json(value) == value)


@lru_cache(maxsize=64)
def family(name: str) -> str:
    """The part of a model's name that stays the same between its dated releases: whose opaque blocks it may be sent."""
    return _DATED.sub("", name)


def field_of(value: Any, name: str) -> Any:
    """Return a field of something that a server sent; None when it is not there, or the thing is no object.

    Answers are read as JSON. The SDKs' types would be of no use: they are not checked, it takes most of a second to load them, and to
    make one of every piece of a stream costs more than all else that is done with it.
    """
    return value.get(name) if isinstance(value, dict) else None


def arguments_of(raw: str) -> dict[str, Any] | None:
    """Read what a model wrote as a tool's arguments; None when it is not a JSON object. Nothing at all counts as no arguments."""
    if not raw.strip():
        return {}
    try:
        value = json.loads(raw, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _no_number(name: str) -> None:
    """Refuse NaN and Infinity, which are no JSON: whatever takes them on cannot write them down again."""
    raise ValueError(name)


class CallIds:
    """Gives every tool call of a request an id that providers take and that no other call in it has.

    Ids come from whichever model made the call, and some servers begin again with ``call_0`` in every answer.
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def copy(self) -> CallIds:
        """Return one that has given the same ids so far."""
        copied = CallIds()
        copied._taken |= self._taken
        return copied

    def of(self, calls: Sequence[ToolCall]) -> dict[str, str]:
        """Return the id to send for each id of one answer's calls."""
        return {call.id: self._take(call.id) for call in calls} if calls else {}

    def _take(self, wish: str) -> str:
        wish = wish if _LEGAL_ID.fullmatch(wish) else f"call_{hashlib.blake2b(clean(wish).encode(), digest_size=8).hexdigest()}"
        name, count = wish, 1
        while name in self._taken:
            count += 1
            name = f"{wish[:34]}_{count}"
        self._taken.add(name)
        return name
