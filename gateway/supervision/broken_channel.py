"""What stands for a channel that could not be made: it says why, and holds nothing else up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.errors import ChannelBroken, NotSent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from channels.messages import ChatAddress, Outbound, Sent
    from channels.protocol import InboundSink


class BrokenChannel:
    """A ``Channel`` that is ``Probed``, and broken from the beginning. What is to be sent by it waits for the true one."""

    absent = True
    """Trying again changes nothing: only another process, or other settings, make the true one."""

    def __init__(self, name: str, why: str, hint: str, *, account: str = "default") -> None:
        self.name = name
        self.account = account
        self.why = why
        self.hint = hint

    async def run(self, door: InboundSink) -> None:  # noqa: ARG002 - it never opens
        """Raise ``ChannelBroken``."""
        raise ChannelBroken(self.why, hint=self.hint)

    def chunks(self, markdown: str) -> list[str]:
        """Leave a reply whole: nobody knows the platform's limits."""
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
