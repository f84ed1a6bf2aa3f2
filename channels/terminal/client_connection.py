"""One client's connection to a conversation: its queue of live events, and which replies the client acknowledged."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from channels.common.accepting import accept_or_tell
from channels.errors import LinkLost
from channels.live import Delta, LiveEvent, Reply
from channels.messages import ChatAddress, Inbound, Sender
from channels.terminal.local_files import attachment_of

if TYPE_CHECKING:
    from channels.terminal.channel import TerminalChannel

OWNER = Sender(id="owner")
Proof = Literal["taken", "missed", "unknown"]
"""Of a reply: the client has it; it left before it was given it; it left and did not say."""


class ClientConnection:
    """A ``Link`` inside the gateway's own process; the API's chat routes drive one for each client.

    Queued previews of a slow client are joined into one event.
    """

    def __init__(self, channel: TerminalChannel, conversation: ChatAddress) -> None:
        self.conversation = conversation
        self._channel = channel
        self._waiting: deque[LiveEvent] = deque()
        self._news = asyncio.Event()
        self._delivered: dict[str, asyncio.Future[Proof]] = {}
        self._preview = ("", "")
        self._closed = False

    async def say(self, text: str, *, key: str, hints: Mapping[str, str] | None = None, files: Sequence[str] = ()) -> None:
        """Send a message, and show it in the other windows; see ``Link.say``.

        Lone surrogates, which no file or model takes, become replacement marks.
        """
        if self._closed:
            raise LinkLost("this conversation is closed", hint="start `homebody chat` again")
        clean = text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        inbound = Inbound(
            conversation=self.conversation,
            sender=OWNER,
            text=clean,
            at=self._channel.clock.now(),
            key=f"w:{key}",
            alias=f"m:{self.conversation.id}:{key}",
            message_id=key,
            mentioned=True,
            attachments=tuple(attachment_of(path) for path in files),
            hints=dict(hints or {}),
        )
        sink = await self._channel.sink()
        await accept_or_tell(sink, inbound)
        self._channel.tell_others(self, clean)

    async def stop(self) -> None:
        """Stop the running turn."""
        await self._channel.stop(self.conversation)

    async def frames(self) -> AsyncIterator[LiveEvent]:
        """Yield what arrives; see ``Link.frames``."""
        while (frame := await self.take()) is not None:
            if isinstance(frame, Reply):
                self.acknowledge(frame.key)
            yield frame

    async def close(self) -> None:
        """Detach; see ``Link.close``."""
        self.end()
        self._channel.detach(self)

    @property
    def waiting(self) -> int:
        """The number of queued events."""
        return len(self._waiting)

    async def take(self) -> LiveEvent | None:
        """Wait for the next event, which does not acknowledge it; None once closed."""
        while not self._waiting:
            if self._closed:
                return None
            self._news.clear()
            await self._news.wait()
        return self._waiting.popleft()

    def acknowledge(self, key: str) -> None:
        """Record that the client has the reply ``key``."""
        proof = self._delivered.get(key)
        if proof is not None and not proof.done():
            proof.set_result("taken")

    def push(self, frame: LiveEvent) -> None:
        """Queue an event that needs no acknowledgement."""
        last = self._waiting[-1] if self._waiting else None
        if isinstance(frame, Delta) and isinstance(last, Delta):
            text = frame.text if frame.fresh else last.text + frame.text
            self._waiting[-1] = Delta(text, fresh=frame.fresh or last.fresh)
        else:
            self._waiting.append(frame)
        self._news.set()

    def preview(self, turn: str, text: str) -> None:
        """Queue the new part of the reply."""
        before = self._preview
        self._preview = (turn, text)
        if before[0] == turn and text.startswith(before[1]):
            if len(text) > len(before[1]):
                self.push(Delta(text[len(before[1]) :]))
        else:
            self.push(Delta(text, fresh=True))

    def offer(self, reply: Reply) -> asyncio.Future[Proof]:
        """Queue a reply, once for each key. The future gives the result."""
        proof = self._delivered.get(reply.key)
        if proof is None:
            proof = asyncio.get_running_loop().create_future()
            self._delivered[reply.key] = proof
            self.push(reply)
        return proof

    def end(self) -> None:
        """Close from the gateway's side: queued events are dropped, and queued replies count as not delivered."""
        self._closed = True
        missed = {frame.key for frame in self._waiting if isinstance(frame, Reply)}
        self._waiting.clear()
        for key, proof in self._delivered.items():
            if not proof.done():
                proof.set_result("missed" if key in missed else "unknown")
        self._news.set()
