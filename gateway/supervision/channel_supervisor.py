"""Supervises all channels; one can be replaced while the others run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from channels.platform import Policy
from channels.protocol import Channel
from gateway.outbound.delivery import Delivery
from gateway.supervision.channel_runner import ChannelRunner

log = logging.getLogger(__name__)

LET_GO_SECONDS = 5.0
"""Seconds that a send in progress may delay the end of its channel."""


class ChannelSupervisor(Mapping[str, "ChannelRunner"]):
    """The runners by ``channel:account``. ``make`` builds the runner of a channel."""

    def __init__(self, make: Callable[[Channel, Policy], ChannelRunner], delivery: Delivery) -> None:
        self._make = make
        self._delivery = delivery
        self._kept: dict[str, ChannelRunner] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._gone: list[Channel] = []
        self._group: asyncio.TaskGroup | None = None

    def __getitem__(self, name: str) -> ChannelRunner:
        return self._kept[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, channel: Channel, policy: Policy) -> None:
        """Add a channel; it starts now, or when ``run`` starts."""
        name = f"{channel.name}:{channel.account}"
        self._kept[name] = self._make(channel, policy)
        self._delivery.attach(channel)
        if self._group is not None:
            self._begin(name, self._group)

    def restart(self, name: str) -> None:
        """Restart a channel, whether it is off, waiting or running. Raises KeyError for an unknown one."""
        self._kept[name].restart()

    async def let_go(self, name: str) -> None:
        """Stop and remove a channel: sends in progress may finish, other outgoing messages wait."""
        keeper = self._kept.pop(name)
        await self._delivery.let_go(keeper.channel.name, keeper.channel.account, LET_GO_SECONDS)
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._gone.append(keeper.channel)

    async def run(self) -> None:
        """Run all channels until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for name in self._kept:
                    self._begin(name, group)
                await asyncio.get_running_loop().create_future()
        finally:
            self._group = None
            for channel in self._gone:  # a turn that was under way may have used it once more
                await _ended(channel, channel.close())

    def policies(self) -> dict[tuple[str, str], Policy]:
        """The access policies by channel and account."""
        return {(keeper.channel.name, keeper.channel.account): keeper.policy for keeper in self._kept.values()}

    def working(self) -> Mapping[str, ChannelRunner]:
        """The channels that are not off."""
        return {name: keeper for name, keeper in self._kept.items() if not keeper.broken}

    def facts(self) -> dict[str, Any]:
        """The state of each channel as JSON values."""
        return {name: keeper.facts() for name, keeper in self._kept.items()}

    def _begin(self, name: str, group: asyncio.TaskGroup) -> None:
        keeper = self._kept[name]
        self._tasks[name] = group.create_task(_ended(keeper.channel, keeper.run()), name=f"channel {name}")


async def _ended(channel: Channel, work: Awaitable[None]) -> None:
    try:
        await work
    except Exception:
        # the keeper restarts what fails; here it failed while it closed, and that must not take the house down
        log.exception("%s:%s did not close cleanly", channel.name, channel.account)
