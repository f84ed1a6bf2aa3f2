"""The terminal channel."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from channels.errors import ChannelError, NotSent, Uncertain
from channels.live import LiveEvent, Note, Reply
from channels.messages import Attachment, ChatAddress, Outbound, Sent
from channels.protocol import Clock, InboundSink

if TYPE_CHECKING:
    from channels.terminal.client_connection import ClientConnection, Proof
    from channels.terminal.link import Link

PROOF_SECONDS = 30.0
_NAME = re.compile(r"[\w.@-]{1,64}")

LOCAL: Final = "local"
"""The conversation of `homebody chat`."""


class TerminalChannel:
    """A ``Channel`` with ``Drafts``. The sender id is always ``owner``: whoever reaches the socket has the owner's rights on this machine.

    ``Inbound.message_id`` is the key that the client gave, which ``Done`` and ``Rejected`` carry back to it. ``sink.ready()``
    is called whenever a client connects, so that queued deliveries start; ``on_stop`` when a client asks to stop the turn.
    """

    name = "terminal"
    account = "default"

    def __init__(self, *, clock: Clock, on_stop: Callable[[ChatAddress], Awaitable[None]]) -> None:
        self.clock = clock
        self._on_stop = on_stop
        self._attached: dict[ChatAddress, list[ClientConnection]] = {}
        self._sink: asyncio.Future[InboundSink] | None = None

    def attach(self, conversation_id: str = LOCAL) -> Link:
        """Return a new connection to the conversation of that name.

        Raises:
            ChannelError: the name is none.
        """
        return self.attachment(conversation_id)

    def attachment(self, conversation_id: str) -> ClientConnection:
        """Attach, for the API's chat routes."""
        from channels.terminal.client_connection import ClientConnection

        if _NAME.fullmatch(conversation_id) is None:
            raise ChannelError(
                f"{conversation_id[:80]!r} is not a valid name of a conversation",
                hint="use 1 to 64 letters, digits, or any of . _ @ -",
            )
        conversation = ChatAddress(channel=self.name, account=self.account, kind="direct", id=conversation_id)
        attachment = ClientConnection(self, conversation)
        self._attached.setdefault(conversation, []).append(attachment)
        if self._sink is not None and self._sink.done():
            self._sink.result().ready()
        return attachment

    def detach(self, attachment: ClientConnection) -> None:
        """Remove a client."""
        there = self._attached.get(attachment.conversation, [])
        if attachment in there:
            there.remove(attachment)
        if not there:
            self._attached.pop(attachment.conversation, None)

    def attached(self, conversation: ChatAddress) -> bool:
        """Return whether a client is connected."""
        return conversation in self._attached

    async def sink(self) -> InboundSink:
        """Return the sink, once ``run`` was called."""
        if self._sink is None:
            self._sink = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self._sink)

    async def stop(self, conversation: ChatAddress) -> None:
        """Stop the running turn for a client."""
        await self._on_stop(conversation)

    async def run(self, sink: InboundSink) -> None:
        """Serve clients until cancelled."""
        if self._sink is None or self._sink.done():
            self._sink = asyncio.get_running_loop().create_future()
        self._sink.set_result(sink)
        sink.alive()
        if self._attached:
            sink.ready()
        await asyncio.get_running_loop().create_future()

    def chunks(self, markdown: str) -> list[str]:
        """Return the whole text as one piece: a terminal has no limit."""
        return [markdown] if markdown.strip() else []

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:  # noqa: ARG002 - the protocol's
        """Deliver to every connected client; one acknowledgement suffices. Each client shows a repeated key once."""
        clients = list(self._attached.get(outbound.conversation, ()))
        if not clients:
            raise NotSent("nobody is attached to this conversation", hint="homebody chat")
        proofs = [client.offer(Reply(outbound.text, outbound.key)) for client in clients]
        await self._judged(proofs)
        outcomes = [proof.result() for proof in proofs if proof.done()]
        if "taken" in outcomes:
            return Sent(platform_id=outbound.key)
        if outcomes == ["missed"] * len(proofs):
            raise NotSent("the terminal was closed before the reply reached it", hint="homebody chat")
        raise Uncertain(f"no connected terminal confirmed the reply within {PROOF_SECONDS:.0f} s")

    async def _judged(self, proofs: list[asyncio.Future[Proof]]) -> None:
        """Wait until one client has acknowledged it, all have disconnected, or the time is up."""
        timer = asyncio.ensure_future(self.clock.sleep(PROOF_SECONDS))
        try:
            while not timer.done() and not any(proof.done() and proof.result() == "taken" for proof in proofs):
                undecided = [proof for proof in proofs if not proof.done()]
                if not undecided:
                    return
                waiting: list[asyncio.Future[Any]] = [*undecided, timer]
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()

    async def typing(self, conversation: ChatAddress) -> None:
        """Do nothing: previews and activity lines show progress."""

    async def draft(self, conversation: ChatAddress, turn: str, text: str) -> None:
        """Show the reply so far."""
        for client in self._attached.get(conversation, ()):
            client.preview(turn, text)

    async def fetch(self, attachment: Attachment, path: Path, limit: int) -> None:
        """Copy a file that a client sent along; see ``channels.protocol.Fetches``."""
        from channels.terminal.local_files import copy

        await asyncio.to_thread(copy, attachment, path, limit)

    def show(self, conversation: ChatAddress, frame: LiveEvent) -> None:
        """Send a live event to every connected client."""
        for client in self._attached.get(conversation, ()):
            client.push(frame)

    def tell_others(self, sender: ClientConnection, text: str) -> None:
        """Show a message in the windows of its conversation that did not send it."""
        line, *more = text.strip().splitlines() or [""]
        for client in self._attached.get(sender.conversation, ()):
            if client is not sender:
                client.push(Note(f"› {line}{' …' if more else ''} (in another window)"))

    async def close(self) -> None:
        """Close every connection."""
        for clients in list(self._attached.values()):
            for client in list(clients):
                await client.close()
