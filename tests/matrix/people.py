"""People on a real homeserver, each with a client of their own (nio), who see what the agent does there."""

from __future__ import annotations

import asyncio
import json
import urllib.request
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import nio

from tests.matrix.synapse import PASSWORD
from tests.peers.matrix_state import shown

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

V3 = "/_matrix/client/v3"


class Person:
    """One person with one device. ``pull`` takes in what happened since; it blocks for a moment, so that rules may look without waiting."""

    def __init__(self, root: str, user: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.root = root
        self.user = user
        config = nio.AsyncClientConfig(encryption_enabled=True, max_timeouts=3, max_limit_exceeded=20)
        self.client = nio.AsyncClient(root, user, store_path=str(folder), config=config)
        self.events: dict[str, list[dict[str, Any]]] = {}
        self.typings: list[tuple[str, tuple[str, ...]]] = []
        self.to_device: list[dict[str, Any]] = []
        self.sealed: list[Any] = []
        self._since = ""

    async def sign_in(self) -> None:
        answer = await self.client.login(PASSWORD, device_name="a person's phone")
        assert isinstance(answer, nio.LoginResponse), answer
        self.pull()
        await self.upkeep()

    async def upkeep(self) -> None:
        """Exchange keys, as clients do between syncs."""
        client = self.client
        if client.should_upload_keys:
            await client.keys_upload()
        if client.should_query_keys:
            await client.keys_query()
        if client.should_claim_keys:
            await client.keys_claim(client.get_users_for_key_claiming())
        await client.send_to_device_messages()

    async def close(self) -> None:
        await self.client.close()
        self.client.store.database.close()

    def ask(self, method: str, where: str, content: Any = None, **query: str) -> dict[str, Any]:
        """Make a request, blocking."""
        raw = self.raw(method, where, content, **query)
        return dict(json.loads(raw))

    def raw(self, method: str, where: str, content: Any = None, **query: str) -> bytes:
        url = self.root + where + (f"?{urlencode(query)}" if query else "")
        data = None if content is None else content if isinstance(content, bytes) else json.dumps(content).encode()
        request = urllib.request.Request(url, data=data, method=method)  # noqa: S310 - loopback
        request.add_header("Authorization", f"Bearer {self.client.access_token}")
        request.add_header("Content-Type", "application/json" if not isinstance(content, bytes) else "application/octet-stream")
        with urllib.request.urlopen(request, timeout=240) as response:  # noqa: S310
            return bytes(response.read())

    def pull(self) -> None:
        """Take in what happened."""
        query = {"timeout": "0", "filter": json.dumps({"room": {"timeline": {"limit": 300}}})}
        if self._since:
            query["since"] = self._since
        told = self.ask("GET", f"{V3}/sync", **query)
        self._since = told["next_batch"]
        self.to_device += told.get("to_device", {}).get("events", [])
        response = nio.SyncResponse.from_dict(told)
        assert isinstance(response, nio.SyncResponse), response
        _done(self.client.receive_response(response))
        for room, one in response.rooms.join.items():
            for event in one.timeline.events:
                if isinstance(event, nio.MegolmEvent):
                    self.sealed.append(event)
                self._note(room, dict(event.source))
        for room, part in told.get("rooms", {}).get("join", {}).items():
            typing = [event for event in part.get("ephemeral", {}).get("events", []) if event["type"] == "m.typing"]
            self.typings += [(room, tuple(event["content"]["user_ids"])) for event in typing]

    def _note(self, room: str, event: dict[str, Any]) -> None:
        listed = self.events.setdefault(room, [])
        if event.get("event_id") not in {one["event_id"] for one in listed}:
            listed.append(event)
        if event["type"] == "m.room.redaction":
            gone = event.get("redacts") or event["content"].get("redacts")
            for other in listed:
                if other["event_id"] == gone:
                    other["content"] = {}

    def shown(self, room: str, sender: str) -> list[dict[str, Any]]:
        """What this person sees of somebody in a room."""
        self.pull()
        return list(shown(self.events.get(room, []), sender))

    async def make_room(self, *invited: str, direct: bool = False, encrypted: bool = False, name: str = "") -> str:
        asked: dict[str, Any] = {"preset": "private_chat", "is_direct": direct, "invite": list(invited)}
        if name:
            asked["name"] = name
        if encrypted:
            content = {"algorithm": "m.megolm.v1.aes-sha2"}
            asked["initial_state"] = [{"type": "m.room.encryption", "state_key": "", "content": content}]
        made = await asyncio.to_thread(self.ask, "POST", f"{V3}/createRoom", asked)
        return str(made["room_id"])

    def join(self, room: str) -> None:
        self.ask("POST", f"{V3}/rooms/{quote(room)}/join", {})

    async def send(self, room: str, content: dict[str, Any], kind: str = "m.room.message") -> str:
        """Send an event, encrypted where the room is."""
        if room not in self.client.rooms or self.client.rooms[room].encrypted:
            self.pull()
            await self.upkeep()
        if not self.client.rooms[room].encrypted:
            return await asyncio.to_thread(self.put, room, kind, content)
        answer = await self.client.room_send(room, kind, content, ignore_unverified_devices=True)
        assert isinstance(answer, nio.RoomSendResponse), answer
        return str(answer.event_id)

    async def say(self, room: str, text: str, **more: Any) -> str:
        return await self.send(room, {"msgtype": "m.text", "body": text, "m.mentions": {}, **more})

    def put(self, room: str, kind: str, content: dict[str, Any], state_key: str | None = None) -> str:
        """Send an event as it is."""
        if state_key is not None:
            where = f"{V3}/rooms/{quote(room)}/state/{quote(kind)}/{quote(state_key)}"
        else:
            where = f"{V3}/rooms/{quote(room)}/send/{quote(kind)}/{uuid.uuid4().hex}"
        return str(self.ask("PUT", where, content)["event_id"])


def _done(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits for something")
