"""Admin calls whose code is loaded with the first of them, so that a gateway nobody looks at does not hold it in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from inspect import signature
from typing import Any, TypeAlias

from gateway.base.errors import UsageError

Calls: TypeAlias = "Mapping[str, Callable[..., Awaitable[Any]]]"


class LateCall:
    """A call that is made when it is used first, with what it needs."""

    def __init__(self, name: str, made: Callable[[], Awaitable[Calls]]) -> None:
        self._name, self._made = name, made

    async def real(self) -> Callable[..., Awaitable[Any]]:
        """Return what is called."""
        return (await self._made())[self._name]

    async def __call__(self, *values: Any, **given: Any) -> Any:
        """Call it. Raises UsageError for arguments that it does not take."""
        real = await self.real()
        try:
            signature(real).bind(*values, **given)
        except TypeError as error:
            hint = "Load the page again, or restart the gateway."
            raise UsageError(f"{self._name} is not called so: {error}", hint=hint) from error
        return await real(*values, **given)


def on_first_use(names: Iterable[str], make: Callable[[], Calls]) -> dict[str, Callable[..., Awaitable[Any]]]:
    """Return calls by name. ``make`` returns the real ones, at least those in ``names``; it imports what they need (in a thread)."""
    made: list[Calls] = []
    lock = asyncio.Lock()

    async def all_calls() -> Calls:
        async with lock:
            if not made:
                made.append(await asyncio.to_thread(make))
        return made[0]

    return {name: LateCall(name, all_calls) for name in names}
