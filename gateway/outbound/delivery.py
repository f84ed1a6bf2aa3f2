"""Delivery: sends the outbox's messages in order, at most once where the platform reports the outcome."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from agent.timing import Clock
from channels.errors import NotSent, Uncertain
from channels.messages import CLIENT_CHANNELS, ChatAddress, Outbound, Sent
from channels.protocol import Channel
from gateway.base.errors import InvalidTransition, StorageFailed
from gateway.base.wait import run_despite_cancel, wait_until_set
from gateway.ledger.outbox_rows import OutboxLedger
from gateway.ledger.rows import HELD_RETRY, SHORT_WAIT, OutboxRow
from gateway.ledger.values import account_of
from gateway.logs.secret_filter import SecretFilter
from gateway.outbound.failed_sends import AccountHealth, AmbiguousSends, DeliveryListener, NoListener, answers, is_safe
from gateway.telemetry.recorder import Telemetry

log = logging.getLogger(__name__)

Noted = TypeVar("Noted")

LONGEST_PAUSE = 30.0
SHORTEST_PAUSE = 1.0
LONGEST_BACKOFF = 60.0
STORAGE_PAUSE = 5.0
SET_BACK = 2.0
"""Seconds that the system clock may go back before the ledger's times are adjusted."""


async def _nothing_to_do(_: Path) -> None:
    """Default file store: there is none."""


class Delivery:
    """Sends outbox chunks: at most one at a time per conversation, up to ``parallel`` conversations per account at once.

    Nothing is sent on an account before its channel is ready. A rejected chunk is retried with back-off until it expires, or given up
    if the rejection is permanent. A chunk with unknown outcome is resent where duplicates are impossible, otherwise according to
    ``gateway.outbound.failed_sends``, and only after the platform answers again. ``secret_filter`` redacts secrets. ``jitter`` returns a
    number from 0 to 1. ``zone`` is the owner's, for times that are shown. ``delivered`` is called for files that arrived, ``listener`` for
    messages that cannot be delivered; neither may raise.
    """

    def __init__(
        self,
        outbox: OutboxLedger,
        clock: Clock,
        *,
        jitter: Callable[[], float],
        parallel: int = 8,
        delivered: Callable[[Path], Awaitable[None]] | None = None,
        listener: DeliveryListener | None = None,
        secret_filter: SecretFilter | None = None,
        telemetry: Telemetry | None = None,
        zone: Callable[[], tzinfo | None] = lambda: None,
    ) -> None:
        self._zone = zone
        self._telemetry = telemetry or Telemetry()
        self._secret_filter = secret_filter
        self._outbox = outbox
        self._clock = clock
        self._jitter = jitter
        self._parallel = parallel
        self._delivered = delivered or _nothing_to_do
        self._listener: DeliveryListener = listener or NoListener()
        self.may_send: Callable[[str], bool] | None = None
        """Whether an account is this gateway's at this very moment, where several share them."""
        self.health = AccountHealth(clock, self._listener.away)
        self._doubts = AmbiguousSends(clock)
        self._wall = self._wall_ahead()
        self._channels: dict[str, Channel] = {}
        self._ready: set[str] = set()
        self._hurried: set[str] = set()
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._moved = asyncio.Condition()
        self._closing = False
        self._look_again = False
        """Whether more chunks may be due than the last pass started; the next pass starts when a conversation is finished."""
        self._settling = 0
        self._group: asyncio.TaskGroup | None = None
        outbox.on_outbound(self._queued)

    def attach(self, channel: Channel) -> None:
        """Add a channel. Sending starts when it is ready."""
        self._channels[f"{channel.name}:{channel.account}"] = channel

    def detach(self, channel: str, account: str) -> None:
        """Remove a channel: its messages wait until they expire."""
        self._channels.pop(f"{channel}:{account}", None)
        self._ready.discard(f"{channel}:{account}")

    async def let_go(self, channel: str, account: str, seconds: float) -> None:
        """Remove a channel; sends in progress may finish within ``seconds``."""
        self.detach(channel, account)
        under_way = [task for address, task in self._busy.items() if address.startswith(f"{channel}:{account}:")]
        if under_way:
            await asyncio.wait(under_way, timeout=seconds)

    def why_waits(self, row: OutboxRow) -> str:
        """Say why a chunk that is to be sent waits; "" where it is sent in a moment."""
        account, now = account_of(row.conversation), self._clock.now()
        if row.state == "sending":
            return ""
        if row.conversation.channel in CLIENT_CHANNELS:
            return "until somebody opens that conversation"
        if account not in self._channels:
            return f"no account {account} is connected (homebody channels status)"
        if account not in self._ready:
            return f"{account} does not answer yet (homebody channels status)"
        if line := self.health.line(account):
            return f"nothing could be sent on {account} {line}"
        return f"it is tried again at {row.not_before.astimezone(self._zone()):%H:%M:%S}" if row.not_before > now else ""

    def look(self) -> None:
        """Look for what is due, because another gateway queued something."""
        self._wake.set()

    def ready(self, channel: str, account: str) -> None:
        """The platform answers (again): start sending, and retry waiting messages now."""
        self._ready.add(f"{channel}:{account}")
        self._hurried.add(f"{channel}:{account}")
        self._wake.set()

    async def bounced(self, conversation: ChatAddress, platform_id: str, error: NotSent) -> bool:
        """Take back that a chunk was sent: the platform reports now that it was not delivered. Raises StorageFailed."""
        reason, address = error.in_full(), conversation.address
        if not await self._outbox.bounced(address, platform_id, reason, hold=error.held):
            return False
        log.warning("a message to %s was taken, but not delivered: %s", address, reason)
        (self._listener.held if error.held else self._listener.refused)(address, reason)
        return True

    async def run(self) -> None:
        """Send until cancelled or drained."""
        try:
            async with asyncio.TaskGroup() as self._group:
                while not self._closing:
                    self._wake.clear()
                    pause = STORAGE_PAUSE
                    try:
                        pause = await self._send_due()
                    except StorageFailed as error:
                        log.warning("the outbox cannot be read: %s", error)
                    async with self._moved:
                        self._moved.notify_all()
                    await wait_until_set(self._wake, self._clock, pause)
        finally:
            self._group = None

    async def settled(self) -> None:
        """Wait until every chunk that is due now was tried."""
        self._settling += 1
        try:
            async with self._moved:
                while True:
                    if not self._busy and not self._hurried:
                        if not await self._outbox.due(self._open_accounts(), limit=1):
                            return
                        self._wake.set()
                    await self._moved.wait()
        finally:
            self._settling -= 1

    async def drain(self, seconds: float) -> None:
        """Send due chunks for at most ``seconds``, then end ``run``. An interrupted send has an unknown outcome."""
        try:
            async with asyncio.timeout(seconds):
                await self.settled()
        except TimeoutError:
            log.warning("%d messages were still being sent at the end", len(self._busy))
        self._closing = True
        self._wake.set()
        for task in self._busy.values():
            task.cancel()

    def _open_accounts(self) -> list[str]:
        return sorted(self._ready & self._channels.keys())

    def _queued(self, due: Sequence[OutboxRow] | None) -> None:
        """Start what was queued and is due; what cannot start now is left to the next pass, and so is what is not known."""
        if due is None or self._wall - self._wall_ahead() > SET_BACK:
            self._wake.set()
            return
        for row in due:
            if not self._started(row):
                self._wake.set()

    def _started(self, row: OutboxRow) -> bool:
        """Start sending a chunk, unless its conversation is being sent to or its account has no free place."""
        address, account = row.conversation.address, account_of(row.conversation)
        open_ = account in self._ready and account in self._channels and account not in self._hurried
        if self._group is None or self._closing or not open_ or address in self._busy:
            return False
        if self._busy_on(account) >= self._parallel:
            return False
        self._busy[address] = self._group.create_task(self._converse(address, row), name=f"delivery {address}")
        return True

    async def _send_due(self) -> float:
        """Start all due sends; return the seconds until the next one is due."""
        for account in list(self._hurried):
            await self._outbox.retry_now(account)
            self._hurried.discard(account)
        await self._mind_the_clock()
        free = {account: self._parallel - self._busy_on(account) for account in self._open_accounts()}
        limit = 2 * self._parallel
        look = await self._outbox.poll([account for account, places in free.items() if places > 0], limit=limit)
        for address in look.given_up:
            self._listener.given_up(address, "could not be delivered in time")
        self._look_again = len(look.due) >= limit or min(free.values(), default=1) <= 0
        for row in look.due:
            if not self._started(row):
                self._look_again = True
        if look.next is None:
            return LONGEST_PAUSE
        return min(LONGEST_PAUSE, max(SHORTEST_PAUSE, (look.next - self._clock.now()).total_seconds()))

    def _busy_on(self, account: str) -> int:
        return sum(address.startswith(f"{account}:") for address in self._busy)

    def _wall_ahead(self) -> float:
        return self._clock.now().timestamp() - self._clock.monotonic()

    async def _mind_the_clock(self) -> None:
        """Adjust the ledger's times, which are those of the system clock, when that clock was set back."""
        ahead = self._wall_ahead()
        if self._wall - ahead > SET_BACK:
            log.warning("the clock was set back by %.0f seconds", self._wall - ahead)
            await self._outbox.clock_set_back(self._wall - ahead)
        self._wall = ahead

    async def _converse(self, address: str, row: OutboxRow) -> None:
        """Send a conversation's chunks one after the other, as long as one is due."""
        following: OutboxRow | None = row
        try:
            while following is not None and not self._closing:
                channel = self._channels.get(account_of(following.conversation))
                if channel is None:
                    return
                following = await self._attempt(channel, following)
                if following is not None and following.conversation.address != address:  # the place moved meanwhile
                    self._look_again, following = True, None
        except InvalidTransition as error:  # somebody dropped the chunk meanwhile: what they did stands
            log.info("a chunk changed its state meanwhile: %s", error)
            self._look_again = True
        except StorageFailed as error:
            log.warning("the outbox cannot be used: %s", error)
            self._look_again = True
            await self._clock.sleep(STORAGE_PAUSE)
        except Exception:  # one chunk must not end the delivery of all
            log.exception("unexpected error while a message to %s was sent", address)
            await self._put_off(following or row)
            self._look_again = True
        finally:
            self._busy.pop(address, None)
            if self._look_again or self._settling or self._closing:
                self._wake.set()

    async def _attempt(self, channel: Channel, row: OutboxRow) -> OutboxRow | None:
        """Send a chunk; return the conversation's next due chunk."""
        from gateway.outbound.replying import render, without_secrets

        address, restarted = row.conversation.address, row.doubts > 0 and not self._doubts.began_here(row)
        if row.doubts and not is_safe(channel, row) and not await self._answers(channel, row):
            return await self._outbox.due_in(address)
        pace: Any = getattr(channel, "paced", None)
        if pace is not None:
            await pace(row.conversation)
        row = await self._outbox.sending(row.id)
        noted = row.recorded is not None

        async def record(text: str) -> None:
            nonlocal noted
            await self._outbox.recorded(row.id, text)
            noted = True

        shown = partial(render, channel, row, restarted=restarted)
        outbound = shown() if row.enclosure is None else await asyncio.to_thread(shown)
        if (filter_ := self._secret_filter) is not None:
            outbound = without_secrets(outbound, lambda text: filter_.text(text, address))
        try:
            sent = await self._timed(channel, outbound, record)
        except NotSent as refusal:
            await self._refused(row, refusal)
        except asyncio.CancelledError:
            await asyncio.shield(self._outbox.ambiguous(row.id, self._clock.now()))
            raise
        except Exception as error:  # noqa: BLE001  (a channel raises nothing but Uncertain here; a defect in it leaves the same doubt)
            await self._doubted(channel, row, error, noted=noted)
        else:
            self.health.worked(account_of(row.conversation))
            self._doubts.over(row, sent=True)
            following = await self._surely(lambda: self._outbox.sent(row.id, sent.platform_id))
            for path in row.enclosure.paths if row.enclosure is not None else ():
                await self._delivered(path)
            return following
        return await self._outbox.due_in(address)

    async def _timed(self, channel: Channel, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:
        """Send, and measure it. Raises Uncertain where another gateway may have the account by now: that one decides about the chunk."""
        if self.may_send is not None and not self.may_send(account_of(outbound.conversation)):
            raise Uncertain("another gateway may have this account by now")
        began, outcome = self._telemetry.monotonic(), "ambiguous"
        try:
            sent = await channel.send(outbound, record)
            outcome = "sent"
        except NotSent:
            outcome = "refused"
            raise
        finally:
            seconds = self._telemetry.monotonic() - began
            self._telemetry.delivered(channel.name, outcome, seconds, outbound.turn or "", outbound.key)
        return sent

    async def _answers(self, channel: Channel, row: OutboxRow) -> bool:
        """Check whether the platform answers (again), before a chunk that may have arrived is resent."""
        try:
            if await answers(channel, row):
                return True
        except Exception:  # whatever is wrong with the asking, the message itself may still go
            log.exception("unexpected error in channel %s", channel.name)
            return True
        self.health.failed(account_of(row.conversation), f"{channel.name} does not answer")
        await self._outbox.postpone(row.id, self._later(self._doubts.unanswered(row)))
        return False

    async def _refused(self, row: OutboxRow, refusal: NotSent) -> None:
        account = account_of(row.conversation)
        if refusal.permanent:
            reason = refusal.in_full()
            self.health.worked(account)
            self._doubts.over(row)
            log.warning("a message to %s was rejected permanently: %s", row.conversation.address, reason)
            await self._surely(lambda: self._outbox.dead(row.id, reason))
            self._listener.refused(row.conversation.address, reason)
            return
        if refusal.held:
            self.health.worked(account)
            self._doubts.over(row)
            at = self._clock.now() + HELD_RETRY
            await self._surely(lambda: self._outbox.hold(row.id, at))
            self._listener.held(row.conversation.address, refusal.in_full())
            return
        firm = refusal.retry_after is not None
        if not firm:
            self.health.failed(account, refusal.in_full())
        wait = refusal.retry_after if refusal.retry_after is not None else self._backoff(row.attempt)
        at = self._clock.now() + timedelta(seconds=wait)
        if firm and timedelta(seconds=wait) > SHORT_WAIT:
            until = at.astimezone(self._zone()).isoformat(timespec="seconds")
            log.warning("%s asks to wait until %s before anything is sent to %s", account, until, row.conversation.address)
        await self._surely(lambda: self._outbox.retry_later(row.id, at, firm=firm))

    async def _doubted(self, channel: Channel, row: OutboxRow, error: Exception, *, noted: bool) -> None:
        """Schedule a retry. Where duplicates would show, or others go through, retries are limited; then person and owner are told."""
        if not isinstance(error, Uncertain):
            log.error("unexpected error in channel %s", channel.name, exc_info=error)
        self.health.failed(account_of(row.conversation), str(error))
        wait, safe = self._doubts.note(row), noted or is_safe(channel, row)
        if self._doubts.is_alone(row):
            await self._settled_alone(row, error)
            return
        if safe or not self._doubts.enough(row):
            at = self._clock.now() + timedelta(seconds=self._backoff(row.attempt)) if safe else self._later(wait)
            await self._surely(lambda: self._outbox.ambiguous(row.id, at))
            return
        log.warning("a message to %s may have arrived and is not sent again: %s", row.conversation.address, error)
        await self._surely(lambda: self._outbox.dead(row.id, f"may have arrived: {error}", tell=True))
        self._listener.given_up(row.conversation.address, "may or may not have arrived, and is not sent again")

    async def _put_off(self, row: OutboxRow) -> None:
        """Let a chunk be tried again later, wherever its sending stopped: in doubt if it had begun."""
        at = self._later(LONGEST_BACKOFF)
        for note in (self._outbox.ambiguous, self._outbox.postpone):
            try:
                await note(row.id, at)
            except InvalidTransition:
                continue
            except StorageFailed as error:
                log.warning("the outbox cannot be used: %s", error)
                await self._clock.sleep(STORAGE_PAUSE)
            return

    async def _settled_alone(self, row: OutboxRow, error: Exception) -> None:
        """Give up a message on which the platform fails for good, for those behind it. A notice tells whom it was for how to get it."""
        log.warning("a message to %s is given up: it fails while others go through: %s", row.conversation.address, error)
        self._doubts.over(row)
        await self._surely(lambda: self._outbox.dead(row.id, f"fails while others go through: {error}", tell=True))
        self._listener.given_up(row.conversation.address, "failed again and again while other messages went through")

    async def _surely(self, note: Callable[[], Coroutine[Any, Any, Noted]]) -> Noted:
        """Store the outcome of a send, because it has happened: again on a full disk, and once more when cancelled meanwhile.

        A cancelled call may have stored it: then the row has left the state "sending", and the second call changes nothing.
        """
        while True:
            try:
                return await note()
            except asyncio.CancelledError:
                with contextlib.suppress(InvalidTransition, StorageFailed):
                    await run_despite_cancel(note())
                raise
            except StorageFailed as error:
                log.warning("the outcome of a send cannot be stored yet: %s", error)
                await self._clock.sleep(STORAGE_PAUSE)

    def _backoff(self, attempt: int) -> float:
        """Seconds to wait after a failed attempt: doubling from 1 s to 60 s, minus up to half at random."""
        return self._shortened(min(LONGEST_BACKOFF, 2.0 ** min(attempt - 1, 10)))

    def _later(self, seconds: float) -> datetime:
        return self._clock.now() + timedelta(seconds=self._shortened(seconds))

    def _shortened(self, seconds: float) -> float:
        return seconds * (0.5 + 0.5 * self._jitter())
