"""End-to-end encryption on nio: the keys of the device, those of rooms, and messages that cannot be read yet. Importing this loads nio.

nio does the cryptography and keeps its keys in a database in the state folder. What rooms say otherwise does not pass through it: it is
told only who is in encrypted rooms. Keys come before the messages that need them, and a message whose key is missing waits in a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import nio
from nio.exceptions import EncryptionError, LocalProtocolError, OlmTrustError

from channels.common.event_guard import MALFORMED
from channels.errors import ChannelBroken, NotSent
from channels.matrix.device_files import IDENTITY, Device, write_private

if TYPE_CHECKING:
    from channels.common.log import Log
    from channels.matrix.settings import MatrixAccount
    from channels.protocol import Clock

WAITING: Final = "undecrypted.json"
SURVEY: Final = "survey"
"""Stands for the position of an answer that says how things are: nio passes over one whose position it has, and begins at ""."""
SHOWN: Final = 3
MOST_ASKED: Final = 20
"""Keys that are asked for after one sync."""
MOST: Final = 500
"""Messages that wait for a key; the oldest are given up beyond that."""
_STATE: Final = frozenset({"m.room.encryption", "m.room.member"})
_LOST: Final = (aiohttp.ClientError, TimeoutError, OSError)

logging.getLogger("nio").setLevel(logging.CRITICAL)  # its lines hold what rooms say, and errors that are told here in words


class Encryption:
    """The encryption of one device."""

    def __init__(self, client: nio.AsyncClient, folder: Path, *, log: Log, account: str) -> None:
        self._client = client
        self._folder = folder
        self._log = log
        self._account = account
        self._waiting: OrderedDict[str, tuple[str, dict[str, Any]]] = OrderedDict()
        self._written: set[str] = set()
        self._delivered: set[str] = set()
        self._told: set[str] = set()
        self._missing: list[nio.MegolmEvent] = []
        self._retry = True
        self._sending = asyncio.Lock()
        self.trouble = ""

    @classmethod
    async def open(
        cls, settings: MatrixAccount, device: Device, folder: Path, *, clock: Clock, log: Log, account: str
    ) -> Encryption:
        """Open the keys of a device, which are made when it has none. Raises ChannelBroken if they cannot be read."""
        del clock
        config = nio.AsyncClientConfig(
            max_limit_exceeded=3, max_timeouts=1, request_timeout=settings.timeout_seconds, encryption_enabled=True
        )
        client = nio.AsyncClient(device.server, device.user, device.device, store_path=str(folder), config=config)
        made = cls(client, folder, log=log, account=account)
        try:
            await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
            await asyncio.to_thread(client.restore_login, device.user, device.device, device.token)
            await asyncio.to_thread(made._read)
        except asyncio.CancelledError:
            await client.close()
            raise
        except Exception as error:  # whatever is wrong with the database
            await client.close()
            raise ChannelBroken(
                f"the keys of the Matrix device in {folder} cannot be read: {type(error).__name__}: {error}",
                hint="restore them from a backup, or sign in as a new device: homebody matrix sign-in",
            ) from error
        await made.identify(device.device)
        return made

    async def identify(self, device: str) -> None:
        """Write the fingerprint of the device for the command line."""
        assert self._client.olm is not None
        fingerprint = self._client.olm.account.identity_keys["ed25519"]
        facts = {"device": device, "fingerprint": fingerprint}
        await asyncio.to_thread(write_private, self._folder / IDENTITY, facts)

    def _read(self) -> None:
        for file in self._folder.iterdir():
            if file.is_file():
                file.chmod(0o600)
        try:
            kept = json.loads((self._folder / WAITING).read_text(encoding="utf-8"))
            self._waiting = OrderedDict((str(event["event_id"]), (str(room), event)) for room, event in kept)
        except FileNotFoundError:
            return
        except (ValueError, *MALFORMED) as error:
            self._log.warning("the list of unread messages is damaged", error=type(error).__name__, account=self._account)
        self._written = set(self._waiting)

    def remarks(self) -> list[str]:
        """Return what the owner should know."""
        if not self._waiting:
            return []
        senders = sorted({str(event.get("sender")) for _, event in self._waiting.values()})
        who = ", ".join(senders[:SHOWN]) + (" ..." if len(senders) > SHOWN else "")
        text = (
            f"{len(self._waiting)} encrypted messages cannot be read yet, because their senders' devices gave this one no key ({who}). "
            "They are read when the key comes."
        )
        return [text]

    async def received(self, answer: Mapping[str, Any], *, rooms: Mapping[str, Any], news: bool = True) -> None:
        """Take in the keys and members of a sync, and give the homeserver the keys that it needs. Not ``news``: how things are."""
        reduced: dict[str, Any] = {
            "next_batch": str(answer.get("next_batch")) if news else SURVEY,
            "rooms": {"join": {identity: one for identity, room in rooms.items() if (one := self._encrypted(identity, room))}},
        }
        if news:
            reduced["to_device"] = {"events": list(_to_device(answer.get("to_device")))}
            reduced["device_lists"] = _objects(answer.get("device_lists"))
            reduced["device_one_time_keys_count"] = _objects(answer.get("device_one_time_keys_count"))
            self._retry = self._retry or bool(reduced["to_device"]["events"])
        try:
            response = nio.SyncResponse.from_dict(reduced)
            if not isinstance(response, nio.SyncResponse):
                raise TypeError("the sync is not as the protocol says")
            await self._client.receive_response(response)
        except (*MALFORMED, EncryptionError, LocalProtocolError) as error:
            self._log.warning("keys could not be taken in", error=type(error).__name__, account=self._account)
        await self._upkeep()

    def _encrypted(self, identity: str, room: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what nio is to know of a room; None for one that is not encrypted."""
        state, timeline = (list(_state(room.get(part))) for part in ("state", "timeline"))
        known = identity in self._client.rooms or identity in self._client.encrypted_rooms
        if not known and not any(event["type"] == "m.room.encryption" for event in (*state, *timeline)):
            return None
        return {
            "state": {"events": state},
            "timeline": {"events": timeline},
            "ephemeral": {"events": []},
            "account_data": {"events": []},
        }

    async def _upkeep(self) -> None:
        client = self._client
        try:
            if client.should_upload_keys:
                await client.keys_upload()
            if client.should_query_keys:
                await client.keys_query()
            if client.should_claim_keys:
                await client.keys_claim(client.get_users_for_key_claiming())
            await client.send_to_device_messages()
        except (*_LOST, *MALFORMED, LocalProtocolError) as error:
            self._log.info("keys could not be exchanged", error=str(error) or type(error).__name__, account=self._account)

    def opened(self, room: str, event: dict[str, Any]) -> Mapping[str, Any] | None:
        """Return what is in an encrypted event; None if that cannot be read yet, after which it waits for its key."""
        identity = str(event["event_id"])
        found = self.decrypted(room, event)
        if found is not None:
            if identity in self._waiting:
                self._delivered.add(identity)
            return found
        self._waiting.setdefault(identity, (room, event))
        while len(self._waiting) > MOST:
            self._waiting.popitem(last=False)
        content = event.get("content")
        session = str(content.get("session_id")) if isinstance(content, dict) else ""
        if session not in self._told:
            self._told.add(session)
            self._miss(room, event)
            self._log.warning(
                "an encrypted message cannot be read yet: its sender's device gave no key; the account's other devices are asked",
                room=room,
                sender=str(event.get("sender")),
                account=self._account,
            )
        return None

    def _miss(self, room: str, event: Mapping[str, Any]) -> None:
        """Note that the key of an event is to be asked for."""
        with contextlib.suppress(*MALFORMED):
            sealed = nio.Event.parse_event(dict(event))
            if isinstance(sealed, nio.MegolmEvent) and len(self._missing) < MOST_ASKED:
                sealed.room_id = room
                self._missing.append(sealed)

    async def ask_for_keys(self) -> None:
        """Ask the account's other devices for the keys that are missing, once for each. nio takes them from verified devices alone."""
        missing, self._missing = self._missing, []
        for event in missing:
            if event.session_id in self._client.outgoing_key_requests:
                continue
            try:
                await self._client.request_room_key(event)
            except (*_LOST, *MALFORMED, LocalProtocolError) as error:
                self._log.info("a key could not be asked for", error=str(error) or type(error).__name__, account=self._account)

    def decrypted(self, room: str, event: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what is in an encrypted event, with its id, sender and time; None if the key is missing or does not fit."""
        try:
            sealed = nio.Event.parse_event(dict(event))
            if not isinstance(sealed, nio.MegolmEvent):
                return None
            sealed.room_id = room
            found = self._client.decrypt_event(sealed)
            inner = found.source
            return {**inner, "origin_server_ts": event["origin_server_ts"]} if isinstance(inner["content"], dict) else None
        except (EncryptionError, *MALFORMED):
            return None

    def unlocked(self) -> Iterable[tuple[str, dict[str, Any]]]:
        """Return the events that waited for a key which is there now, each with its room."""
        if not self._retry:
            return []
        self._retry = False
        return [(room, event) for room, event in self._waiting.values() if self.decrypted(room, event) is not None]

    async def keep(self) -> None:
        """Write the messages that wait into their file, before the position behind them is stored."""
        if set(self._waiting) != self._written:
            kept = list(self._waiting.values())
            await asyncio.to_thread(write_private, self._folder / WAITING, [[room, event] for room, event in kept])
            self._written = set(self._waiting)

    async def stored(self) -> None:
        """Forget the messages that waited and are stored now."""
        if self._delivered:
            for identity in self._delivered:
                self._waiting.pop(identity, None)
            self._delivered.clear()
            await self.keep()

    async def encrypt(
        self, room: str, kind: str, content: Mapping[str, Any], outside: Mapping[str, Any]
    ) -> tuple[str, dict[str, Any]]:
        """Return an event as it is sent, readable for the devices that are in the room now. ``outside`` stays readable for everybody.

        Raises:
            NotSent: the keys could not be given to all of them. Nothing was sent.
        """
        async with self._sending:
            try:
                return await self._sealed(room, kind, content, outside)
            except (*_LOST, *MALFORMED, LocalProtocolError, EncryptionError, OlmTrustError) as error:
                raise NotSent(f"the message could not be encrypted: {str(error) or type(error).__name__}") from error

    async def _sealed(
        self, room: str, kind: str, content: Mapping[str, Any], outside: Mapping[str, Any]
    ) -> tuple[str, dict[str, Any]]:
        client = self._client
        known = client.rooms[room]
        if not known.members_synced:
            members = await client.joined_members(room)
            if not isinstance(members, nio.JoinedMembersResponse):
                raise NotSent(f"the members of the room are not known: {members}")
        if client.should_query_keys:
            await client.keys_query()
        assert client.olm is not None
        if client.olm.should_share_group_session(room):
            await client.share_group_session(room, ignore_unverified_devices=True)
            self._check_shared(room)
        kind, sealed = client.encrypt(room, kind, dict(content))
        return kind, {**sealed, **outside}

    def _check_shared(self, room: str) -> None:
        """Raise NotSent if a device was left without the key: nio takes a request that failed for one that worked."""
        olm, store = self._client.olm, self._client.device_store
        assert olm is not None
        session = olm.outbound_group_sessions[room]
        served = session.users_shared_with | session.users_ignored
        for person in self._client.rooms[room].users:
            for device in store.active_user_devices(person):
                if (person, device.id) not in served and olm.session_store.get(device.curve25519) is not None:
                    session.shared = False
                    raise NotSent("the key of the room did not reach every device")

    async def keys_of(self, user: str, device: str) -> dict[str, str]:
        """Return the signing key of somebody's device, by its id; asked of the homeserver if it is not known. Raises LookupError."""
        store = self._client.device_store
        if device not in store[user]:
            assert self._client.olm is not None
            self._client.olm.users_for_key_query.add(user)
            await self._client.keys_query()
        return {f"ed25519:{device}": str(store[user][device].ed25519)}

    def own_keys(self) -> dict[str, str]:
        """Return the signing key of this device, by its id."""
        assert self._client.olm is not None
        return {f"ed25519:{self._client.device_id}": str(self._client.olm.account.identity_keys["ed25519"])}

    def trust(self, user: str, device: str) -> None:
        """Take a device for verified from now on."""
        self._client.verify_device(self._client.device_store[user][device])

    async def close(self) -> None:
        """Close the connections and the database."""
        await self._client.close()
        database = getattr(self._client.store, "database", None)
        if database is not None:
            await asyncio.to_thread(database.close)


def _to_device(part: object) -> Iterable[dict[str, Any]]:
    listed = part.get("events") if isinstance(part, dict) else None
    for event in listed if isinstance(listed, list) else []:
        fit = isinstance(event, dict) and isinstance(event.get("content"), dict) and isinstance(event.get("sender"), str)
        if fit and isinstance(event.get("type"), str) and not event["type"].startswith("m.key.verification."):
            yield event


def _state(part: object) -> Iterable[dict[str, Any]]:
    listed = part.get("events") if isinstance(part, dict) else None
    for event in listed if isinstance(listed, list) else []:
        if isinstance(event, dict) and event.get("type") in _STATE and isinstance(event.get("state_key"), str):
            yield event


def _objects(part: object) -> dict[str, Any]:
    return part if isinstance(part, dict) else {}
