"""What an agent says between its tools, sent while it goes on working: each piece once, whatever happens in between.

Only finished answers are sent, because only they are kept: an answer that a crash cuts off in the middle is made anew, and
nobody could take back what was sent of the first. The pieces are worked out from the transcript and named after the turn and
their place in it, so that a repeat after a crash queues nothing for the second time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from agent import silence
from agent.entries import Said
from agent.events import AnswerFinished
from agent.messages import AssistantMessage
from gateway.errors import StorageFailed
from gateway.outbound.replying import replies

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from agent.entries import Entry
    from agent.events import Event
    from agent.transcript import Transcript
    from channels.protocol import Channel
    from gateway.inbound.arrived import Arrived
    from gateway.ledger.protocol import Ledger

log = logging.getLogger(__name__)


class BlockSettings(BaseModel):
    """Sending what an agent says between its tools as messages, while it works on."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore", use_attribute_docstrings=True
    )

    enabled: bool = False
    """Whether it is done; otherwise such words are seen in the preview only."""
    by_channel: dict[str, bool] = Field(default_factory=dict)
    """Other such choices by channel, such as ``{telegram: true}``."""
    min_chars: Annotated[int, Field(ge=0, le=10_000)] = 80
    """Characters that a message has at least: shorter words wait for the next ones, or for the end."""

    def on(self, channel: str) -> bool:
        """Say whether it is done on a channel."""
        return self.by_channel.get(channel, self.enabled)


class Blocks:
    """The pieces of one turn. ``turn`` is its name in the ledger; in the transcript it is named after the message."""

    def __init__(
        self,
        ledger: Ledger,
        channel: Channel,
        arrived: Arrived,
        *,
        transcript: Transcript,
        turn: str,
        settings: BlockSettings,
    ) -> None:
        self._ledger = ledger
        self._channel = channel
        self._arrived = arrived
        self._transcript = transcript
        self._turn = turn
        self._settings = settings
        self._news = asyncio.Event()
        self._sent = 0

    @contextlib.asynccontextmanager
    async def sending(self, emit: Callable[[Event], None]) -> AsyncIterator[Callable[[Event], None]]:
        """Send while the block runs, and what is left when it ended well. Gives what takes the turn's events before ``emit``."""

        def heard(event: Event) -> None:
            emit(event)
            if isinstance(event, AnswerFinished):
                self._news.set()

        if not self._settings.on(self._channel.name):
            yield emit
            return
        task = asyncio.create_task(self._keep_sending())
        try:
            yield heard
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._send(whole=True)

    async def _keep_sending(self) -> None:
        while True:
            try:
                await self._send(whole=False)
            except StorageFailed as error:  # it is tried again at the next piece, and at the end of the turn
                log.warning("a piece of a reply could not be queued: %s", error)
            await self._news.wait()
            self._news.clear()

    async def _send(self, *, whole: bool) -> None:
        pieces = joined(self._transcript.of_turn(self._arrived.row.uid), self._settings.min_chars, whole=whole)
        for number, text in list(enumerate(pieces))[self._sent :]:
            rows = await replies(self._channel, self._arrived, text, knows=self._ledger.knows)
            named = [replace(row, key=f"{self._arrived.row.uid}.{number}.{n}") for n, row in enumerate(rows)]
            await self._ledger.say(self._turn, named)
            self._sent = number + 1


def joined(entries: Iterable[Entry], least: int, *, whole: bool) -> list[str]:
    """Return what was said between tools, in pieces of ``least`` characters or more; with ``whole`` also what is left then.

    More entries only ever add pieces, as long as ``whole`` waits for the end.
    """
    pieces, held = [], ""
    for entry in entries:
        message = entry.body.message if isinstance(entry.body, Said) else None
        if not isinstance(message, AssistantMessage) or not message.calls or message.failure is not None:
            continue
        held = "\n\n".join(filter(None, [held, silence.spoken(message.text).strip()]))
        if held and len(held) >= least:
            pieces.append(held)
            held = ""
    return [*pieces, held] if whole and held else pieces
