"""Answers slash commands and button presses within the three seconds that Discord allows.

They do not wait in the queue of messages, which may be reading missed messages in many channels. A press or command is answered after it
is stored; if storing fails, the person is told at once and can repeat it, so it is not retried in the background.
"""

from __future__ import annotations

import asyncio
from typing import Any

from channels.common.background import BackgroundTasks
from channels.common.event_guard import EventGuard
from channels.common.log import Log
from channels.discord.api_errors import TROUBLE
from channels.discord.bot_reactions import BotReactions
from channels.discord.channel_directory import ChannelDirectory
from channels.discord.gateway_client import GatewayClient
from channels.discord.inbound import facts, place_of
from channels.discord.interactions import interaction
from channels.messages import Inbound
from channels.protocol import Clock, InboundSink

IN_TIME = 2.0
"""Seconds after which the person is told that it takes longer."""
EPHEMERAL = 1 << 6
_SAY, _DONE_QUIETLY, _CHANGE = 4, 6, 7
_SLOW = "This takes longer than usual. If no answer comes, please try again."
_LOST = "This could not be stored, so nothing was done. Please try again."
_NOWHERE = "Discord does not say in which channel this was used. Please write it as a message."
_NOT_HERE = "I do not read this channel (see `channels.discord` in the settings)."


class InteractionHandler:
    """Handles commands and presses of one connection. ``take`` returns at once."""

    def __init__(
        self, account: str, *, sink: InboundSink, clock: Clock, log: Log, link: GatewayClient, reactions: BotReactions
    ) -> None:
        self._account = account
        self._sink = sink
        self._clock = clock
        self._log = log
        self._link = link
        self._reactions = reactions
        self._guard = EventGuard(log, account)
        self._aside = BackgroundTasks(log, account)

    def take(self, event: dict[str, Any], places: ChannelDirectory) -> None:
        """Start handling one."""
        self._aside.begin("a command or press could not be taken", self._guarded(event, places))

    async def close(self) -> None:
        """Cancel what is not handled yet."""
        await self._aside.close()

    async def _guarded(self, event: dict[str, Any], places: ChannelDirectory) -> None:
        with self._guard.reading(facts("INTERACTION_CREATE", event)):
            await self._take(event, places)

    async def _take(self, event: dict[str, Any], places: ChannelDirectory) -> None:
        shown = event.get("channel") or {}
        where = str(event.get("channel_id") or shown.get("id") or "")
        if not where:
            await self._answer(event, _whisper(_NOWHERE))
            return
        place = places.known(where) or place_of({**shown, "id": where, "guild_id": event.get("guild_id")})
        message = interaction(event, place, self._account, self._clock.now())
        if message is None:
            return
        if not places.reads(place):
            await self._answer(event, _whisper(_NOT_HERE))
            return
        self._reactions.no_message(message.message_id)
        if not place.guild:
            places.dms[message.sender.id] = place.id
        storing = asyncio.ensure_future(self._stored(message))
        await asyncio.wait({storing}, timeout=IN_TIME)
        if not storing.done():
            await self._answer(event, _whisper(_SLOW))
            await storing
        else:
            await self._answer(event, _taken(message) if storing.result() else _whisper(_LOST))

    async def _stored(self, message: Inbound) -> bool:
        try:
            await self._sink.accept([message])
        except Exception as error:  # noqa: BLE001 - whatever the gateway could not store, the person must be told of
            self._log.warning("a command or press could not be stored", error=str(error), account=self._account)
            return False
        return True

    async def _answer(self, event: dict[str, Any], answer: dict[str, Any]) -> None:
        try:
            await self._link.answer(event, answer)
        except TROUBLE as error:  # the person sees that Discord heard no answer; ours comes as a message all the same
            self._log.info("a command or press was not acknowledged", error=str(error), account=self._account)


def _taken(message: Inbound) -> dict[str, Any]:
    """Return the response after storing: a private notice; after a press in a private chat the buttons are removed.

    In a group the buttons stay: the gateway decides later who may press.
    """
    if message.event != "button":
        return _whisper(f"`{message.text.split()[0]}` is on its way.")
    if message.conversation.kind == "group":
        return {"type": _DONE_QUIETLY}
    return {"type": _CHANGE, "data": {"components": []}}


def _whisper(text: str) -> dict[str, Any]:
    return {"type": _SAY, "data": {"content": text, "flags": EPHEMERAL, "allowed_mentions": {"parse": []}}}
