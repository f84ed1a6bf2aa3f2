"""What tells gateways of a cluster in which keys their settings differ, without telling the settings: a short mark for each key."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic import SecretStr

from gateway.settings.root import MAIN, Settings

MARK_LENGTH: Final = 12
MAY_DIFFER: Final[Any] = {"cluster": {"address"}, "gateway": True, "logging": True}
"""Sections and keys that belong to one machine."""


def marks_of(settings: Settings, secret: bytes) -> dict[str, str]:
    """Return a mark for each key that is not as by default. Whoever lacks the cluster's secret cannot guess values by it."""
    given = settings.model_dump(exclude=MAY_DIFFER, exclude_defaults=True)
    return {key: _mark(value, secret) for key, value in _leaves("", given)}


def lists_agent(marks: Mapping[str, str], agent: str, secret: bytes) -> bool:
    """Return whether settings with these marks have an agent of this id: in their list or, without one, as the only agent."""
    ids = {mark for key, mark in marks.items() if key.startswith("agents.list[") and key.endswith("].id")}
    return _mark(json.dumps(agent), secret) in ids if ids else agent == MAIN


def _mark(value: str, secret: bytes) -> str:
    return hmac.new(secret, value.encode(), hashlib.sha256).hexdigest()[:MARK_LENGTH]


def differing(marks: Iterable[Mapping[str, str]]) -> list[str]:
    """Return the keys whose marks are not the same everywhere, sorted."""
    known = list(marks)
    return sorted(key for key in {key for one in known for key in one} if len({one.get(key) for one in known}) > 1)


def _leaves(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and (value or "." not in path):
        for key, one in value.items():
            yield from _leaves(f"{path}.{_camel(str(key))}".lstrip("."), one)
    elif isinstance(value, list | tuple) and any(isinstance(one, Mapping) for one in value):
        for place, one in enumerate(value):
            yield from _leaves(f"{path}[{place}]", one)
    else:
        yield path, json.dumps(value, default=_plain, sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return sorted(map(str, value)) if isinstance(value, set | frozenset) else str(value)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
