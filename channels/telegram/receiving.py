"""Stores updates before anything else is done with them, whether polled or pushed. Importing this module loads the client library."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from telegram.error import TelegramError

from channels.common.backoff import Backoff
from channels.common.event_guard import MALFORMED, BackgroundTasks, whereabouts
from channels.common.log import Log
from channels.messages import ChatAddress, Cursor
from channels.protocol import Clock, InboundSink
from channels.telegram.bot import key_of
from channels.telegram.settings import TelegramAccount
from channels.telegram.updates import Membership, Press, Reader, Reading

if TYPE_CHECKING:
    from telegram import Bot, Update


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverDeps:
    """What a receiver needs: bot, account, sink and clock. ``backoff`` is between failed attempts.

    ``trouble`` is called with what is wrong while it runs, and with "" when that is over; ``signed_in`` with the bot's
    name. ``wary``: another program had the bot when it ran last, and may have it still.
    """

    bot: Bot
    settings: TelegramAccount
    account: str
    sink: InboundSink
    clock: Clock
    backoff: Backoff
    log: Log
    trouble: Callable[[str], None] = lambda _: None
    signed_in: Callable[[str], None] = lambda _: None
    wary: bool = False


CURSOR = "offset"


_NUMBER = re.compile(r"-?\d+")


class Receiver:
    """Reads updates and delivers them to the sink; best-effort requests to the platform run in the background."""

    def __init__(self, deps: ReceiverDeps, reader: Reader) -> None:
        self._deps = deps
        self._reader = reader
        self._aside = BackgroundTasks(deps.log, deps.account)

    async def take(self, updates: Sequence[Update]) -> int:
        """Deliver a batch; return the number of the update after it. Raises if it could not be stored."""
        readings = [(update.update_id, self._read(update)) for update in updates]
        for number, reading in readings:
            if reading.passed:
                self._deps.log.info("skipped an update", why=reading.passed, update=number, account=self._deps.account)
            if reading.moved is not None:
                await self._move(*reading.moved)
        following = updates[-1].update_id + 1
        messages = [reading.inbound for _, reading in readings if reading.inbound is not None]
        for _, reading in readings:
            if reading.membership is not None:
                await self._take_membership(reading.membership)
        await self._deps.sink.accept(messages, Cursor(name=CURSOR, value=str(following)))
        for _, reading in readings:
            if reading.press is not None:
                self._aside.begin("a pressed button was not answered", self._answer(reading.press))
        return following

    def _read(self, update: Update) -> Reading:
        """Read an update; a malformed one must not block those behind it."""
        try:
            reading = self._reader.read(update)
        except MALFORMED as error:
            return Reading(passed=f"it is malformed: {whereabouts(error)}")
        ids, found = [place.id for place in reading.moved or ()], reading.inbound
        if found is not None:
            ids += [found.conversation.id, found.sender.id, found.message_id]
        sound = all(map(_NUMBER.fullmatch, ids)) and (
            found is None or isinstance(found.at, datetime)
        )  # the library may lack them
        return reading if sound else Reading(passed="it is malformed: no ids, or no date")

    async def _move(self, former: ChatAddress, present: ChatAddress) -> None:
        """Report that a group has a new id, and log where its settings should follow."""
        await self._deps.sink.moved(former, present)
        if former.id in self._deps.settings.groups:
            key = f"{key_of(self._deps.account)}.groups"
            hint = f"in the settings, rename {key}.{former.id} to {key}.{present.id}"
            self._deps.log.warning("a group became a supergroup and has a new id", group=present.id, hint=hint)

    async def close(self) -> None:
        """Cancel what is best effort."""
        await self._aside.close()

    async def _answer(self, press: Press) -> None:
        """Answer the button's query, and remove the buttons if the person was allowed to press."""
        try:
            await self._deps.bot.answer_callback_query(press.query)
            if press.allowed:
                await self._deps.bot.edit_message_reply_markup(press.chat, press.message, reply_markup=None)
        except (TelegramError, TypeError, KeyError, ValueError) as error:
            self._deps.log.info("a pressed button was not answered", error=type(error).__name__, account=self._deps.account)

    async def _take_membership(self, membership: Membership) -> None:
        """Tell the gateway of a group to which the bot was added."""
        facts = {"group": membership.chat, "title": membership.title, "account": self._deps.account}
        if not membership.present:
            self._deps.log.warning("the bot was removed from a group", **facts)
            return
        group = ChatAddress(channel="telegram", account=self._deps.account, kind="group", id=membership.chat)
        self._deps.log.warning("the bot was added to a group", **facts)
        await self._deps.sink.added(group, key=membership.key, title=membership.title, by=membership.by)
