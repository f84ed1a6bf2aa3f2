"""A whole house and the calls that the page makes to it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from gateway.app.owner_calls import owner_calls
from tests.queueing.conftest import Town

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from gateway.app.gateway import Gateway


class Desk:
    """Calls of one house by name. ``house`` is the house itself."""

    def __init__(self, house: Gateway) -> None:
        self.house = house
        self.calls: dict[str, Callable[..., Awaitable[Any]]] = owner_calls(
            house.deps,
            house.settings,
            agents=house.agents,
            jobs=house.automation.jobs,
            spending=house.ledger.spending,
            reload=house.reload,
        )

    async def __call__(self, call: str, **arguments: Any) -> Any:
        return await self.calls[call](**arguments)


@contextlib.asynccontextmanager
async def desk(root: Path, **settings: Any) -> AsyncIterator[Desk]:
    """Open a house with a workspace in ``root`` and give its desk."""
    async with Town(root, settings).house() as house:
        yield Desk(house)
