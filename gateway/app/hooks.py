"""Builds what takes webhooks: the receiver, and where its calls go."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from channels.messages import ChatAddress
from channels.silent import is_silent
from channels.terminal.channel import LOCAL
from gateway.agents.running_agent import RunningAgent
from gateway.api.handlers.hooks import HookHandlers
from gateway.app.dependencies import Dependencies
from gateway.hooks.receiver import HookReceiver
from gateway.hooks.target import HookMessages
from gateway.inbound.pipeline import Inbox
from gateway.ledger.hooks import HOOK_ACCOUNT
from gateway.ledger.sqlite import SqliteLedger
from gateway.outbound.owner_notifications import OwnerNotifications
from gateway.routing.access import Actor
from gateway.settings.root import SettingsStore
from memory.audience import OWNER, Audience

_TERMINAL: Final = ChatAddress(channel="terminal", kind="direct", id=LOCAL)


class HookParts:
    """The parts behind webhooks. ``receiver`` takes their calls."""

    def __init__(
        self,
        deps: Dependencies,
        settings: SettingsStore,
        ledger: SqliteLedger,
        *,
        agents: Mapping[str, RunningAgent],
        inbox: Inbox,
        owner: OwnerNotifications,
    ) -> None:
        self._inbox = inbox
        self._owner = owner
        self._ledger = ledger
        messages = HookMessages(
            submit=partial(inbox.submit, account=HOOK_ACCOUNT),
            announce=ledger.context_events.announce,
            latest=self._latest,
            audience=self._audience,
            agents=agents.keys,
            unasked=lambda hook: agents[hook.agent].unasked(f"hook:{hook.name}", hook.name),
            tell=owner.say,
            clock=deps.clock,
        )
        self.receiver = HookReceiver(ledger.hooks, messages, deps.clock, learn=deps.learn)
        self._handlers = HookHandlers(ledger.hooks, lambda: settings.current, deps.clock, self.receiver)

    def calls(self) -> dict[str, Callable[..., Awaitable[Any]]]:
        """Return the calls of ``homebody hooks``, by name."""
        return dict(self._handlers.calls())

    async def begin(self) -> None:
        """Learn the secrets of signatures before anything is answered."""
        await self.receiver.load()

    async def _latest(self) -> ChatAddress:
        """Return the owner's latest chat on a platform; without any, the terminal."""
        return await self._owner.place() or _TERMINAL

    async def _audience(self, agent: str, place: ChatAddress) -> Audience:
        """Return who reads what an agent says in a conversation: a group or a guest must not be told what is the owner's."""
        if is_silent(place) or place == await self._latest():
            return OWNER
        return self._inbox.router.route(agent, place, await self._reader(place)).audience

    async def _reader(self, place: ChatAddress) -> Actor:
        """Return the person of a conversation, by whom was paired there or else by its id. A group's audience is that of no person."""
        paired = [one for one in await self._ledger.pairing.approved() if one.conversation.address == place.address]
        return await self._inbox.access.who(place.channel, paired[0].sender if paired else place.id)
