"""Block streaming: sends parts of an answer before the turn ends, each exactly once, even across crashes.

A sent block cannot be recalled, so it is written to the transcript before it is queued: text before tool calls when it is complete,
and a part of an unfinished answer as such (``agent.loop.model_call``); after a crash, that part is what remains of the answer. The
blocks are derived from the transcript (``pieces``) and keyed by the entry that completes each, so that a replay after a crash yields the
same blocks and each is queued once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random as system_random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from agent import no_reply
from agent.errors import TranscriptWriteError
from agent.events import AnswerFinished, Event
from agent.messages import AssistantMessage
from agent.timing import Clock
from agent.transcript.entries import Entry, Said, SentPart
from agent.transcript.transcript import Transcript
from channels.common.stream_splitter import Limits, alone, next_piece, reopening
from channels.protocol import Channel
from gateway.base.errors import StorageFailed
from gateway.base.wait import finish_despite_cancel, wait_until_set
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import NewOutbound
from gateway.logs.secret_filter import SecretFilter
from gateway.outbound.replying import LONGEST, may_end, replies, shown
from gateway.routing.routed_message import RoutedMessage
from gateway.settings.block_streaming import Manner

log = logging.getLogger(__name__)


class Blocks:
    """The blocks of one turn. ``turn`` is its id in the ledger; in the transcript the turn has the message's id.

    ``greeting`` is put before the first block, ``signature`` at the beginning of each answer.
    """

    def __init__(
        self,
        ledger: Ledger,
        channel: Channel,
        arrived: RoutedMessage,
        turn: str,
        manner: Manner,
        *,
        clock: Clock,
        signature: str = "",
        greeting: str = "",
        secret_filter: SecretFilter | None = None,
        random: Callable[[], float] = system_random.random,
    ) -> None:
        self._clock = clock
        self._random = random
        self._secret_filter = secret_filter
        self._ledger = ledger
        self._channel = channel
        self._arrived = arrived
        self._turn = turn
        self._manner = manner
        self._signature = signature
        self.greeting = greeting
        """What is put before the first block, or before the whole reply where no block was sent."""
        self._transcript: Transcript | None = None
        self._news = asyncio.Event()
        self._queued: set[str] = set()
        self.begun = False
        """Whether any block was sent before the end of the turn."""
        self._speaks = manner.sent != "whole"
        """Whether anything is sent of the turn before its end, or was in a life before this one."""
        self._queueing = asyncio.Lock()
        self.said = ""
        """What was sent of the turn's answers before its end."""
        safe_end = None if secret_filter is None else secret_filter.safe_end
        self.writing = BlockWriter(manner, clock, self._keep, safe_end) if manner.sent == "written" else None

    def greet(self, *lines: str) -> None:
        """Put lines behind the greeting. Called before anything is sent."""
        self.greeting = "\n\n".join(filter(None, (self.greeting, *lines)))

    @contextlib.asynccontextmanager
    async def sending(self, transcript: Transcript, emit: Callable[[Event], None]) -> AsyncIterator[Callable[[Event], None]]:
        """Send blocks while the context is active, and the rest when it ends without an error. Yields a wrapper of ``emit``."""
        self._transcript = transcript
        self._speaks = self._speaks or transcript.latest(SentPart) is not None
        if not self._speaks:
            yield emit
            return

        def heard(event: Event) -> None:
            emit(event)
            if isinstance(event, AnswerFinished):
                self._news.set()

        in_parts = self._manner.sent != "whole"
        if self._pieces(whole=False):  # a life before this one began to speak
            self.greeting = ""
            await self._try_to_send()
        tasks = [asyncio.create_task(self._keep_sending())] if in_parts else []
        tasks += [asyncio.create_task(self.writing.run())] if self.writing is not None else []
        try:
            yield heard if in_parts else emit
        finally:
            for task in tasks:
                task.cancel()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, Exception):
                    log.error("unexpected error in block streaming", exc_info=outcome)
        await self._send(whole=True)

    async def pause(self) -> None:
        """Wait before a further block, as the settings say. Not before the first."""
        shortest, longest = self._manner.pause
        if self.begun and longest > 0:
            await self._clock.sleep(shortest + (longest - shortest) * self._random())

    def left_of(self, reply: str) -> tuple[str, bool]:
        """Return the unsent rest of the turn's last answer, and whether a part of it was sent already."""
        if not self._speaks:
            return reply, False
        return left_of(reply, self._entries(), finished=self._manner.sent != "whole")

    def _entries(self) -> list[Entry]:
        return [] if self._transcript is None else self._transcript.of_turn(self._arrived.row.uid)

    def _pieces(self, *, whole: bool) -> list[Piece]:
        return pieces(self._entries(), self._manner.least, finished=self._manner.sent != "whole", whole=whole)

    async def _keep_sending(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            await self._try_to_send()

    async def _keep(self, ahead: SentPart) -> bool:
        """Store a part of an unfinished answer and queue it. Returns whether it was stored."""
        assert self._transcript is not None
        try:
            await self._transcript.append(self._arrived.row.uid, ahead)
        except TranscriptWriteError as error:  # the answer is in time when it is finished
            log.warning("a part of an answer could not be stored: %s", error)
            return False
        await self._try_to_send()
        return True

    async def _try_to_send(self) -> None:
        try:
            await self._send(whole=False)
        except StorageFailed as error:  # it is tried again at the next piece, and at the end of the turn
            log.warning("a block of a reply could not be queued: %s", error)

    async def _send(self, *, whole: bool) -> None:
        async with self._queueing:
            said = ""
            for piece in self._pieces(whole=whole):
                said, before_it = said + piece.text, said
                if piece.place in self._queued:
                    continue
                text = self._signature + piece.text if piece.begins else piece.text
                cut = partial(
                    replies, self._channel, self._arrived, knows=self._ledger.inbox.knows, secret_filter=self._secret_filter
                )
                await self.pause()
                rows = await cut(text, continued=not piece.begins, before=before_it)
                before = [] if self.begun else await cut(self.greeting)
                await self._ledger.outbox.enqueue_for_turn(
                    self._turn, [*self._named("g", before), *self._named(f"b{piece.place}", rows)]
                )
                self._queued.add(piece.place)
                self.begun = True
                self.said = said

    def _named(self, name: str, rows: list[NewOutbound]) -> list[NewOutbound]:
        return [replace(row, key=f"{self._arrived.row.uid}.{name}.{number}") for number, row in enumerate(rows)]


_NO_ANSWERS = frozenset({"cut", "cancelled", "error", "overflow"})


class Piece(Struct, frozen=True):
    """A block to send. ``place``: its entry's index in the turn; ``begins``: whether it is the first of an answer."""

    place: str
    text: str
    begins: bool = True


def pieces(entries: Iterable[Entry], least: int, *, finished: bool, whole: bool) -> list[Piece]:
    """Return the blocks of a turn: stored parts of its answers and, with ``finished``, the text before tool calls.

    Blocks shorter than ``least`` characters are joined with the next one, unless ``whole``. More entries only add blocks, as long as
    ``whole`` is set only at the end.
    """
    found: list[Piece] = []
    held, place, ahead = "", "0", ""
    for entry in entries:
        match entry.body:
            case SentPart(text=text, opening=opening, closing=closing):
                shown = _below(held, alone(text, opening, closing))
                found.append(Piece(_place(entry), shown, begins=not ahead or bool(held)))
                held, ahead = "", ahead + text
            case Said(message=AssistantMessage() as message):
                if finished and message.calls and message.failure is None and message.stop not in _NO_ANSWERS:
                    begun, place = bool(ahead), _place(entry)
                    held = _below(held, _rest(no_reply.without_no_reply(message.text), ahead).strip())
                    if held and len(held) >= least:
                        found.append(Piece(place, held, begins=not begun))
                        held = ""
                ahead = ""
    return [*found, Piece(place, held)] if whole and held else found


def left_of(reply: str, entries: Iterable[Entry], *, finished: bool) -> tuple[str, bool]:
    """Return the unsent rest of a turn's last answer, and whether a part of it was sent."""
    last, ahead, begun = None, "", ""
    for entry in entries:
        if isinstance(entry.body, SentPart):
            ahead += entry.body.text
        elif isinstance(entry.body, Said):
            if isinstance(entry.body.message, AssistantMessage):
                last, begun = entry.body.message, ahead
            ahead = ""
    if last is None or last.failure is not None or last.stop in _NO_ANSWERS:
        return reply, False
    if finished and last.calls:  # it ended for want of further calls, and was sent as what is said before tools
        begun = no_reply.without_no_reply(last.text).strip()
    return (_rest(reply, begun), True) if begun else (reply, False)


def unsent(whole: str, sent: str) -> str:
    """Return the part of a text after what was sent. The streamed text may differ from the whole in white space."""
    if whole.startswith(sent):
        return whole[len(sent) :]
    end = 0
    for letter in sent:
        if letter.isspace():
            continue
        while end < len(whole) and whole[end].isspace():
            end += 1
        if end == len(whole) or whole[end] != letter:
            break  # it was streamed otherwise than it was said: rather twice than never
        end += 1
    return whole[end:]


def _rest(whole: str, sent: str) -> str:
    """The same as a separate message: a code block that continues is opened again."""
    left = unsent(whole, sent)
    return alone(left, reopening(sent), "") if left.strip() else ""


def _place(entry: Entry) -> str:
    return entry.id.rpartition(":")[2]


def _below(upper: str, lower: str) -> str:
    return "\n\n".join(filter(None, [upper, lower]))


class BlockWriter:
    """Splits streamed text into blocks. ``keep`` stores and sends a block; it does not raise, and returns whether it did.

    ``safe_end`` returns up to where a text can be sent that may go on: no block ends within a secret.
    The text comes from ``agent.no_reply.Gate``, so it can no longer become NO_REPLY, except after a tag.
    """

    def __init__(
        self,
        manner: Manner,
        clock: Clock,
        keep: Callable[[SentPart], Awaitable[bool]],
        safe_end: Callable[[str], int] | None = None,
    ) -> None:
        self._safe_end = safe_end or len
        self._manner = manner
        self._clock = clock
        self._keep = keep
        self._text = ""
        self._sent = 0
        self._opening = ""
        self._refused = False
        self._news = asyncio.Event()
        self._sending = asyncio.Lock()

    def hear(self, text: str) -> None:
        """See ``agent.loop.model_call.AnswerStream``."""
        self._text += text
        self._news.set()

    async def stop(self) -> None:
        """See ``agent.loop.model_call.AnswerStream``. A block that is being stored is finished first."""
        async with self._sending:
            self._text, self._sent, self._opening, self._refused = "", 0, "", False
            self._news.clear()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            resting = not await self._heard_in_time()
            async with self._sending:
                while (piece := self._next(resting=resting)) is not None:
                    if not await finish_despite_cancel(self._kept(piece)) or _cancelled():
                        break
            if resting:
                await self._news.wait()

    async def _heard_in_time(self) -> bool:
        """Wait for more text; return whether it came before the idle time-out."""
        if not self._text:
            await self._news.wait()
        try:
            return await wait_until_set(self._news, self._clock, self._manner.idle)
        finally:
            self._news.clear()

    async def _kept(self, piece: SentPart) -> bool:
        if await self._keep(piece):
            self._sent += len(piece.text)
            self._opening = reopening(self._text[: self._sent])
            return True
        self._refused = True  # the rest of this answer comes when it is whole
        return False

    def _next(self, *, resting: bool) -> SentPart | None:
        """Return the next block that can be sent."""
        text = self._text[self._sent :]
        limits = self._manner.limits
        if resting:
            limits = Limits(self._manner.resting, limits.most, limits.prefer)
        if self._refused or len(text) < limits.least:
            return None
        before = min(self._sent, LONGEST)
        may = may_end(self._text[self._sent - before :])
        found = next_piece(
            text,
            limits,
            self._opening,
            resting=resting,
            allowed=lambda place: may(before + place) and self._shows(place) and self._is_safe(place),
        )
        return None if found is None else SentPart(text=found.text, opening=found.opening, closing=found.closing)

    def _is_safe(self, place: int) -> bool:
        """Whether no secret may begin in what would be sent and go on behind it."""
        sent = self._text[: self._sent + place]
        return self._safe_end(sent) == len(sent)

    def _shows(self, place: int) -> bool:
        """Whether a block has visible text: a tag alone has none, and text after a tag may still become NO_REPLY."""
        return bool(shown(self._text[: self._sent + place]).strip()) if self._sent == 0 else True


def _cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
