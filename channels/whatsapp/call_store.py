"""Stores what calls of Meta's bring, in the order of their arrival."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from channels.common.batched_store import BatchedStore

if TYPE_CHECKING:
    from channels.messages import Cursor, Inbound
    from channels.protocol import InboundSink


class CallStore(BatchedStore):
    """Messages that wait to be stored. Where that fails, each call is told so, and Meta calls again.

    ``cursors`` gives what else has to be stored, as it is at that moment; ``failed`` is called when that was not stored.
    """

    def __init__(self, sink: InboundSink, cursors: Callable[[], Sequence[Cursor]], failed: Callable[[], None]) -> None:
        super().__init__()
        self._sink = sink
        self._cursors = cursors
        self._failed = failed

    async def _store(self, messages: Sequence[Inbound], mark: str) -> None:
        del mark  # how far was read is in the cursors
        first, *others = (*self._cursors(), None)
        try:
            await self._sink.accept(messages, first)
            for one in others:
                if one is not None:
                    await self._sink.accept([], one)
        except Exception:  # raised again: whatever failed, the cursors were not stored
            self._failed()
            raise
