"""Block streaming: sends parts of an answer before the turn ends, each exactly once, even across crashes.

A sent block cannot be recalled, so it is written to the transcript before it is queued: text before tool calls when it is complete,
and a part of an unfinished answer as such (``agent.loop.streaming``); after a crash, that part is what remains of the answer. The
blocks are derived from the transcript (``gateway.outbound.pieces``) and keyed by the turn and their position in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial

from agent.errors import TranscriptWriteError
from agent.events import AnswerFinished, Event
from agent.loop.streaming import AnswerStream
from agent.timing import Clock
from agent.transcript.entries import Entry, SentPart
from agent.transcript.transcript import Transcript
from channels.protocol import Channel
from gateway.base.errors import StorageFailed
from gateway.ledger.protocol import Ledger
from gateway.ledger.rows import NewOutbound
from gateway.outbound.block_writer import BlockWriter
from gateway.outbound.pieces import Piece, left_of, pieces
from gateway.outbound.replying import replies
from gateway.outbound.secret_filter import SecretFilter
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
        held: SecretFilter | None = None,
    ) -> None:
        self._held = held
        self._ledger = ledger
        self._channel = channel
        self._arrived = arrived
        self._turn = turn
        self._manner = manner
        self._signature = signature
        self._greeting = greeting
        self._transcript: Transcript | None = None
        self._news = asyncio.Event()
        self._queued: set[str] = set()
        self._queueing = asyncio.Lock()
        self._writing = BlockWriter(manner, clock, self._keep) if manner.sent == "written" else None

    @property
    def speaker(self) -> AnswerStream:
        """The listener for streamed answers."""
        return self._writing or AnswerStream()

    @property
    def begun(self) -> bool:
        """Whether any block was sent before the end of the turn."""
        return bool(self._queued)

    @contextlib.asynccontextmanager
    async def sending(self, transcript: Transcript, emit: Callable[[Event], None]) -> AsyncIterator[Callable[[Event], None]]:
        """Send blocks while the context is active, and the rest when it ends without an error. Yields a wrapper of ``emit``."""
        self._transcript = transcript

        def heard(event: Event) -> None:
            emit(event)
            if isinstance(event, AnswerFinished):
                self._news.set()

        if self._pieces(whole=False):  # a life before this one began to speak
            self._greeting = ""
            await self._try_to_send()
        tasks = [asyncio.create_task(self._keep_sending())] if self._manner.sent != "whole" else []
        tasks += [asyncio.create_task(self._writing.run())] if self._writing is not None else []
        try:
            yield heard
        finally:
            for task in tasks:
                task.cancel()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, Exception):
                    log.error("unexpected error in block streaming", exc_info=outcome)
        await self._send(whole=True)

    def left_of(self, reply: str) -> tuple[str, bool]:
        """Return the unsent rest of the turn's last answer, and whether a part of it was sent already."""
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
            for piece in self._pieces(whole=whole):
                if piece.place in self._queued:
                    continue
                text = self._signature + piece.text if piece.begins else piece.text
                cut = partial(replies, self._channel, self._arrived, knows=self._ledger.inbox.knows, held=self._held)
                rows = await cut(text, continued=not piece.begins)
                before = [] if self._queued else await cut(self._greeting)
                await self._ledger.outbox.enqueue_for_turn(
                    self._turn, [*self._named("g", before), *self._named(f"b{piece.place}", rows)]
                )
                self._queued.add(piece.place)

    def _named(self, name: str, rows: list[NewOutbound]) -> list[NewOutbound]:
        return [replace(row, key=f"{self._arrived.row.uid}.{name}.{number}") for number, row in enumerate(rows)]
