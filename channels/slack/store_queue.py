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
        while True:
            try:
                await self._sink.accept(messages, Cursor(name=CURSOR, value=mark))
            except Exception as error:  # noqa: BLE001 - what could not be stored must be offered again
                await self._backoff.wait("messages could not be stored, and are offered again", str(error))
            else:
                self._backoff.over()
                return
