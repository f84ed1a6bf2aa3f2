"""Who reads what jobs and webhooks send to a chat: that decides what the turn may know, and whether it may be sent there at all."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from channels.messages import WEB, ChatAddress, Sender
from channels.silent import is_silent
from channels.terminal.channel import LOCAL
from gateway.agents.running_agent import RunningAgent
from gateway.inbound.pipeline import Inbox
from gateway.ledger.pairing_rows import PairingLedger
from gateway.outbound.owner_notifications import OwnerNotifications
from gateway.routing.access import Actor, Allowed
from memory.audience import OWNER, Audience

_OWNERS = frozenset({"terminal", WEB})
"""Channels that nobody else than the owner gets to."""
TERMINAL = ChatAddress(channel="terminal", kind="direct", id=LOCAL)


class ChatReaders:
    """Tells the owner's chats from those of others, by the rules that hold for messages."""

    def __init__(
        self, agents: Mapping[str, RunningAgent], pairing: PairingLedger, inbox: Inbox, owner: OwnerNotifications
    ) -> None:
        self._agents = agents
        self._pairing = pairing
        self._inbox = inbox
        self._owner = owner

    async def audience(self, agent: str, place: ChatAddress) -> Audience:
        """Return who reads what an agent says in a chat: a group or a guest must not be told what is the owner's."""
        if is_silent(place) or place.channel in _OWNERS or await self._is_owners(place):
            return OWNER
        return self._inbox.router.route(agent, place, await self._reader(place)).audience

    async def is_stranger(self, place: ChatAddress) -> bool:
        """Return whether a chat is with a person who may not speak to the agent and never did: a mistyped address, perhaps."""
        if place.kind != "direct" or is_silent(place) or place.channel in _OWNERS or await self._is_owners(place):
            return False
        spoken = {record.address for agent in self._agents.values() for record in agent.store.all()}
        paired = {_bare(one.conversation) for one in await self._pairing.approved()}
        if place.address in spoken or _bare(place) in paired:
            return False
        return not isinstance(await self._inbox.access.decide(place, Sender(id=place.id, name="")), Allowed)

    async def is_surely_strange(self, place: ChatAddress) -> bool:
        """Like ``is_stranger``, but False where another gateway of a cluster knows who may speak."""
        return self._inbox.access.judges(place) and await self.is_stranger(place)

    async def _is_owners(self, place: ChatAddress) -> bool:
        return _bare(place) in {_bare(one) for one in await self._owner.chats()}

    async def _reader(self, place: ChatAddress) -> Actor:
        """Return the person of a chat, by whom was paired there or else by its id. A group's audience is that of no person."""
        paired = [one for one in await self._pairing.approved() if one.conversation.address == place.address]
        return await self._inbox.access.who(place.channel, paired[0].sender if paired else place.id)


def _bare(place: ChatAddress) -> str:
    return replace(place, thread=None).address if place.kind == "direct" else place.address
