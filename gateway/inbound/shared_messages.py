"""Which of the stored messages a gateway handles, where several share the agents."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Final

from gateway.ledger.rows import InboxRow
from gateway.routing.routed_message import ReceivedMessage
from gateway.routing.router import agent_of

DISPATCHED: Final = 20_000
"""Messages that are remembered, so that one of which another gateway tells as well is handled once."""


class SharedMessages:
    """Decides which of the stored messages this gateway handles, where several share the agents (docs/cluster.md)."""

    def __init__(self, here: Callable[[str], bool], agents: Callable[[], Collection[str]]) -> None:
        self._here = here
        self._agents = agents
        self._begun: OrderedDict[int, str] = OrderedDict()

    def left(self, agents: Collection[str]) -> None:
        """Take note that these agents were given up. What still waits then begins anew where they are taken, here or elsewhere."""
        for row in [row for row, agent in self._begun.items() if agent in agents]:
            del self._begun[row]

    def begins(self, row: InboxRow, message: ReceivedMessage, *, taken: bool) -> bool:
        """Return whether to handle a message now. The others wait in the ledger for whoever holds their agent."""
        agent = agent_of(row.session) if row.session else message.route.agent if message.route else ""
        if row.id in self._begun or (not taken and agent in self._agents() and not self._here(agent)):
            return False
        self._begun[row.id] = agent
        while len(self._begun) > DISPATCHED:
            self._begun.popitem(last=False)
        return True
