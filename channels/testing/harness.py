"""Runs a channel against a peer, with a sink that records what it is given and a clock on which waiting takes no time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from channels.errors import ChannelBroken, ChannelError, NotSent
from channels.messages import ChatAddress, Cursor, Inbound, Outbound, Sent
from channels.protocol import Channel, MenuEntry
from channels.testing.peer import Peer


class FastClock:
    """A ``Clock`` on which only ``sleep`` advances time, at once. ``slept`` lists the requested seconds."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> datetime:
        """Return a day in 2026 plus the time slept."""
        return datetime(2026, 5, 1, 9, tzinfo=UTC) + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Return the seconds slept in total."""
        return sum(self.slept)

    async def sleep(self, seconds: float) -> None:
        """Advance the clock, and let other tasks run."""
        self.slept.append(seconds)
        await asyncio.sleep(0)


BETWEEN_LOOKS: Final = 0.01


class Nonconforming(AssertionError):
    """A channel breaks a rule."""


class RecordingSink:
    """A sink that records each message once. While ``refuse`` is set it cannot store anything."""

    def __init__(self, cursors: dict[str, str] | None = None, patience: float = 20.0) -> None:
        self.patience = patience
        self.messages: list[Inbound] = []
        self.cursors = {} if cursors is None else cursors
        self.refuse: Exception | None = None
        self.refused = 0
        self.is_ready = asyncio.Event()
        self.lives = 0
        self.admitted: set[str] | None = None
        self.moves: list[tuple[ChatAddress, ChatAddress]] = []
        self.added_to: list[tuple[ChatAddress, str, str, str]] = []
        self.told_owner: list[str] = []
        self.returned: list[tuple[ChatAddress, str, NotSent]] = []
        self._keys: set[str] = set()
        self._changed = asyncio.Condition()

    async def accept(self, messages: Sequence[Inbound], cursor: Cursor | None = None) -> None:
        """Record new messages."""
        async with self._changed:
            self._changed.notify_all()
            if self.refuse is not None:
                self.refused += 1
                raise self.refuse
            for message in messages:
                if not {message.key, message.alias} & self._keys:
                    self.messages.append(message)
                self._keys |= {message.key, message.alias}
            if cursor is not None:
                self.cursors[cursor.name] = cursor.value

    async def cursor(self, name: str) -> str | None:
        """Return a cursor."""
        return self.cursors.get(name)

    async def admits(self, person: str) -> bool:
        """Return whether the person is one of ``admitted``; everybody is while that is None."""
        return self.admitted is None or person in self.admitted

    async def added(self, group: ChatAddress, *, key: str, title: str = "", by: str = "") -> None:
        """Record that the bot was added to a group."""
        self.added_to.append((group, key, title, by))

    def tell_owner(self, text: str) -> None:
        """Record the line."""
        self.told_owner.append(text)

    async def moved(self, former: ChatAddress, present: ChatAddress) -> None:
        """Record the call."""
        self.moves.append((former, present))

    async def bounced(self, conversation: ChatAddress, platform_id: str, error: NotSent) -> bool:
        """Record the call."""
        async with self._changed:
            self._changed.notify_all()
            if self.refuse is not None:
                raise self.refuse
            self.returned.append((conversation, platform_id, error))
        return True

    def ready(self) -> None:
        """Record the call."""
        self.is_ready.set()

    def alive(self) -> None:
        """Record the call."""
        self.lives += 1

    @property
    def texts(self) -> list[str]:
        """The texts of all messages."""
        return [message.text for message in self.messages]

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until the condition holds after an ``accept``."""
        try:
            async with asyncio.timeout(self.patience), self._changed:
                await self._changed.wait_for(condition)
        except TimeoutError:
            raise Nonconforming(f"waited in vain until {what}; the gateway has {self.texts!r:.500}") from None


class Run:
    """A running channel."""

    def __init__(self, channel: Channel, sink: RecordingSink) -> None:
        self.channel = channel
        self.sink = sink
        self.recorded: str | None = None

    async def place(self, peer: Peer) -> ChatAddress:
        """Return the private conversation, which is known once the person has written."""
        before = len(self.sink.messages)
        await peer.say("where am I?")
        await self.sink.until(lambda: len(self.sink.messages) > before, "a message arrived")
        return self.sink.messages[-1].conversation

    async def send(self, place: ChatAddress, text: str, key: str = "key-1", **more: Any) -> Sent:
        """Send one chunk, and keep the recorded string."""

        async def record(text: str) -> None:
            self.recorded = text

        return await self.channel.send(Outbound(key=key, conversation=place, text=text, **more), record)

    async def send_again(self, place: ChatAddress, text: str, *, uncertain: bool, **more: Any) -> Sent:
        """Retry a send as the gateway does: with the recorded string, and again while the channel is not connected."""
        attempt = 1
        async with asyncio.timeout(self.sink.patience):
            while True:
                attempt += 1
                try:
                    return await self.send(place, text, attempt=attempt, uncertain=uncertain, recorded=self.recorded, **more)
                except NotSent as error:
                    expect(not error.permanent, f"a repetition that arrives, not {error!r}")
                    await asyncio.sleep(BETWEEN_LOOKS)


@contextlib.asynccontextmanager
async def running(
    peer: Peer, cursors: dict[str, str] | None = None, menu: Sequence[MenuEntry] | None = None
) -> AsyncIterator[Run]:
    """Run a new channel of the peer, from the moment it is ready; end it as a restart would."""
    sink = RecordingSink(cursors, peer.patience)
    channel = peer.channel()
    if menu is not None:
        await extra(channel, "menu")(menu)
    task = asyncio.ensure_future(channel.run(sink))
    ready = asyncio.ensure_future(sink.is_ready.wait())
    try:
        await asyncio.wait([task, ready], timeout=peer.patience, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        expect(ready.done(), "the channel says that it is ready")
        yield Run(channel, sink)
    finally:
        ready.cancel()
        task.cancel()
        _, going_on = await asyncio.wait([task, ready], timeout=peer.patience)
        await channel.close()
        expect(not going_on, "the channel's run ends when it is cancelled")


def extra(channel: Channel, name: str) -> Callable[..., Awaitable[Any]]:
    """Return an optional method."""
    found: Callable[..., Awaitable[Any]] | None = getattr(channel, name, None)
    if found is None:
        raise Nonconforming(f"expected: a method {name!r} (see channels.protocol), or this rule among what the peer lacks")
    return found


def expect(holds: object, what: str) -> None:
    """Raise Nonconforming unless ``holds``."""
    if not holds:
        raise Nonconforming(f"expected: {what}")


async def failed(sending: Awaitable[Sent]) -> ChannelError | None:
    """Return the permitted error that a send raised, or None."""
    try:
        await sending
    except ChannelBroken as error:
        raise Nonconforming(f"expected: send raises NotSent or Uncertain alone, not {error!r}") from error
    except ChannelError as error:
        return error
    except Exception as error:  # whatever a channel raises is what is being judged
        raise Nonconforming(f"expected: send raises NotSent or Uncertain alone, not {error!r}") from error
    return None


async def eventually(peer: Peer, condition: Callable[[], object], what: str) -> None:
    """Wait until the condition holds on the peer."""
    try:
        async with asyncio.timeout(peer.patience):
            while not condition():  # noqa: ASYNC110 - a peer is looked at, and tells nothing by itself
                await asyncio.sleep(BETWEEN_LOOKS)
    except TimeoutError:
        raise Nonconforming(f"waited in vain until {what}") from None
