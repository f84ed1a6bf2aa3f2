"""Answers of calls without the secrets of this machine, as messages in chats are without them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final

WITHHELD: Final = ("approvals.decide", "approvals.list", "approvals.show")
"""Calls whose answers hold what a model wrote. Notes are not among them: what is edited has to stay whole."""


def without_secrets(call: Callable[..., Awaitable[Any]], clean: Callable[[str], str]) -> Callable[..., Awaitable[Any]]:
    """Return the call with every text of its answer ``clean``."""

    @wraps(call)
    async def cleaned(**given: Any) -> Any:
        return _cleaned(await call(**given), clean)

    return cleaned


def _cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(key)): _cleaned(one, clean) for key, one in value.items()}
    return [_cleaned(one, clean) for one in value] if isinstance(value, list | tuple) else value
