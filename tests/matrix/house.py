"""A real homeserver as a platform by which a person speaks to a house that gets killed, in a room with or without encryption."""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import nio

from tests.fire.platforms import PLATFORMS, Document, Watched
from tests.fire.scenarios import SCENARIOS, WIDELY
from tests.matrix.middleman import Middleman
from tests.matrix.people import Person
from tests.matrix.synapse import PASSWORD, Synapse
from tests.peers.matrix_state import relates

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from aiohttp import web

    from tests.fire.platforms import Platform

_NUMBERS = itertools.count(1)
_running: list[Synapse] = []
_SENT = ("/send/m.room.message/", "/send/m.room.encrypted/")


def homeserver() -> Synapse:
    """Return the homeserver of this process, which ``use`` named."""
    return _running[-1]


def use(server: Synapse) -> None:
    """Let the houses that are made from now on live on a homeserver that runs."""
    _running.append(server)


class Passage(Middleman):
    """What stands between one house and the homeserver: it sees what was sent, and up to where the house has read."""

    def __init__(self, target: str, platform: SynapseRoom) -> None:
        super().__init__(target)
        self._platform = platform
        self._given: dict[str, set[str]] = {}

    async def _asked(self, request: web.Request, body: bytes) -> web.Response:
        platform, sends = self._platform, any(part in request.path for part in _SENT)
        if sends:
            await platform.weather("before")
        if "/media/download/" in request.path:
            await platform.fetched()
        if request.path.endswith("/sync") and "since" in request.query:
            platform.taken |= self._given.get(request.query["since"], set())
        answer = await super()._asked(request, body)
        if request.path.endswith("/sync") and answer.status == 200 and isinstance(answer.body, bytes):
            self._note(json.loads(answer.body))
        if sends:
            platform.sends += 1
            await platform.weather("after")
            await platform.watcher(platform.kind, platform.sends)
        return answer

    def _note(self, told: dict[str, Any]) -> None:
        rooms = told.get("rooms", {}).get("join", {}).values()
        events = {event["event_id"] for room in rooms for event in room.get("timeline", {}).get("events", [])}
        self._given.setdefault(told["next_batch"], set()).update(events)


class SynapseRoom(Watched):
    """One account for the house and one for the person, in a private chat of theirs that nobody else is in."""

    kind = "matrix"
    heavy = ("channels.matrix.device", "channels.matrix.own_reactions", "channels.matrix.receiving", "channels.matrix.sending")
    tells_all = False
    port_of_house = 0
    encrypted = False

    def __init__(self) -> None:
        self.taken: set[str] = set()
        self._said: set[str] = set()
        self._held: list[Coroutine[Any, Any, None]] = []
        self._folder = Path(tempfile.mkdtemp(prefix="homebody-synapse-"))
        self._returning: asyncio.Task[None] | None = None
        self._joining: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        server, number = homeserver(), f"{next(_NUMBERS)}{secrets.token_hex(3)}"
        self._bot, anna = [await server.register(f"{name}{number}") for name in ("homebody", "anna")]
        self._passage = await Passage(server.root, self).__aenter__()
        self._anna = Person(server.root, anna, self._folder)
        await self._anna.sign_in()
        self._room = await self._anna.make_room(self._bot, direct=True, encrypted=self.encrypted)
        self._joining = asyncio.ensure_future(self._until_joined())
        return self

    async def __aexit__(self, *error: object) -> None:
        for task in (self._returning, self._joining):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        for saying in self._held:
            saying.close()
        await self._passage.__aexit__(*error)
        await self._anna.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _until_joined(self) -> None:
        """Say what is held once the house is in the room: nobody who is not there can read it."""
        while not any(_joins(event, self._bot) for event in self._anna.events.get(self._room, [])):
            await asyncio.sleep(0.1)
            self._anna.pull()
        while self._held:
            await self._held.pop(0)

    async def go_away(self) -> None:
        await self._passage.go_away()

    async def come_back(self) -> None:
        await self._passage.come_back()

    @property
    def unconfirmed(self) -> int:
        return len(self._said - self.taken) + int(self._joining is not None and not self._joining.done())

    def settings(self) -> dict[str, Any]:
        given = {"homeserver": self._passage.root, "userId": self._bot, "password": PASSWORD, "syncSeconds": 5}
        return {**given, "encryption": self.encrypted, "dm": {"allowFrom": [self._anna.user]}}

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110 - the homeserver is asked
            await asyncio.sleep(0.1)

    def age(self) -> None:
        raise NotImplementedError("the account of a house that lived before belongs to that house")

    async def hear(self, text: str, file: Document | None = None) -> None:
        await self._say(self._write(text, file))

    async def correct(self, before: str, text: str) -> None:
        await self._say(self._change(before, text))

    async def _say(self, saying: Coroutine[Any, Any, None]) -> None:
        if self._joining is not None and not self._joining.done():
            self._held.append(saying)
        else:
            await saying

    async def _write(self, text: str, file: Document | None) -> None:
        more: dict[str, Any] = {}
        if file is not None:
            content, keys = file.content, {}
            if self.encrypted:
                content, keys = nio.crypto.attachments.encrypt_attachment(content)
            address = (await asyncio.to_thread(self._anna.ask, "POST", "/_matrix/media/v3/upload", content))["content_uri"]
            where = {"file": {**keys, "url": address}} if self.encrypted else {"url": address}
            info = {"size": len(file.content), "mimetype": file.media_type}
            more = {"msgtype": "m.file", "filename": file.name, "info": info, **where}
        self._said.add(await self._anna.say(self._room, text, **more))

    async def _change(self, before: str, text: str) -> None:
        self._anna.pull()
        [written] = [
            one
            for one in self._anna.events[self._room]
            if one["content"].get("body") == before and relates(one).get("rel_type") != "m.replace"
        ]
        relation = {"rel_type": "m.replace", "event_id": written["event_id"]}
        fresh = {"msgtype": "m.text", "body": text}
        self._said.add(await self._anna.say(self._room, f"* {text}", **{"m.new_content": fresh, "m.relates_to": relation}))

    def shown(self) -> list[str]:
        return [str(one["content"].get("body")) for one in self._anna.shown(self._room, self._bot)]


class SealedRoom(SynapseRoom):
    """Everything that is said is encrypted, end to end."""

    encrypted = True
    heavy = (*SynapseRoom.heavy, "channels.matrix.encryption", "channels.matrix.verification")


def _joins(event: dict[str, Any], user: str) -> bool:
    is_member = event["type"] == "m.room.member" and event.get("state_key") == user
    return is_member and event["content"].get("membership") == "join"


ROOMS: dict[str, type[Platform]] = {"Synapse": SynapseRoom, "Synapse, encrypted": SealedRoom}
NAMES = tuple(f"{one.name} by {name}" for name in ROOMS for one in WIDELY if not one.youth)
"""The scenarios that are played there. One whose house lived before needs its account, which one house at a time can use."""

PLATFORMS.update(ROOMS)
SCENARIOS.update(
    {
        f"{one.name} by {name}": replace(one, name=f"{one.name} by {name}", platform=name)
        for name in ROOMS
        for one in WIDELY
        if not one.youth
    }
)
