"""Builds what takes webhooks: the receiver, and where its calls go."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from channels.messages import ChatAddress
from gateway.agents.running_agent import RunningAgent
from gateway.api.handlers.late_calls import Calls, on_first_use
from gateway.app.chat_readers import TERMINAL, ChatReaders
from gateway.app.dependencies import Dependencies
from gateway.hooks.receiver import HookReceiver
from gateway.hooks.target import HookMessages
from gateway.inbound.pipeline import Inbox
from gateway.ledger.hook_rows import HOOK_ACCOUNT
from gateway.ledger.protocol import Ledger
from gateway.outbound.owner_notifications import OwnerNotifications
from gateway.settings.root import SettingsStore

_CALLS: Final = tuple(
    f"hooks.{name}" for name in ("list", "show", "add", "change", "rotate", "pause", "resume", "remove", "trial", "call")
)


class HookParts:
    """The parts behind webhooks. ``receiver`` takes their calls."""

    def __init__(
        self,
        deps: Dependencies,
        settings: SettingsStore,
        ledger: Ledger,
        *,
        agents: Mapping[str, RunningAgent],
        inbox: Inbox,
        owner: OwnerNotifications,
        readers: ChatReaders,
    ) -> None:
        self._owner = owner
        messages = HookMessages(
            submit=partial(inbox.submit, account=HOOK_ACCOUNT),
            announce=ledger.context_events.announce,
            latest=self._latest,
            name_at=owner.name_at,
            audience=readers.audience,
            agents=agents.keys,
            unasked=lambda hook: agents[hook.agent].unasked(f"hook:{hook.name}", hook.name),
            tell=owner.say,
            clock=deps.clock,
        )
        self.receiver = HookReceiver(ledger.hooks, messages, deps.clock, learn=deps.learn)

        def handlers() -> Calls:
            from gateway.api.handlers.hook_requests import HookHandlers

            return HookHandlers(ledger.hooks, lambda: settings.current, deps.clock, self.receiver, readers).calls()

        self._handlers = handlers

    def calls(self) -> dict[str, Callable[..., Awaitable[Any]]]:
        """Return the calls of ``homebody hooks``, by name."""
        return on_first_use(_CALLS, self._handlers)

    async def begin(self) -> None:
        """Learn the secrets of signatures before anything is answered."""
        await self.receiver.load()

    async def _latest(self, agent: str) -> ChatAddress:
        """Return the owner's latest chat with an agent on a platform; without any, the terminal."""
        return await self._owner.place_of(agent) or TERMINAL
