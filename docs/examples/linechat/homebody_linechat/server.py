"""The platform: a chat server that keeps what was said, which also is the peer on which the channel is judged.

A client says ``{"hello": password, "after": number}`` and is told ``{"welcome": name}`` or ``{"refused": why}``, then everything that was
written after that number: ``{"id", "from", "text", "at"}``, with ``"edits": id`` where it corrects an earlier one. It says
``{"say": text, "to": person, "key": key}`` and is told ``{"answer": key, "id": number}``, or ``"why"`` in place of the number, with
``"wait": seconds`` where it may try again. The same key said twice is heard once. ``{"typing": person}`` is not answered, and
``{"beat": true}`` comes every half a minute.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from channels.common.log import NoLog
from channels.testing import EXTRAS, FastClock
from homebody_linechat.channel import LIMIT, LineChat

if TYPE_CHECKING:
    from channels.common.log import Log
    from channels.protocol import Clock
    from channels.testing import Trouble

PASSWORD = "open sesame"  # noqa: S105 - of a server that lives as long as a test
BEAT_SECONDS = 30


class Server:
    """The server, and the peer of it: a person called anna, who writes to the bot. Start it with ``async with``."""

    lacks = tuple(rule.__name__ for rule in EXTRAS if rule.__name__ != "tells_of_an_edit")
    """This platform knows edits, and no groups, reactions, threads, files, buttons or menus."""
    limit = LIMIT
    events = ("edit", "beat", "an event of a later version")
    patience = 20.0

    def __init__(self, clock: Clock, log: Log, port: int = 0) -> None:
        self._port = port
        self._clock = clock
        self._log = log
        self._written: list[dict[str, Any]] = []
        self._said: dict[str, str] = {}
        self._signs = 0
        self._trouble = ""
        self._clients: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        """Listen."""
        await self.come_back()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End."""
        await self.go_away()
        await asyncio.gather(*self._tasks)

    # -- the peer ---------------------------------------------------------------------------------------------------

    def channel(self) -> LineChat:
        """See ``channels.testing.Peer``, as for all that follow."""
        return self._channel(PASSWORD)

    def intruder(self) -> LineChat:
        """See above."""
        return self._channel("guessed")

    def _channel(self, password: str) -> LineChat:
        return LineChat("127.0.0.1", self._port, password, account="default", clock=self._clock, log=self._log)

    async def say(self, text: str) -> None:
        """Write."""
        await self._write(text)

    async def edit(self, text: str) -> None:
        """Correct the last message."""
        await self._write(text, edits=self._written[-1]["id"])

    async def repeat(self) -> None:
        """Tell of the last message again."""
        await self._tell(self._written[-1])

    async def disconnect(self) -> None:
        """Cut all connections."""
        for client in list(self._clients):
            client.transport.abort()

    async def go_away(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
        await self.disconnect()

    async def come_back(self) -> None:
        """Listen, at the same port."""
        self._server = await asyncio.start_server(self._client, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def happen(self, event: str) -> None:
        """Do what is no message."""
        match event:
            case "edit":
                await self.edit("changed")
            case "beat":
                await self._tell({"beat": True})
            case _:
                await self._tell({"mood": "sunny", "from": "anna"})

    async def garble(self) -> None:
        """Say what is no message of this protocol, and no message at all."""
        now = datetime.now(UTC).isoformat()
        message = {"id": time.time_ns(), "from": "anna", "text": "?", "at": now}
        for odd in ({**message, "id": "x"}, {**message, "text": None}, {**message, "at": "then"}, {**message, "at": 7}, [], 7):
            await self._tell(odd)
        for client in list(self._clients):
            client.write(b"\xff no JSON\n")

    def trouble(self, kind: Trouble) -> None:
        """Let the next send go wrong."""
        self._trouble = kind

    def heard(self) -> list[str]:
        """Return what was said to anna."""
        return list(self._said.values())

    def typed(self) -> int:
        """Return how often a sign was shown."""
        return self._signs

    def length(self, text: str) -> int:
        """Return the number of letters."""
        return len(text)

    # -- the server --------------------------------------------------------------------------------------------------

    async def _write(self, text: str, **more: Any) -> None:
        number = time.time_ns()  # after a restart of the server, too, no number comes twice
        self._written.append({"id": number, "from": "anna", "text": text, "at": datetime.now(UTC).isoformat(), **more})
        await self._tell(self._written[-1])

    async def _tell(self, told: Any) -> None:
        for client in list(self._clients):
            client.write(json.dumps(told).encode() + b"\n")

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            self._tasks.add(task)
        beating = asyncio.create_task(self._beat(writer))
        try:
            while line := await reader.readline():
                for answer in self._answers(json.loads(line), writer):
                    writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            beating.cancel()
            self._clients.discard(writer)
            writer.close()

    async def _beat(self, writer: asyncio.StreamWriter) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            writer.write(b'{"beat": true}\n')

    def _answers(self, said: dict[str, Any], writer: asyncio.StreamWriter) -> list[dict[str, Any]]:
        match said:
            case {"hello": password, "after": number}:
                if password != PASSWORD:
                    return [{"refused": "wrong password"}]
                self._clients.add(writer)
                return [{"welcome": "bot"}, *(one for one in self._written if one["id"] > number)]
            case {"say": text, "to": _, "key": key} if writer in self._clients:
                return self._heard(text, key, writer)
            case {"typing": _}:
                self._signs += 1
        return []

    def _heard(self, text: str, key: str, writer: asyncio.StreamWriter) -> list[dict[str, Any]]:
        trouble, self._trouble = self._trouble, ""
        if trouble == "refused" or len(text) > LIMIT:
            return [{"answer": key, "why": "not this"}]
        if trouble == "rate limit":
            return [{"answer": key, "why": "not so fast", "wait": 3}]
        if trouble != "cut before":
            self._said.setdefault(key, text)
        if trouble.startswith("cut"):
            writer.transport.abort()
            return []
        return [{"answer": key, "id": 1 + list(self._said).index(key)}]


async def _talk(port: int) -> None:
    """Let whoever types be anna."""
    async with Server(FastClock(), NoLog(), port) as server:
        shown = 0
        typed = asyncio.ensure_future(asyncio.to_thread(sys.stdin.readline))
        while not (typed.done() and not typed.result()):
            if typed.done():
                await server.say(typed.result().rstrip("\n"))
                typed = asyncio.ensure_future(asyncio.to_thread(sys.stdin.readline))
            await asyncio.wait([typed], timeout=0.1)
            for text in server.heard()[shown:]:
                sys.stdout.write(f"bot: {text}\n")
                sys.stdout.flush()
                shown += 1


if __name__ == "__main__":
    asyncio.run(_talk(int(sys.argv[1])))
