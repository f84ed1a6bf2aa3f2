"""Slash commands, button presses and reactions: converted to inbound messages, and answered within the three seconds that Discord allows.

They do not wait in the queue of messages, which may be reading missed messages in many channels. A press or command is answered after it
is stored; if storing fails, the person is told at once and can repeat it, so it is not retried in the background. ``offer`` sets the slash
commands (https://discord.com/developers/docs/interactions/application-commands) where they differ.
"""

from __future__ import annotations

import asyncio
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from channels.common.event_guard import BackgroundTasks, EventGuard
from channels.common.log import Log
from channels.discord.api_errors import TROUBLE
from channels.discord.bot_reactions import BotReactions
from channels.discord.channel_directory import ChannelDirectory
from channels.discord.gateway_client import GatewayClient
from channels.discord.inbound import Place, facts, place_of, sender_of
from channels.messages import Inbound
from channels.protocol import Clock, InboundSink

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from channels.protocol import MenuEntry

COMMAND = 2
PRESS = 3
MARK = "hb"
"""What the ids of our buttons begin with, followed by their number and a colon."""


def reaction(event: dict[str, Any], place: Place, account: str, at: datetime, key: str | None, *, mine: bool) -> Inbound:
    """Return a reaction. A server's custom emoji is given by its name, as ``:name:``.

    It counts as a mention on a message of the bot (``mine``), and always in private. One that was made during an outage has no ``key`` of
    its own; its alias is that of the event.
    """
    emoji, message = event.get("emoji") or {}, str(event["message_id"])
    alias = f"r:{message}:{event['user_id']}:{emoji.get('id') or emoji.get('name')}"
    user = (event.get("member") or {}).get("user") or {"id": event["user_id"]}
    return Inbound(
        conversation=place.conversation(account, str(event["user_id"])),
        sender=sender_of(user),
        text=f":{emoji.get('name')}:" if emoji.get("id") else str(emoji.get("name") or ""),
        at=at,
        key=key or alias,
        alias=alias,
        message_id=message,
        mentioned=mine or not place.guild,
        event="reaction",
        target=message,
        from_bot=bool(user.get("bot")),
    )


def interaction(event: dict[str, Any], place: Place, account: str, at: datetime) -> Inbound | None:
    """Return a slash command or press as a message; None if it is not one of this bot's."""
    user = (event.get("member") or {}).get("user") or event.get("user") or {}
    data, identity = event.get("data") or {}, str(event["id"])
    if not user:
        return None
    press = event.get("type") == PRESS
    text = pressed(str(data.get("custom_id") or "")) if press else _command(data) if event.get("type") == COMMAND else None
    if text is None:
        return None
    return Inbound(
        conversation=place.conversation(account, str(user["id"])),
        sender=sender_of(user),
        text=text,
        at=at,
        key=f"i:{identity}",
        alias=f"i:{identity}",
        message_id=identity,
        mentioned=True,
        event="button" if press else "message",
        target=str((event.get("message") or {}).get("id")) if press else None,
        from_bot=bool(user.get("bot")),
    )


def custom_id(number: int, value: str) -> str:
    """Return the id of a button, unique in its message."""
    return f"{MARK}{number}:{value}"


def pressed(identity: str) -> str | None:
    """Return the value of a button, or None if it is not the bot's."""
    mark, colon, value = identity.partition(":")
    return value if colon and mark.startswith(MARK) and mark.removeprefix(MARK).isdecimal() else None


def _command(data: dict[str, Any]) -> str | None:
    name = data.get("name")
    given = [str(one["value"]) for one in data.get("options") or () if "value" in one]
    return " ".join([f"/{name}", *given]) if name else None


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


MOST = 100
LONGEST = 100
ARGUMENT = "argument"
_NAME = re.compile(r"[-_\w]{1,32}")
_TEXT = 3


async def offer(link: GatewayClient, entries: Sequence[MenuEntry]) -> bool:
    """Set the bot's commands; return whether they had to be changed. Raises one of ``TROUBLE``."""
    bot = int(link.me)
    wanted = commands(entries)
    offered = await link.http.get_global_commands(bot)
    if _compared(map(dict, offered)) == _compared(wanted):
        return False
    await link.http.bulk_upsert_global_commands(bot, wanted)
    return True


def commands(entries: Sequence[MenuEntry]) -> list[dict[str, Any]]:
    """Return commands in Discord's form; one with an invalid name is left out, and can still be typed."""
    named = {name: entry for entry in entries if _NAME.fullmatch(name := entry.name.lower()) and name == name.lower()}
    return [_as_payload(name, entry) for name, entry in list(named.items())[:MOST]]


def _as_payload(name: str, entry: MenuEntry) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": name,
        "description": _short(entry.help) or name,
        "type": 1,
        "contexts": [0, 1],  # servers, and private messages with the bot
        "integration_types": [0],
    }
    if hint := _short(entry.argument):
        shown["options"] = [{"name": ARGUMENT, "description": hint, "type": _TEXT}]
    return shown


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _compared(found: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the comparable part of commands: Discord adds fields, omits defaults, and sorts them."""
    return sorted(
        (
            str(one.get("name")),
            str(one.get("description")),
            sorted(one.get("contexts") or ()),
            [(option.get("name"), option.get("description"), option.get("type")) for option in one.get("options") or ()],
        )
        for one in found
    )
