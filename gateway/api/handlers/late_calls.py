"""Admin calls whose code is loaded with the first of them, so that a gateway nobody looks at does not hold it in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from inspect import signature
from typing import Any, TypeAlias

from gateway.base.errors import UsageError

Calls: TypeAlias = "Mapping[str, Callable[..., Awaitable[Any]]]"


def on_first_use(names: Iterable[str], make: Callable[[], Calls]) -> dict[str, Callable[..., Awaitable[Any]]]:
    """Return calls by name. ``make`` returns the real ones, at least those in ``names``; it imports what they need (in a thread)."""
    made: list[Calls] = []
    lock = asyncio.Lock()

    async def all_calls() -> Calls:
        async with lock:
            if not made:
                made.append(await asyncio.to_thread(make))
        return made[0]

    def late(name: str) -> Callable[..., Awaitable[Any]]:
        async def call(**given: Any) -> Any:
            real = (await all_calls())[name]
            try:
                signature(real).bind(**given)
            except TypeError as error:
                raise UsageError(
                    f"{name} is not called so: {error}", hint="Load the page again, or restart the gateway."
                ) from error
            return await real(**given)

        return call

    return {name: late(name) for name in names}
