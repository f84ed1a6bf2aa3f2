"""Stores events from Slack, over Socket Mode or HTTP, before they are acknowledged.

Slack redelivers an unacknowledged event a few times. Messages from a longer outage are read over the Web API from the newest stored
message, before the channel reports ready. Importing this module loads the library.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from slack_bolt.app.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.authorization.async_authorize import AsyncAuthorize
from slack_bolt.response import BoltResponse
from slack_sdk.web.async_client import AsyncWebClient

from channels.common.backoff import Backoff
from channels.common.event_guard import MALFORMED, BackgroundTasks, EventGuard
from channels.common.log import Log
from channels.common.read_marks import CURSOR, ReadMarks
from channels.messages import ChatAddress, Cursor, Inbound
from channels.protocol import Clock, InboundSink
from channels.slack.api_errors import refused_token
from channels.slack.assistant import AssistantThreads
from channels.slack.catch_up import MOVES, CatchUp, moves, thread_mark
from channels.slack.inbound import QUOTED, Identity, facts, inbound, is_stamp, order
from channels.slack.interactivity import Interactivity
from channels.slack.settings import SlackAccount
from channels.slack.slack_cache import SlackCache
from channels.slack.store_queue import StoreQueue
from channels.slack.unread_channels import UnreadChannels
from channels.slack.user_actions import edited, reaction
from channels.slack.user_names import People

if TYPE_CHECKING:
    from slack_bolt.request.async_request import AsyncBoltRequest

    from channels.slack.catch_up import Found

_OK, _UNHANDLED, _OFFER_AGAIN = 200, 404, 503
_ANY = re.compile(".*")
_OFFERED_AGAIN = "an event could not be taken, and Slack is to offer it again"


_JOINED: Final = frozenset({"channel_join", "group_join"})


class OwnIds(AsyncAuthorize):
    """Gives the library the app's own ids for each event.

    A library with the token asks Slack for them at the first event. If Slack does not answer, it acknowledges that
    event without passing it on, and the message is lost.
    """

    def __init__(self, who: Identity, token: str | None) -> None:
        self._ids = {"bot_user_id": who.user, "bot_id": who.bot or None, "bot_token": token}

    async def __call__(self, *, enterprise_id: str | None, team_id: str | None, **_: object) -> AuthorizeResult:
        """Return the ids."""
        return AuthorizeResult(enterprise_id=enterprise_id, team_id=team_id, **self._ids)


class Receiver:
    """Reads one app's events, one after the other, in the order they came.

    ``persistent``: what the gateway cannot store is offered to it again until it can; else Slack is answered that it must offer it
    again, and what it may have given up is read later. ``broken`` fails when Slack takes the app's tokens back.
    """

    def __init__(
        self,
        settings: SlackAccount,
        who: Identity,
        web: AsyncWebClient,
        sink: InboundSink,
        known: SlackCache,
        *,
        people: People,
        clock: Clock,
        random: Callable[[], float],
        log: Log,
    ) -> None:
        self.persistent = settings.mode == "socket"
        self.stored = True
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.broken.add_done_callback(_seen)
        self._settings = settings
        self._who = who
        self._web = web
        self._sink = sink
        self._known = known
        self._people = people
        self._log = log
        self._guard = EventGuard(log, who.account)
        self._backoff = Backoff(clock, random, log, who.account)
        self._marks = ReadMarks(order)
        self._gap = False
        reading = Backoff(clock, random, log, who.account)
        reactions = settings.reaction_notifications
        self._missed = CatchUp(who, web, self._guard, reading, self._take, reactions=reactions, clock=clock, log=log)
        self.in_order = self._missed.in_order
        self._catching_up: asyncio.Task[None] | None = None
        self._aside = BackgroundTasks(log, who.account)
        self._unread = UnreadChannels(settings, who.account, log)
        self._assistant = AssistantThreads(settings.assistant, web, known, self._aside, log, account=who.account)
        self._interactivity = Interactivity(
            settings, who, web, known, take=self._take, reads=self._reads, aside=self._aside, clock=clock, log=log
        )
        self._queue = StoreQueue(sink, self._backoff)
        self.app = AsyncApp(
            client=AsyncWebClient(),
            authorize=OwnIds(who, web.token),
            process_before_response=True,
            request_verification_enabled=False,
            logger=logging.getLogger("slack_bolt"),
        )
        self._listen()

    def _listen(self) -> None:
        events = {
            "message": self._message,
            "app_mention": self._message,
            "reaction_added": self._reaction,
            "assistant_thread_started": self._assistant.started,
            "assistant_thread_context_changed": self._assistant.changed,
            "channel_id_changed": self._moved,
            "tokens_revoked": self._revoked,
            "app_uninstalled": self._revoked,
        }
        for kind, take in events.items():
            self.app.event(kind)(take)
        self.app.event(_ANY)(self._passed_over)
        self.app.action(_ANY)(self._interactivity.pressed)
        self.app.command(_ANY)(self._interactivity.command)
        self.app.error(self._failed)

    async def begin(self) -> None:
        """Learn how far was read."""
        self._marks = ReadMarks(order, await self._sink.cursor(CURSOR))
        self._known.former.update(moves(await self._sink.cursor(MOVES)))

    @property
    def trouble(self) -> str:
        """What is wrong though Slack is reached, in words; empty when nothing is."""
        return self._missed.trouble

    def catch_up(self, ready: Callable[[], None]) -> None:
        """Begin to read missed messages; ``ready`` is called when that is done, or as soon as it is delayed.

        A second call starts again. An error that cannot be recovered from is set on ``broken`` and ends the channel's run.
        """
        if self._catching_up is not None:
            self._catching_up.cancel()
        self._gap = False
        self._catching_up = asyncio.ensure_future(self._missed.take(self._marks.all(), ready))
        self._catching_up.add_done_callback(self._caught_up)

    def fill_gap(self) -> None:
        """Catch up when something could not be stored before."""
        if self._gap:
            self.catch_up(lambda: None)

    def _caught_up(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.broken.done():
            self.broken.set_exception(error)

    async def dispatch(self, request: AsyncBoltRequest) -> BoltResponse:
        """Handle one request or envelope. Unwanted ones are acknowledged, so that Slack does not repeat them."""
        async with self.in_order:
            self.stored = True
            await self._joined(request.body.get("event"))
            try:
                answer = await self.app.async_dispatch(request)
            except MALFORMED as error:  # the library reads an event before it hands it on
                self._guard.pass_over(facts(request.body), error)
                answer = BoltResponse(status=_OK)
            if not self.stored:
                answer.status, answer.body = _OFFER_AGAIN, ""
            elif answer.status == _UNHANDLED:
                self._log.info("skipped an event", kind=str(request.body.get("type")), account=self._who.account)
                answer.status, answer.body = _OK, ""
            return answer

    async def message(self, body: dict[str, Any]) -> bool:
        """Handle a message that came over a socket, without the library; return whether to acknowledge it.

        Only reading keeps the order: the next one is read while this one is stored, and they are stored together.
        """
        event = body["event"]
        self._begin_naming(event)
        async with self.in_order:
            await self._joined(event)
            await asyncio.sleep(0)  # a burst is not read in one step of the event loop
            try:
                stored = self._put(await self._wanted([(event, self._read(body, event))]))
            except MALFORMED as error:
                self._guard.pass_over(facts(body), error)
                return True
            except Exception as error:  # noqa: BLE001 - whatever it is, Slack must tell it again
                self._refused(_OFFERED_AGAIN, error, facts(body))
                return False
        if stored is not None:
            await stored
        return True

    async def close(self) -> None:
        """Leave what is not read yet, and what is only for show."""
        await self._queue.close()
        await self._aside.close()
        if self._catching_up is not None:
            self._catching_up.cancel()
            await asyncio.gather(self._catching_up, return_exceptions=True)

    async def _failed(self, error: Exception, request: AsyncBoltRequest) -> BoltResponse:
        """Return the answer for an event that failed: a malformed one is skipped, any other must be repeated."""
        if isinstance(error, MALFORMED):
            self._guard.pass_over(facts(request.body), error)
            return BoltResponse(status=_OK)
        self._refused(_OFFERED_AGAIN, error, facts(request.body))
        return BoltResponse(status=_OFFER_AGAIN)

    # -- what happens ------------------------------------------------------------------------------------------------

    async def _message(self, body: dict[str, Any], event: dict[str, Any]) -> None:
        await self._take([(event, self._read(body, event))])

    def _read(self, body: dict[str, Any], event: dict[str, Any]) -> Inbound | None:
        found = str(body.get("event_id") or "")
        if event.get("subtype") == "message_changed":
            return edited(event, self._who, event_id=found)
        channel = str(event.get("channel"))
        quoted = self._known.starters.get((channel, str(event.get("thread_ts")))) or ""
        message = inbound(event, self._who, event_id=found, quoted=quoted)
        return None if message is None else self._assistant.heard(message, channel)

    async def _reaction(self, body: dict[str, Any], event: dict[str, Any]) -> None:
        wanted, own = self._settings.reaction_notifications, event.get("item_user") == self._who.user
        if wanted == "off" or (wanted == "own" and not own):
            return
        item = event.get("item") or {}
        channel, target = str(item.get("channel") or ""), str(item.get("ts") or "")
        asked = own and self._settings.listed(channel, str(event.get("user")))
        thread = await self._thread_of(channel, target, ask=asked)
        message = reaction(event, self._who, thread, event_id=str(body.get("event_id") or ""))
        await self._take([({"channel": channel}, message)])

    async def _moved(self, event: dict[str, Any]) -> None:
        former, present = str(event.get("old_channel_id") or ""), str(event.get("new_channel_id") or "")
        if not former or not present:
            return
        await self._queue.empty()  # those messages were written before it moved
        try:
            await self._sink.moved(self._group(former), self._group(present))
            self._known.former[present] = former
            await self._sink.accept([], Cursor(name=MOVES, value=json.dumps(self._known.former)))
        except Exception as error:  # noqa: BLE001 - whatever the gateway could not note, Slack must tell again
            self._refused("a channel's new id could not be stored", error)

    async def _joined(self, event: object) -> None:
        """Tell the gateway of a channel that the bot came into: a notice of its own, which the library does not hand on."""
        if not isinstance(event, dict) or event.get("subtype") not in _JOINED or event.get("user") != self._who.user:
            return
        try:
            await self._sink.added(self._group(str(event.get("channel"))), key=f"joined:{event.get('ts')}")
        except Exception as error:  # noqa: BLE001 - whatever the gateway could not note, Slack must tell again
            self._refused("a welcome could not be stored", error)

    async def _revoked(self, event: dict[str, Any]) -> None:
        bots = (event.get("tokens") or {}).get("bot") or []
        if (event.get("type") == "app_uninstalled" or bots) and not self.broken.done():
            code = "app_uninstalled" if event.get("type") == "app_uninstalled" else "token_revoked"
            self.broken.set_exception(refused_token(code, self._settings, "bot_token"))

    async def _passed_over(self, event: dict[str, Any]) -> None:
        self._log.info("skipped an event", kind=event.get("type"), account=self._who.account)

    # -- taking ------------------------------------------------------------------------------------------------------

    async def _take(self, found: Found) -> bool:
        """Pass on the messages that the settings want. Returns whether they are stored."""
        wanted = await self._wanted(found)
        if self.persistent:
            stored = self._put(wanted)
            if stored is not None:
                await stored
            return stored is not None
        before = self._marks.written()
        for channel, message in wanted:
            self._note(channel, message)
        try:
            if wanted:
                await self._sink.accept([one for _, one in wanted], Cursor(name=CURSOR, value=self._marks.written()))
        except asyncio.CancelledError:  # whoever called went away
            self._marks, self._gap = ReadMarks(order, before), True
            raise
        except Exception as error:  # noqa: BLE001 - what could not be stored must be delivered again
            self._marks = ReadMarks(order, before)
            self._refused("messages could not be stored, and Slack is to offer them again", error)
            return False
        return bool(wanted)

    async def _wanted(self, found: Found) -> list[tuple[str, Inbound]]:
        """Return the messages that the settings want, with their channels and their senders' names."""
        wanted = [(str(event.get("channel") or ""), one) for event, one in found if one is not None]
        for event, _ in found:
            if event.get("type") == "app_mention":
                self._unread.mentioned(self._known.former.get(str(event.get("channel")), str(event.get("channel"))))
        return [(channel, await self._named(one, channel)) for channel, one in wanted if self._reads(one, channel)]

    def _put(self, wanted: list[tuple[str, Inbound]]) -> asyncio.Future[None] | None:
        """Queue messages to be stored; None if there are none."""
        for channel, message in wanted:
            self._note(channel, message)
        return self._queue.put([one for _, one in wanted], self._marks.written()) if wanted else None

    def _note(self, channel: str, message: Inbound) -> None:
        place = message.conversation
        if channel and place.kind == "direct" and message.event != "edited":
            self._known.dms[message.sender.id] = channel
        self._known.writers.put(place.address, message.sender.id)
        if message.event != "message" or not channel or not is_stamp(message.message_id):
            return
        self._known.fresh.put((channel, message.message_id), True)  # noqa: FBT003 - a mark, not a switch
        mark = channel if message.reply_to is None else thread_mark(channel, message.reply_to)
        if not self._gap and not self._missed.holds(channel):  # what was missed before this must be read first
            self._marks.note(mark, message.message_id)
        if message.reply_to is not None:
            self._known.starters.take((channel, message.reply_to))
        else:
            self._known.starters.put((channel, message.message_id), message.text[:QUOTED])

    def _reads(self, message: Inbound, channel: str) -> bool:
        if message.conversation.kind == "direct":
            return self._settings.dm.enabled and self._settings.dm.policy != "disabled" and self._hears(message, channel)
        place = self._known.former.get(channel, channel)
        return self._settings.reads(place) and self._hears(message, place)

    async def _named(self, message: Inbound, channel: str) -> Inbound:
        """Look up the name of a person who may have access; strangers in a channel are not looked up."""
        known = message.conversation.kind == "direct" or self._settings.listed(channel, message.sender.id)
        return await self._people.named(message) if known else message

    def _begin_naming(self, event: dict[str, Any]) -> None:
        """Begin to look up the name of a writer, so that the messages of several do not wait for each other's."""
        channel, sender = str(event.get("channel")), str(event.get("user") or "")
        if sender not in {"", self._who.user} and (channel.startswith("D") or self._settings.listed(channel, sender)):
            self._people.begin(sender)

    def _hears(self, message: Inbound, channel: str) -> bool:
        return not message.from_bot or self._settings.hears_bots(channel)

    def _refused(self, event: str, error: Exception, about: dict[str, str] | None = None) -> None:
        self.stored, self._gap = False, True
        self._log.warning(event, error=str(error) or type(error).__name__, **(about or {}), account=self._who.account)

    async def _thread_of(self, channel: str, stamp: str, *, ask: bool) -> str | None:
        """Return the thread of a message; Slack is asked about messages of an earlier process."""
        known = self._known.threads.get((channel, stamp))
        if known is None and ask:
            known = await self._missed.reading.thread_of(channel, stamp)
            self._known.threads.put((channel, stamp), known)
        return known or None

    def _group(self, channel: str) -> ChatAddress:
        return ChatAddress(channel="slack", account=self._who.account, kind="group", id=channel, space=self._who.team)


def _seen(broken: asyncio.Future[None]) -> None:
    """Have looked at what went wrong, also when the channel was ended for another reason at the same time."""
    if not broken.cancelled():
        broken.exception()
