"""What open pages are told, across a cluster: while a page is open here, the events of the other gateways are followed, too."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final

import httpx

from gateway.api.answers import HEADERS, Refusal
from gateway.api.event_stream import EventStream
from gateway.api.forwarding.peers import EVENTS, Elsewhere, Peers
from gateway.base.errors import HomebodyError
from gateway.cluster.directory import Directory, Peer
from gateway.page.page_events import RELOAD, EventHub, TooManyStreams

if TYPE_CHECKING:
    from starlette.responses import Response

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""How often it is looked which gateways there are, and who holds what."""
BEAT_SECONDS: Final = 5.0
"""A gateway that follows another one hears something this often, or takes the connection for lost after three times as long."""
_DATA: Final = b"data: "


class PeerEvents:
    """Follows the other gateways for as long as a page is open here."""

    def __init__(self, hub: Callable[[], EventHub], directory: Directory, peers: Peers) -> None:
        self._hub = hub
        self._directory = directory
        self._peers = peers
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Follow, if that is not done already. To be called when a page is opened."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Follow no more."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        following: dict[str, asyncio.Task[None]] = {}
        holders: dict[str, str] | None = None
        try:
            while self._hub().watched:
                try:
                    standing = await self._directory.standing(fresh=True)
                except HomebodyError as error:
                    log.debug("which gateways there are is looked up again: %s", error)
                    await asyncio.sleep(LOOK_SECONDS)
                    continue
                for peer in standing.peers.values():
                    known = following.get(peer.name)
                    if peer.name != self._directory.own and (known is None or known.done()):
                        following[peer.name] = asyncio.create_task(self._follow(peer))
                for gone in [name for name in following if name not in standing.peers]:
                    following.pop(gone).cancel()
                if holders is not None and holders != standing.holders:
                    self._hub().publish(RELOAD, relayed=True)
                holders = dict(standing.holders)
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            for task in following.values():
                task.cancel()

    async def _follow(self, peer: Peer) -> None:
        """Tell pages here what one gateway tells, until the connection ends. Pages ask for all anew: nothing was heard before."""
        try:
            async with self._peers.request(peer, "GET", EVENTS, asked="{}") as answer:
                self._hub().publish(RELOAD, relayed=True)
                lines = answer.aiter_lines()
                while True:
                    async with asyncio.timeout(3 * BEAT_SECONDS):
                        line = (await anext(lines)).encode()
                    if line.startswith(_DATA):
                        event = json.loads(line[len(_DATA) :])
                        self._hub().publish(str(event["kind"]), event["data"], relayed=True)
        except (Elsewhere, HomebodyError, httpx.HTTPError, StopAsyncIteration, TimeoutError, ValueError, KeyError) as error:
            log.debug("the events of %s are followed again: %r", peer.label, error)


def events_of(hub: EventHub, reader: str) -> Response:
    """Return the stream of what this gateway tells for another one: all but what it was told by others itself."""
    try:
        stream = hub.open(reader, None)
    except TooManyStreams:
        raise Refusal(429, "too-many", "it is followed too often already", "Try again.", {"retry-after": "10"}) from None

    async def events() -> AsyncIterator[bytes]:
        try:
            yield b": followed\n\n"
            while True:
                try:
                    event = await stream.take(BEAT_SECONDS)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                if event is None:
                    return
                if not event.relayed:
                    yield hub.written(event)
        finally:
            hub.close(stream)

    return EventStream(events(), headers=HEADERS, media_type="text/event-stream")
