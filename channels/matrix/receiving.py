"""Reads what happens in an account's rooms, in order: one sync request after the other. Importing this module loads aiohttp.

The position of a sync is the cursor: it is stored together with its messages, and given to the homeserver only afterwards. Where the
homeserver leaves out messages (a gap), those between are asked for before the newer ones are delivered.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from channels.common.event_guard import BackgroundTasks, EventGuard
from channels.matrix.api_errors import signed_out
from channels.matrix.event_lookup import EventLookup, Known
from channels.matrix.http_api import TROUBLE, MatrixHttp, Refused, path
from channels.matrix.inbound import MESSAGES, answered, edited, inbound, reaction, relation, replaced, thread_of
from channels.matrix.invitations import Invitations
from channels.matrix.room_upgrades import RoomUpgrades
from channels.matrix.rooms import invited_at
from channels.messages import Cursor, Inbound

if TYPE_CHECKING:
    from channels.common.backoff import Backoff
    from channels.common.log import Log
    from channels.matrix.encryption import Encryption
    from channels.matrix.rooms import Room, RoomDirectory
    from channels.matrix.settings import MatrixAccount
    from channels.matrix.verification import Verifications
    from channels.protocol import Clock, InboundSink

CURSOR: Final = "since"
PAGE: Final = 100
VERIFICATION: Final = "m.key.verification."
MOST_PAGES: Final = 50
"""Pages that are read of one gap in one room."""
_QUIET = {"presence": {"not_types": ["*"]}}
_LAZY = {"lazy_load_members": True}
FILTER: Final = json.dumps(
    {**_QUIET, "room": {"timeline": {"limit": 50, **_LAZY}, "state": _LAZY, "ephemeral": {"not_types": ["*"]}}},
    separators=(",", ":"),
)
"""Only the members who write are told, so that a room of ten thousand people costs no more than a small one."""


def survey_filter() -> str:
    """Return the filter of a request for how things are now.

    It names a room that is none: Synapse answers the same question from a
    cache for two minutes, which would be how things were before a restart.
    """
    room = {"timeline": {"limit": 1, **_LAZY}, "state": _LAZY, "ephemeral": {"not_types": ["*"]}}
    return json.dumps({**_QUIET, "room": {**room, "not_rooms": [f"!{uuid.uuid4().hex}:none"]}}, separators=(",", ":"))


class Receiver:
    """Receives for one connection."""

    def __init__(
        self,
        settings: MatrixAccount,
        account: str,
        *,
        http: MatrixHttp,
        rooms: RoomDirectory,
        sink: InboundSink,
        clock: Clock,
        log: Log,
        encryption: Encryption | None,
        verifications: Verifications | None = None,
        backoff: Callable[[], Backoff],
    ) -> None:
        self._settings = settings
        self._account = account
        self._http = http
        self._rooms = rooms
        self._sink = sink
        self._log = log
        self._encryption = encryption
        self._verifications = verifications
        self._backoff = backoff
        self._guard = EventGuard(log, account)
        self._aside = BackgroundTasks(log, account)
        self._lookup = EventLookup(http, encryption)
        self._invitations = Invitations(settings, http, sink, rooms, clock=clock, log=log, account=account)
        self._upgrades = RoomUpgrades(settings, http, rooms, sink, log=log, account=account)
        self._plain: set[str] = set()
        self._gap_trouble = ""
        self.on_contact: Callable[[], None] = lambda: None
        """Called whenever the homeserver answered."""

    @property
    def trouble(self) -> str:
        """What was missed, and which room could not be followed."""
        return "; ".join(filter(None, (self._gap_trouble, self._upgrades.trouble)))

    async def run(self) -> None:
        """Receive until cancelled. Raises one of ``TROUBLE`` when the connection ends."""
        try:
            since = await self._survey()
            since = await self._read(since, seconds=0)
            self._sink.ready()
            while True:
                since = await self._read(since, seconds=self._settings.sync_seconds)
        finally:
            await self._aside.close()

    def _heard(self) -> None:
        self._sink.alive()
        self.on_contact()

    async def _survey(self) -> str:
        """Learn the rooms and invitations as they are now, and return where to read on: at the cursor, or from now on."""
        answer = await self._http.ask("GET", path("sync"), query={"filter": survey_filter(), "timeout": "0"})
        self._heard()
        parts = _parts(answer)
        for identity, one in parts["join"].items():
            with self._guard.reading({"kind": "room", "room": identity}):
                self._note(self._rooms.joined(identity, one), one)
        self._invitations.hear(parts["invite"])
        if self._encryption is not None:
            await self._encryption.received(answer, rooms=parts["join"], news=False)
        self._rooms.known = True
        stored = await self._sink.cursor(CURSOR)
        if stored is not None:
            return stored
        since = str(answer["next_batch"])
        await self._store([], since)
        return since

    async def _read(self, since: str, *, seconds: float) -> str:
        query = {"filter": FILTER, "since": since, "timeout": str(int(seconds * 1000))}
        answer = await self._http.ask("GET", path("sync"), query=query, seconds=seconds + self._settings.timeout_seconds)
        self._heard()
        fresh = str(answer["next_batch"])
        parts = _parts(answer)
        if self._encryption is not None:
            await self._encryption.received(answer, rooms=parts["join"])
        await self._verify(answer.get("to_device"))
        messages: list[Inbound] = []
        latest: dict[str, str] = {}
        for identity, one in parts["join"].items():
            with self._guard.reading({"kind": "room", "room": identity}):
                messages += await self._room(identity, one, since, latest)
        messages += await self._unlocked()
        for identity in parts["leave"]:
            self._invitations.withdrawn(identity)
            if self._rooms.left(identity) is not None:
                self._log.info("no longer in a room", room=identity, account=self._account)
        await self._store(messages, fresh)
        if self._encryption is not None:
            await self._encryption.ask_for_keys()
        self._invitations.hear(parts["invite"])
        await self._invitations.answer()
        await self._upgrades.follow()
        if self._settings.read_receipts and latest:
            self._aside.begin("a message was not marked as read", self._mark(latest))
        return fresh

    async def _verify(self, to_device: object) -> None:
        listed = to_device.get("events") if isinstance(to_device, dict) else None
        for event in listed if isinstance(listed, list) else ():
            if self._verifications is not None and isinstance(event, dict) and str(event.get("type")).startswith(VERIFICATION):
                await self._verifications.hear(event)

    async def _room(self, identity: str, changes: Mapping[str, Any], since: str, latest: dict[str, str]) -> list[Inbound]:
        timeline = changes.get("timeline") if isinstance(changes.get("timeline"), dict) else {}
        assert isinstance(timeline, dict)
        events = [one for one in timeline.get("events") or () if isinstance(one, dict)]
        room = self._rooms.joined(identity, changes)
        await self._upgrades.hear(room, changes)
        begun = invited_at(events, self._rooms.me)
        follows = self._rooms.lineage(room)[0] is not room
        if begun is not None and not follows:
            await self._added(room, events[begun])
            events = events[begun:]
        elif timeline.get("limited") and isinstance(timeline.get("prev_batch"), str):
            events = await self._gap(identity, since, timeline["prev_batch"], whole=follows) + events
        return await self._messages(room, events, latest)

    async def _added(self, room: Room, joining: Mapping[str, Any]) -> None:
        """Tell the gateway of a room of several people that we came into."""
        if room.person is None:
            inviter = str(joining.get("sender") or "")
            by = "" if inviter == self._rooms.me else room.people.get(inviter) or inviter
            group = room.conversation(self._account, None)
            await self._sink.added(group, key=f"joined:{joining.get('event_id')}", title=room.name, by=by)

    async def _gap(self, room: str, since: str, start: str, *, whole: bool) -> list[dict[str, Any]]:
        """Return the events between a position and the oldest event that a sync gave, oldest first.

        Those before we joined are left out, unless the ``whole`` is wanted of a room that takes another's place.
        """
        events: list[dict[str, Any]] = []
        query = {"dir": "b", "from": start, "limit": str(PAGE), "filter": json.dumps(_LAZY)}
        query |= {} if whole else {"to": since}  # the room is older than the news of it
        for _ in range(MOST_PAGES):
            try:
                page = await self._http.ask("GET", path("rooms", room, "messages"), query=query)
            except Refused as error:
                if error.passing or signed_out(error):
                    raise
                self._gap_trouble = f"messages that were missed in {room} cannot be read: {error}"
                return events[::-1]
            found = [one for one in page.get("chunk") or () if isinstance(one, dict)]
            for event in page.get("state") or ():
                if isinstance(event, dict) and isinstance(event.get("state_key"), str):
                    known = self._rooms.get(room)
                    if known is not None and event["state_key"] not in known.people:
                        known.state(event)
            begun = None if whole else invited_at(found[::-1], self._rooms.me)
            events += found if begun is None else found[: len(found) - begun]
            if begun is not None or not page.get("end") or page["end"] == query["from"]:
                return events[::-1]
            query["from"] = str(page["end"])
        self._gap_trouble = f"in {room} more than {PAGE * MOST_PAGES:,} messages were missed; the oldest of them were not read"
        self._log.warning("a gap was too long to be read whole", room=room, account=self._account)
        return events[::-1]

    async def _messages(self, room: Room, events: list[dict[str, Any]], latest: dict[str, str]) -> list[Inbound]:
        messages: list[Inbound] = []
        for raw in events:
            facts = {"kind": str(raw.get("type"))[:60], "room": room.id, "message": str(raw.get("event_id"))[:60]}
            with self._guard.reading(facts):
                event: Mapping[str, Any] | None = raw
                if raw.get("type") == "m.room.encrypted":
                    event = self._opened(room, raw)
                if event is None:
                    continue
                found = await self._converted(event, room)
                if event.get("type") in MESSAGES:
                    self._note_message(event, room)
                if found is not None:
                    messages.append(found)
                    latest[room.id] = str(event["event_id"])
        return messages

    async def _converted(self, event: Mapping[str, Any], room: Room) -> Inbound | None:
        content = event["content"]
        if str(event["sender"]) == room.me or not isinstance(content, dict) or "state_key" in event:
            return None
        if event["type"] == "m.reaction":
            return await self._reaction(event, room)
        if str(event["type"]).startswith(VERIFICATION) or content.get("msgtype") == f"{VERIFICATION}request":
            if self._verifications is not None and room.person is not None:
                await self._verifications.hear(event, room.id)
            return None
        if event["type"] not in MESSAGES:
            return None
        target = replaced(content)
        if target is not None:
            known = await self._lookup.find(room, target)
            edit = edited(event, room, self._account) if known.sender in {"", str(event["sender"])} else None
            return None if edit is None else _in_thread(edit, known.thread)
        reply = answered(content) or (thread_of(content) if room.person is None else None)
        known = await self._lookup.find(room, reply) if reply else Known()
        quoted = (known.sender if answered(content) else "", known.text)
        return inbound(event, room, self._account, quoted=quoted)

    async def _reaction(self, event: Mapping[str, Any], room: Room) -> Inbound | None:
        found = relation(event["content"])
        known = await self._lookup.find(room, str(found["event_id"]))
        value = (known.buttons or {}).get(str(found["key"]))
        wanted = self._settings.reactions_told(room.id)
        if value is None and (wanted == "off" or (wanted == "own" and known.sender != room.me)):
            return None
        return reaction(event, room, self._account, value=value, thread=known.thread)

    def _opened(self, room: Room, raw: dict[str, Any]) -> Mapping[str, Any] | None:
        if str(raw.get("sender")) == room.me:
            return None
        if self._encryption is None:
            if room.id not in self._plain:
                self._plain.add(room.id)
                self._log.warning("an encrypted room cannot be read: encryption is off", room=room.id, account=self._account)
            return None
        return self._encryption.opened(room.id, raw)

    async def _unlocked(self) -> list[Inbound]:
        """Return messages that could not be decrypted when they came, and can now."""
        messages: list[Inbound] = []
        for identity, event in [] if self._encryption is None else self._encryption.unlocked():
            room = self._rooms.get(identity)
            if room is not None:
                messages += await self._messages(room, [dict(event)], {})
        return messages

    def _note(self, room: Room, changes: Mapping[str, Any]) -> None:
        for event in (changes.get("timeline") or {}).get("events") or ():
            room.heard = max(room.heard, int(event.get("origin_server_ts") or 0))

    def _note_message(self, event: Mapping[str, Any], room: Room) -> None:
        if replaced(event["content"]) is None:
            self._lookup.note(event, room)
        room.heard = max(room.heard, int(event["origin_server_ts"]))

    async def _store(self, messages: list[Inbound], since: str) -> None:
        """Have the messages stored with the position behind them, however often that takes."""

        async def store() -> None:
            if self._encryption is not None:
                await self._encryption.keep()
            await self._sink.accept(messages, Cursor(name=CURSOR, value=since))

        await self._backoff().until_stored(store)
        if self._encryption is not None:
            await self._encryption.stored()

    async def _mark(self, latest: Mapping[str, str]) -> None:
        for room, event in latest.items():
            try:
                await self._http.ask("POST", path("rooms", room, "receipt", "m.read", event), {})
            except Refused as error:
                if error.passing:
                    return
            except TROUBLE:
                return


def _in_thread(edit: Inbound, thread: str | None) -> Inbound:
    return edit if thread is None else replace(edit, conversation=replace(edit.conversation, thread=thread))


def _parts(answer: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the rooms of a sync by what we are in them, without what is no object."""
    rooms = answer.get("rooms")
    found: dict[str, dict[str, Any]] = {}
    for part in ("join", "invite", "leave"):
        listed = rooms.get(part) if isinstance(rooms, dict) else None
        found[part] = {
            str(key): one for key, one in (listed if isinstance(listed, dict) else {}).items() if isinstance(one, dict)
        }
    return found
