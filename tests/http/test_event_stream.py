"""Streams of events: they end with their events, their client or their error."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from gateway.api.event_stream import EventStream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, MutableMapping

SCOPE = {"type": "http", "asgi": {"spec_version": "2.3"}}


class Client:
    """A client that goes when it is told to."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self.sent: list[bytes] = []

    async def receive(self) -> MutableMapping[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.body":
            self.sent.append(message["body"])


async def test_a_stream_ends_with_its_events() -> None:
    async def events() -> AsyncIterator[bytes]:
        yield b"data: 1\n\n"

    client = Client()
    await EventStream(events())(SCOPE, client.receive, client.send)
    assert client.sent == [b"data: 1\n\n", b""]


async def test_a_stream_ends_with_its_client_and_its_events_are_closed() -> None:
    ended = []

    async def events() -> AsyncIterator[bytes]:
        try:
            yield b"data: 1\n\n"
            client.gone.set()
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    client = Client()
    await EventStream(events())(SCOPE, client.receive, client.send)
    assert client.sent == [b"data: 1\n\n"]
    assert ended == [True]


async def test_an_error_of_the_events_is_raised() -> None:
    async def events() -> AsyncIterator[bytes]:
        yield b"data: 1\n\n"
        raise ValueError("broken")

    client = Client()
    with pytest.raises(ValueError, match="broken"):
        await EventStream(events())(SCOPE, client.receive, client.send)


async def test_a_stream_that_is_cancelled_closes_its_events() -> None:
    ended, began = [], asyncio.Event()

    async def events() -> AsyncIterator[bytes]:
        try:
            yield b"data: 1\n\n"
            began.set()
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    client = Client()
    task = asyncio.create_task(EventStream(events())(SCOPE, client.receive, client.send))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


def test_a_stream_loads_no_other_event_loop() -> None:
    code = (
        "import asyncio, sys\nfrom gateway.api.event_stream import EventStream\n"
        "async def events(): yield b'x'\n"
        "async def receive(): await asyncio.Event().wait()\n"
        "async def send(message): pass\n"
        "asyncio.run(EventStream(events())({'type': 'http'}, receive, send))\n"
        "print('anyio._backends._asyncio' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "False\n"
