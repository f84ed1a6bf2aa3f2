"""The conversations that a person may go on with in the chat's own `/sessions`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from channels.errors import ChannelError
from gateway.base.errors import HomebodyError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from zoneinfo import ZoneInfo

    from gateway.cli.invocation import Invocation


class Conversations:
    """Reads the stored sessions of all agents, or of one."""

    def __init__(self, invocation: Invocation, agent_id: str | None) -> None:
        self._invocation = invocation
        self._agent = agent_id

    async def listed(self) -> Sequence[str]:
        """Return a numbered line for each of the latest sessions."""
        return await asyncio.to_thread(self._listed)

    async def chosen(self, number: int) -> tuple[str, str]:
        """Return the key of the session with that number, and its last messages.

        Raises:
            ChannelError: there is none, or it cannot be read.
        """
        return await asyncio.to_thread(self._chosen, number)

    def _listed(self) -> Sequence[str]:
        from gateway.cli.sessions import latest, offered, stores_of

        try:
            return offered(latest(stores_of(self._invocation, self._agent)), self._zone())
        except HomebodyError as error:
            return [str(error)]

    def _chosen(self, number: int) -> tuple[str, str]:
        from gateway.cli.sessions import OFFERED, latest, stores_of, where_it_was

        try:
            stores = stores_of(self._invocation, self._agent)
        except HomebodyError as error:
            raise ChannelError(str(error), hint=error.hint) from error
        records = latest(stores)[:OFFERED]
        if not 0 < number <= len(records):
            raise ChannelError(f"there is no conversation {number}", hint="/sessions lists them")
        chosen = records[number - 1]
        return chosen.key, where_it_was(stores, chosen, self._zone())

    def _zone(self) -> ZoneInfo:
        from gateway.agents.memory_stores import owner_zone

        settings = self._invocation.loaded.settings
        return owner_zone(settings.agent(self._agent or settings.default_agent))
