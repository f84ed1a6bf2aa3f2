"""Acknowledgement reactions: an emoji on a received message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable

from channels.messages import ChatAddress, Inbound
from channels.protocol import Channel, Reacts
from gateway.routing.routed_message import RoutedMessage
from gateway.settings.messages import AckScope, MessagesSettings

AT_ONCE = 16
"""Maximum number of concurrent reaction requests, to stay below the platform's rate limits in a flood."""


class AckReactions:
    """Sets and removes the emoji, if the channel can. Runs in the background; errors are ignored."""

    def __init__(self, settings: Callable[[], MessagesSettings], channel: Callable[[ChatAddress], Channel]) -> None:
        self._settings = settings
        self._channel = channel
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    def taken(self, arrived: RoutedMessage) -> None:
        """React to a message that was received."""
        settings = self._settings()
        if settings.ack_reaction and is_meant(arrived.inbound, settings.ack_reaction_scope):
            self._react(arrived.inbound, settings.ack_reaction)

    def answered(self, messages: Iterable[RoutedMessage]) -> None:
        """Update the reactions of messages that were answered or dropped."""
        settings = self._settings()
        if not (settings.ack_reaction and settings.remove_ack_after_reply):
            return
        for one in messages:
            if is_meant(one.inbound, settings.ack_reaction_scope):
                self._react(one.inbound, None)

    async def quiet(self) -> None:
        """Wait until all requests are finished."""
        while self._tasks:
            await asyncio.wait(self._tasks.values())

    def _react(self, inbound: Inbound, emoji: str | None) -> None:
        channel: Reacts | None = self._channel(inbound.conversation)  # type: ignore[assignment]
        if not hasattr(channel, "react") or channel is None or len(self._tasks) >= AT_ONCE:
            return
        where = (inbound.conversation.address, inbound.message_id)
        task = asyncio.ensure_future(
            _after(self._tasks.get(where), channel.react(inbound.conversation, inbound.message_id, emoji))
        )
        self._tasks[where] = task
        task.add_done_callback(lambda done: self._tasks.pop(where) if self._tasks.get(where) is done else None)


async def _after(before: asyncio.Task[None] | None, work: Coroutine[None, None, None]) -> None:
    """Run ``work`` after earlier requests for the same message, so that a removal never overtakes its reaction."""
    if before is not None:
        await asyncio.wait([before])
    await work


def is_meant(inbound: Inbound, scope: AckScope) -> bool:
    """Whether the settings want a reaction on a message. Button presses and edits get none."""
    if inbound.event != "message" or scope == "off":
        return False
    if scope == "all":
        return True
    if inbound.conversation.kind == "direct":
        return scope == "direct"
    return scope == "group-all" or (scope == "group-mentions" and inbound.mentioned)
