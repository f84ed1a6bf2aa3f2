"""Notices to the owner that nobody asked for: faults, recovered data, exceeded budgets, messages that cannot be delivered."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from channels.messages import API, CLIENT_CHANNELS, ChatAddress
from channels.silent import is_silent
from gateway.agents.running_agent import RunningAgent
from gateway.base.errors import StorageFailed, for_chat
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import ApprovedSender, NewOutbound
from gateway.ledger.values import account_of
from gateway.routing.routed_message import RoutedMessage

log = logging.getLogger(__name__)

MOST_UNSAID = 20
"""Maximum lines kept in memory while the ledger cannot be written; the log has all of them."""


class OwnerNotifications:
    """Finds the owner's most recent private chat and queues notices there.

    ``connected``: the accounts that are not off. ``failing``: whether sending on an account fails at the moment. ``attached``: whether
    a terminal has the conversation open. ``keys``: the session keys of the owner's private conversations with an agent, by which
    conversations outside an agent's main session are found. ``answering``: the agents that answer in a conversation.
    """

    def __init__(
        self,
        ledger: Ledger,
        agents: Mapping[str, RunningAgent],
        connected: Callable[[], Mapping[str, object]],
        *,
        failing: Callable[[str], bool] = lambda _: False,
        attached: Callable[[ChatAddress], bool] = lambda _: False,
        keys: Callable[[str, ChatAddress, Sequence[ApprovedSender]], Collection[str]] = lambda _agent, _place, _approved: (),
        answering: Callable[[ChatAddress], Collection[str]] | None = None,
    ) -> None:
        self.elsewhere: Callable[[str | None], Awaitable[ChatAddress | None]] = _nowhere
        """Asks the other gateways of a cluster for the owner's conversation with an agent; for None, for the latest with any."""
        self._answering = answering
        self._ledger = ledger
        self._failing = failing
        self._attached = attached
        self._keys = keys
        self._heard: dict[tuple[str, str], ChatAddress] = {}
        self._found: ChatAddress | None = None
        self._agents = agents
        self._connected = connected
        self._tasks: set[asyncio.Task[None]] = set()
        self._when_stored: dict[str, Callable[[], None]] = {}
        self._unsaid: deque[str] = deque(maxlen=MOST_UNSAID)
        self._waiting: deque[str] = deque(maxlen=MOST_UNSAID)
        self._in_order = asyncio.Lock()

    def heard(self, arrived: RoutedMessage) -> None:
        """Remember the owner's private chat on each account, because one may work when another does not.

        Notices that had no destination so far are sent there.
        """
        place = arrived.inbound.conversation
        if arrived.actor.owner and place.kind == "direct":
            key = account_of(place), arrived.route.agent
            self._heard.pop(key, None)
            self._heard[key] = place
            if self._unsaid and place.channel not in CLIENT_CHANNELS:
                self._do(self._say_rest())

    def say(self, text: str, *, waits: bool = False) -> None:
        """Queue a line for the owner. Without a known chat it is only logged or, if it ``waits``, sent when the owner next writes.

        Lines that the ledger cannot store are sent before the next line that it can store.
        """
        if waits:
            self._waiting.append(text)
        self._do(self._say(text))

    def when_stored(self, text: str, done: Callable[[], None]) -> None:
        """Call ``done`` in a thread once this line is stored for a chat of the owner's."""
        self._when_stored[text] = done

    def say_elsewhere(self, text: str, address: str) -> None:
        """Queue a line about a fault at an address or on an account, if another working chat is known."""
        self._do(self._say_elsewhere(text, address))

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _say_elsewhere(self, text: str, address: str) -> None:
        with contextlib.suppress(StorageFailed):  # it is in the log
            for place in [*await self._places(), *reversed(self._heard.values()), *await self._let_in()]:
                if self._works(place) and not f"{place.address}:".startswith(f"{address}:"):
                    await self._ledger.outbox.enqueue([NewOutbound(conversation=place, text=for_chat(text))])
                    return

    def _works(self, place: ChatAddress) -> bool:
        if place.channel in CLIENT_CHANNELS:
            return place.channel != API and self._attached(place)
        return account_of(place) in self._connected() and not self._failing(account_of(place))

    async def _say(self, text: str) -> None:
        try:
            await self.tell(text)
        except StorageFailed as error:
            log.warning("could not notify the owner yet: %r: %s", text, error)

    async def tell(self, text: str) -> None:
        """Like ``tell``, but raises StorageFailed if the line could not be stored."""
        if text not in self._unsaid:
            self._unsaid.append(text)
        await self._tell_all()

    async def _say_rest(self) -> None:
        with contextlib.suppress(StorageFailed):  # it is in the log, and said with the next line
            await self._tell_all()

    async def _tell_all(self) -> None:
        async with self._in_order:
            texts, place = list(self._unsaid), await self.place()
            if place is not None and texts:
                await self._ledger.outbox.enqueue([NewOutbound(conversation=place, text=for_chat(one)) for one in texts])
                for one in texts:
                    if one in self._waiting:
                        self._waiting.remove(one)
                    if (done := self._when_stored.pop(one, None)) is not None:
                        await asyncio.to_thread(done)
            for one in texts:
                if one in self._unsaid and one not in self._waiting:
                    self._unsaid.remove(one)

    async def spoken(self) -> datetime | None:
        """Return when the owner last wrote to any agent, in whatever conversation of their own; None if never."""
        approved = await self._ledger.pairing.approved()
        return max(
            (
                record.spoken
                for name, agent in self._agents.items()
                for record in agent.store.all()
                if record.key == agent.main_key
                or (
                    (place := read_address(record.address)) is not None
                    and place.kind == "direct"
                    and record.key in self._keys(name, place, approved)
                )
            ),
            default=None,
        )

    async def place(self) -> ChatAddress | None:
        """Return what ``own_place`` does; where this gateway knows none, what another one of the cluster knows."""
        self._found = await self.own_place() or await self.elsewhere(None)
        return self._found

    async def place_of(self, agent: str) -> ChatAddress | None:
        """Return where the owner reads what an agent says unasked: where they talk to it; without such a chat, what ``place`` does."""
        return await self.own_place_of(agent) or await self.elsewhere(agent) or await self.place()

    async def own_place_of(self, agent: str) -> ChatAddress | None:
        """The platform conversation in which the owner last wrote to an agent; else another one of theirs in which it answers.

        One that other agents answer by now, or where sending fails at the moment, is chosen only if there is no other.
        """
        heard = [place for (_, to), place in reversed(self._heard.items()) if to == agent and self._reachable(place)]
        spoken = [*await self._places(agent), *heard]
        others = [place for place in await self.chats() if self._answers(agent, place)] if self._answering else []
        return min(
            [*spoken, *others],
            key=lambda place: (not self._answers(agent, place), self._failing(account_of(place))),
            default=None,
        )

    def name_at(self, agent: str, place: ChatAddress) -> str:
        """Return the name that stands before what an agent says unasked in a conversation that others answer; elsewhere nothing."""
        if is_silent(place) or place.channel in CLIENT_CHANNELS or self._answers(agent, place):
            return ""
        found = self._agents.get(agent)
        return agent if found is None else found.profile.name

    def _answers(self, agent: str, place: ChatAddress) -> bool:
        return self._answering is None or agent in self._answering(place)

    async def own_place(self) -> ChatAddress | None:
        """The platform conversation in which the owner last wrote to an agent; else the one in which the owner was paired.

        One where sending fails at the moment is chosen only if there is no other.
        """
        heard = [place for place in reversed(self._heard.values()) if self._reachable(place)]
        if places := [*await self._places(), *heard]:
            return min(places, key=lambda place: self._failing(account_of(place)))
        return next(iter(await self._let_in()), None)

    def known_place(self) -> ChatAddress | None:
        """Return what ``place`` would as far as it is known without the ledger."""
        heard = [place for place in reversed(self._heard.values()) if self._reachable(place)]
        return next(iter(heard), self._found)

    def client_place(self) -> ChatAddress | None:
        """Return where somebody last wrote in a terminal or in the page; None if never."""
        records = [record for agent in self._agents.values() for record in agent.store.all()]
        found = [(record.spoken, place) for record in records if (place := read_address(record.address)) is not None]
        places = [place for _, place in sorted(found, key=lambda one: one[0]) if place.channel in CLIENT_CHANNELS - {API}]
        return places[-1] if places else None

    async def chats(self) -> list[ChatAddress]:
        """Return the owner's private conversations on platforms that are on: the latest of each account, latest first."""
        found: dict[str, ChatAddress] = {}
        for place in [*await self._places(), *reversed(self._heard.values()), *await self._let_in()]:
            if self._reachable(place):
                found.setdefault(account_of(place), place)
        return list(found.values())

    async def _let_in(self) -> list[ChatAddress]:
        """The conversations in which the owner was paired, by platform."""
        return [replace(one.conversation, thread=None) for one in await self._ledger.pairing.approved() if one.role == "owner"]

    async def _places(self, only: str | None = None) -> list[ChatAddress]:
        """The owner's private conversations, with one agent or all, by the sessions (which outlive the ledger), latest first."""
        approved = await self._ledger.pairing.approved()
        found = [
            ((number == 0, record.spoken, -number), place)
            for name, agent in self._agents.items()
            if only is None or name == only
            for record in agent.store.all()
            for number, address in enumerate((record.address, *record.elsewhere))
            if (place := read_address(address)) is not None
            and self._reachable(place)
            and (record.key == agent.main_key or (place.kind == "direct" and record.key in self._keys(name, place, approved)))
        ]
        return [place for _, place in sorted(found, key=lambda one: one[0], reverse=True)]

    def _reachable(self, place: ChatAddress) -> bool:
        return place.channel not in CLIENT_CHANNELS and account_of(place) in self._connected()


async def _nowhere(_agent: str | None) -> ChatAddress | None:
    return None


def read_address(address: str) -> ChatAddress | None:
    """Return the conversation of an address (``ChatAddress.address``); None for what is none."""
    try:
        return ChatAddress.parse(address)
    except ValueError:
        return None


class StartupNotices:
    """The notices; each is kept once."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self._waiting: list[str] = []
        self._say: Callable[[str], None] | None = None

    def tell(self, notice: str) -> None:
        """Add a notice for the log and the status."""
        log.warning(notice)
        if notice not in self.told:
            self.told.append(notice)

    def withdraw(self, notice: str) -> None:
        """Take a notice away that does not hold any more."""
        if notice in self.told:
            self.told.remove(notice)

    def report(self, notice: str) -> None:
        """Add a notice for the log, the status and the owner's chat."""
        if notice in self.told:
            return
        self.tell(notice)
        if self._say is None:
            self._waiting.append(notice)
        else:
            self._say(f"⚠️ {notice}")

    def begin(self, say: Callable[[str], None]) -> None:
        """Send the notices that waited until the chat was available."""
        self._say = say
        for notice in self._waiting:
            say(f"⚠️ {notice}")
        self._waiting.clear()


class DeliveryNotices:
    """Listener of the delivery. ``owner`` sends a line to the owner, which itself needs the delivery."""

    def __init__(self, notices: StartupNotices, owner: Callable[[], OwnerNotifications]) -> None:
        self._notices = notices
        self._owner = owner

    def refused(self, address: str, reason: str) -> None:
        """A message was rejected permanently. Told once per conversation: a group that removed the bot rejects everything."""
        self._notices.report(
            f"My message to {address} was rejected: {reason}. `/missed` in your chat and `homebody outbox list` show it."
        )

    def given_up(self, address: str, how: str) -> None:
        """A message could not be delivered. The conversation itself gets a list of missed messages later."""
        text = f"My message to {address} {how}. `homebody outbox list` shows it."
        self._notices.tell(text)
        self._owner().say_elsewhere(f"⚠️ {text}", address)

    def held(self, address: str, reason: str) -> None:
        """A message waits until its person writes. Told once per reason: the platform refuses every message until then."""
        text = f"My message to {address} waits: {reason}. `homebody outbox list` shows it."
        if text not in self._notices.told:
            self._notices.tell(text)
            self._owner().say_elsewhere(f"⚠️ {text}", address)

    def away(self, account: str, text: str) -> None:
        """Sending on an account has been failing for a while; ``homebody channels status`` shows it as long as it lasts."""
        log.warning(text)
        self._owner().say_elsewhere(f"⚠️ {text}", account)
