"""Speaking to the owner of the house unasked: what is broken, what was set aside, what costs too much."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from channels.messages import ChatAddress
from gateway.base.errors import StorageFailed
from gateway.ledger.rows import NewOutbound
from gateway.ledger.values import account_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence

    from gateway.agents.running_agent import RunningAgent
    from gateway.ledger.protocol import Ledger
    from gateway.ledger.rows import ApprovedSender
    from gateway.routing.routed_message import RoutedMessage

log = logging.getLogger(__name__)

MOST_UNSAID = 20
"""Lines kept for a ledger that takes none; the log has them all."""


class OwnerNotifications:
    """Finds where the owner was last spoken with, and says things there through the outbox.

    ``connected`` gives the accounts that are not off for good, ``failing`` says whether sending on one fails at the moment, ``attached``
    whether somebody has a terminal's conversation open. ``keys`` gives the session keys under which the owner speaks with an agent in a
    conversation; what was never said in an agent's main session is found by them.
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
    ) -> None:
        self._ledger = ledger
        self._failing = failing
        self._attached = attached
        self._keys = keys
        self._heard: dict[str, ChatAddress] = {}
        self._agents = agents
        self._connected = connected
        self._tasks: set[asyncio.Task[None]] = set()
        self._unsaid: deque[str] = deque(maxlen=MOST_UNSAID)
        self._waiting: deque[str] = deque(maxlen=MOST_UNSAID)
        self._in_order = asyncio.Lock()

    def heard(self, arrived: RoutedMessage) -> None:
        """Note where the owner speaks in private, on each account: one of them may work when another does not.

        What could be said nowhere until now is said there.
        """
        place = arrived.inbound.conversation
        if arrived.actor.owner and place.kind == "direct":
            account = account_of(place)
            self._heard.pop(account, None)
            self._heard[account] = place
            if self._unsaid and place.channel != "terminal":
                self._do(self._say_rest())

    def say(self, text: str, *, waits: bool = False) -> None:
        """Queue a line for the owner; without a place to say it, it is only logged, or, if it ``waits``, said when the owner next writes.

        What the ledger cannot take is said before the next line that it can.
        """
        if waits:
            self._waiting.append(text)
        self._do(self._say(text))

    def say_elsewhere(self, text: str, address: str) -> None:
        """Queue a line about trouble at an address, or on an account, if there is another place that works."""
        self._do(self._say_elsewhere(text, address))

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _say_elsewhere(self, text: str, address: str) -> None:
        with contextlib.suppress(StorageFailed):  # it is in the log
            for place in [*await self._places(), *reversed(self._heard.values()), *await self._let_in()]:
                if self._works(place) and not f"{place.address}:".startswith(f"{address}:"):
                    await self._ledger.outbox.enqueue([NewOutbound(conversation=place, text=text)])
                    return

    def _works(self, place: ChatAddress) -> bool:
        if place.channel == "terminal":
            return self._attached(place)
        return account_of(place) in self._connected() and not self._failing(account_of(place))

    async def _say(self, text: str) -> None:
        try:
            await self.tell(text)
        except StorageFailed as error:
            log.warning("the owner could not be told %r yet: %s", text, error)

    async def tell(self, text: str) -> None:
        """The same, for who must know whether it is written down: raises StorageFailed where it is not, yet."""
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
                await self._ledger.outbox.enqueue([NewOutbound(conversation=place, text=one) for one in texts])
                for one in texts:
                    if one in self._waiting:
                        self._waiting.remove(one)
            for one in texts:
                if one in self._unsaid and one not in self._waiting:
                    self._unsaid.remove(one)

    async def place(self) -> ChatAddress | None:
        """The platform conversation in which the owner spoke with an agent last; else where the owner was paired.

        A place where sending fails at the moment is taken only when there is no other.
        """
        heard = [place for place in reversed(self._heard.values()) if self._reachable(place)]
        if places := [*await self._places(), *heard]:
            return min(places, key=lambda place: self._failing(account_of(place)))
        return next(iter(await self._let_in()), None)

    async def _let_in(self) -> list[ChatAddress]:
        """Where the owner asked to be let in, on each platform."""
        return [replace(one.conversation, thread=None) for one in await self._ledger.pairing.approved() if one.role == "owner"]

    async def _places(self) -> list[ChatAddress]:
        """Where the sessions say that the owner spoke in private, the last one first. They outlive the ledger."""
        approved = await self._ledger.pairing.approved()
        found = [
            (record.spoken, place)
            for name, agent in self._agents.items()
            for record in agent.store.all()
            if (place := read_address(record.address)) is not None
            and self._reachable(place)
            and (record.key == agent.main_key or (place.kind == "direct" and record.key in self._keys(name, place, approved)))
        ]
        return [place for _, place in sorted(found, key=lambda one: one[0], reverse=True)]

    def _reachable(self, place: ChatAddress) -> bool:
        return place.channel != "terminal" and account_of(place) in self._connected()


def read_address(address: str) -> ChatAddress | None:
    """Return the conversation of an address (``ChatAddress.address``); None for what is none."""
    try:
        return ChatAddress.parse(address)
    except ValueError:
        return None
