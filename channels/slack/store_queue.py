"""Stores what Slack sends, and how far it was read; what could not be stored is offered again."""

from __future__ import annotations

from collections.abc import Sequence

from channels.common.backoff import Backoff
from channels.common.batched_store import BatchedStore
from channels.common.read_marks import CURSOR
from channels.messages import Cursor, Inbound
from channels.protocol import InboundSink


class StoreQueue(BatchedStore):
    """Messages that wait to be stored. They are offered to ``sink`` until it could store them."""

    def __init__(self, sink: InboundSink, backoff: Backoff) -> None:
        super().__init__()
        self._sink = sink
        self._backoff = backoff

    async def _store(self, messages: Sequence[Inbound], mark: str) -> None:
        await self._backoff.until_stored(lambda: self._sink.accept(messages, Cursor(name=CURSOR, value=mark)))
