"""Speaking to the owner of the house unasked: what is broken, what was set aside, what costs too much."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from channels.messages import Conversation
from gateway.errors import StorageFailed
from gateway.ledger.rows import NewOutbound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway.agents import HousedAgent
    from gateway.ledger.protocol import Ledger

log = logging.getLogger(__name__)

MOST_UNSAID = 20
"""Lines kept for a ledger that takes none; the log has them all."""


class OwnerLine:
    """Finds where the owner was last spoken with, and says things there through the outbox."""

    def __init__(
        self, ledger: Ledger, agents: Mapping[str, HousedAgent], connected: Callable[[], Mapping[str, object]]
    ) -> None:
        self._ledger = ledger
        self._agents = agents
        self._connected = connected
        self._tasks: set[asyncio.Task[None]] = set()
        self._unsaid: deque[str] = deque(maxlen=MOST_UNSAID)
        self._in_order = asyncio.Lock()

    def say(self, text: str) -> None:
        """Queue a line for the owner; without a place to say it, it is only logged and shown by ``homebody status``.

        What the ledger cannot take is said before the next line that it can.
        """
        task = asyncio.ensure_future(self._say(text))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _say(self, text: str) -> None:
        try:
            await self.tell(text)
        except StorageFailed as error:
            log.warning("the owner could not be told %r yet: %s", text, error)

    async def tell(self, text: str) -> None:
        """The same, for who must know whether it is written down: raises StorageFailed where it is not, yet."""
        if text not in self._unsaid:
            self._unsaid.append(text)
        async with self._in_order:
            texts, place = list(self._unsaid), await self.place()
            if place is not None and texts:
                await self._ledger.notice([NewOutbound(conversation=place, text=one) for one in texts])
            for one in texts:
                if one in self._unsaid:
                    self._unsaid.remove(one)

    async def place(self) -> Conversation | None:
        """The platform conversation of an agent's main session, the one spoken with last first; else where the owner was paired."""
        records = [record for agent in self._agents.values() if (record := agent.store.get(agent.main_key))]
        for record in sorted(records, key=lambda record: record.spoken, reverse=True):
            place = read_address(record.address)
            if place is not None and place.channel != "terminal" and f"{place.channel}:{place.account}" in self._connected():
                return place
        owner = next((one for one in await self._ledger.approved() if one.role == "owner"), None)
        return None if owner is None else replace(owner.conversation, thread=None)


def read_address(address: str) -> Conversation | None:
    """Return the conversation of an address (``Conversation.address``); None for what is none."""
    head, _, thread = address.partition(":thread:")
    parts = head.split(":", 3)
    if len(parts) != 4 or parts[2] not in {"direct", "group"}:  # noqa: PLR2004  (channel, account, kind, id)
        return None
    channel, account, kind, identity = parts
    return Conversation(
        channel=channel, account=account, kind="group" if kind == "group" else "direct", id=identity, thread=thread or None
    )
