"""Placeholder for a channel that could not be created: reports why, without blocking the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from channels.errors import ChannelBroken, NotSent
from channels.messages import ChatAddress, Outbound, Sent
from channels.protocol import InboundSink


class BrokenChannel:
    """A ``Channel`` that always fails with the reason. Its outgoing messages wait until the real channel exists."""

    absent = True
    """No retries: only a restart or changed settings create the real channel."""

    def __init__(self, name: str, why: str, hint: str, *, account: str = "default") -> None:
        self.name = name
        self.account = account
        self.why = why
        self.hint = hint

    async def run(self, door: InboundSink) -> None:  # noqa: ARG002 - it never opens
        """Raise ``ChannelBroken``."""
        raise ChannelBroken(self.why, hint=self.hint)

    def chunks(self, markdown: str) -> list[str]:
        """Return the reply uncut, because the platform's limits are unknown."""
        return [markdown] if markdown.strip() else []

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:  # noqa: ARG002 - for nobody
        """Raise ``NotSent``."""
        raise NotSent(self.why, hint=self.hint)

    async def typing(self, conversation: ChatAddress) -> None:
        """Show nothing."""

    async def probe(self) -> str:
        """Raise ``ChannelBroken``."""
        raise ChannelBroken(self.why, hint=self.hint)

    async def close(self) -> None:
        """Nothing is open."""
