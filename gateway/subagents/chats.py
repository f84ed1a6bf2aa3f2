"""Other chats that an agent may write to: the owner's private ones, and groups that it is in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from msgspec.structs import replace

from agent.errors import RequestRefused
from agent.taint import fenced
from agent.tools.message import KnownChat
from agent.tools.protocol import Outcome, ToolContext
from channels.messages import ChatAddress
from channels.protocol import Channel
from gateway.agents.running_agent import RunningAgent
from gateway.base.errors import StorageFailed
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import NewOutbound
from gateway.ledger.values import account_of
from gateway.outbound.owner_notifications import read_address
from gateway.routing.router import agent_of
from gateway.subagents.asking_turn import AskingTurns
from gateway.subagents.starting import id_of
from gateway.turns.user_message import cut, unmarked

LONGEST_LINE = 1500
"""Characters of a message that the other chat's own session is told."""


class OtherChats:
    """Implements ``ChatSender``.

    ``owners`` returns the owner's private chats, and ``accounts`` the names of the accounts that are on, such as ``telegram:default``.
    """

    def __init__(
        self,
        ledger: Ledger,
        agents: Mapping[str, RunningAgent],
        asking: AskingTurns,
        *,
        channel: Callable[[ChatAddress], Channel],
        owners: Callable[[], Awaitable[Sequence[ChatAddress]]],
        accounts: Callable[[], Collection[str]],
    ) -> None:
        self._ledger = ledger
        self._agents = agents
        self._asking = asking
        self._channel = channel
        self._owners = owners
        self._accounts = accounts

    def find(self, to: str, context: ToolContext) -> KnownChat | None:
        """See ``ChatSender``. Addresses name all chats.

        Besides, a chat with the owner is named by its channel, or by channel and account, and a group by its session's key.
        """
        if context.audience.kind != "owner":
            return None
        name = to.strip()
        if any(name.casefold() in {account, account.partition(":")[0]} for account in self._accounts()):
            return KnownChat(name=f"its owner on {name.casefold()}", others=False)
        place = read_address(name)
        if place is not None and place.kind == "direct" and account_of(place) in self._accounts():
            return KnownChat(
                name=f"its owner on {account_of(place)}", others=False
            )  # ``send`` refuses the chat of anybody else
        group = self._group(name, context)
        return None if group is None else KnownChat(name=f"the group {group.address}", others=True)

    async def send(self, to: str, text: str, context: ToolContext) -> Outcome:
        """See ``ChatSender``. The chat's own session is told with its next message what was said there."""
        asking = await self._asking.of(context)
        place = await self._place(to.strip(), context)
        if place.address == asking.message.inbound.conversation.address:
            raise RequestRefused("this is the conversation that you answer in", hint="say it in your answer")
        automation = asking.message.automation
        mark = None if automation is None or automation.urgent else asking.agent.unasked(automation.source, automation.name)
        name = id_of(context.turn, context.call)
        first, *more = (
            NewOutbound(conversation=place, text=piece, ttl=None, key=f"msg-{name}-{n}", unasked=mark)
            for n, piece in enumerate(self._channel(place).chunks(text))
        )
        said = unmarked(cut(text.strip(), LONGEST_LINE))
        said = fenced(said, sorted(context.taint)) if context.taint else said
        line = f"[You said here, from another conversation]\n{said}"
        try:
            sources = tuple(sorted(context.taint))
            new = await self._ledger.context_events.announce(
                first, line, agent=agent_of(context.key), more=more, sources=sources
            )
        except StorageFailed as error:
            raise RequestRefused(f"the message could not be queued: {error}", hint=error.hint) from error
        return Outcome(text=f"{'Queued' if new else 'Queued before'} for {place.address}.", details={"to": place.address})

    async def _place(self, name: str, context: ToolContext) -> ChatAddress:
        known = self.find(name, context)
        if known is not None and known.others and (group := self._group(name, context)) is not None:
            return group
        owners = await self._owners() if context.audience.kind == "owner" else ()
        for place in owners:
            whole = replace(place, thread=None)
            if name.casefold() in {place.channel, account_of(place)} or name in {place.address, whole.address}:
                return whole
        if context.audience.kind != "owner":
            raise RequestRefused("only conversations of the owner can have messages sent elsewhere")
        names = [account_of(place).removesuffix(":default") for place in owners] + self._groups(context)
        raise RequestRefused(f"there is no chat {name[:80]!r} to write to; there is {', '.join(names) or 'none'}")

    def _group(self, name: str, context: ToolContext) -> ChatAddress | None:
        """Return the group whose session has this key, or that has this address, if its account is on."""
        store = self._agents[agent_of(context.key)].store
        record = store.get(name) or next((one for one in store.all() if one.address and one.address == name), None)
        place = read_address(record.address) if record is not None and record.address else None
        if record is None or place is None or place.kind != "group" or account_of(place) not in self._accounts():
            return None
        return replace(place, space=record.space or None)

    def _groups(self, context: ToolContext) -> list[str]:
        return [one.key for one in self._agents[agent_of(context.key)].store.all() if self._group(one.key, context) is not None]
