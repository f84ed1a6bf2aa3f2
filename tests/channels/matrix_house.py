"""A Matrix channel with its folder, against the strict peer."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from channels.matrix.channel import MatrixChannel
from channels.matrix.settings import MatrixSettings
from channels.messages import ChatAddress, Outbound
from channels.testing import RecordingSink
from tests.channels.matrix_stage import ANNA
from tests.peers.hasty import FastClock
from tests.peers.matrix import TOKEN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.peers.matrix import MatrixPeer

DIRECT = ChatAddress(channel="matrix", kind="direct", id=ANNA)


class House:
    """A channel with its folder, and what its sink was given."""

    def __init__(self, peer: MatrixPeer, folder: Path, **settings: Any) -> None:
        self.peer = peer
        self.folder = folder / "matrix"
        self.given = {"homeserver": peer.root, "accessToken": TOKEN, "encryption": False, "syncSeconds": 20, **settings}
        self.sink = RecordingSink()
        self.clock = FastClock()
        self.channel = self.made()

    def made(self) -> MatrixChannel:
        settings = MatrixSettings.model_validate(self.given)
        return MatrixChannel(settings, "default", clock=self.clock, random=lambda: 1.0, state=self.folder)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.sink.is_ready.clear()
        task = asyncio.ensure_future(self.channel.run(self.sink))
        ready = asyncio.ensure_future(self.sink.is_ready.wait())
        try:
            await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
            yield
        finally:
            ready.cancel()
            task.cancel()
            await asyncio.gather(task, ready, return_exceptions=True)

    async def send(self, text: str, **more: Any) -> str:
        self.recorded: list[str] = getattr(self, "recorded", [])

        async def record(noted: str) -> None:
            self.recorded.append(noted)

        return (
            await self.channel.send(Outbound(**{"key": "k1", "conversation": DIRECT, "text": text, **more}), record)
        ).platform_id
