"""A homeserver's state: rooms with their events in one stream, accounts, devices, media; and what it refuses."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.peers.matrix_html import check_html

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVER = "test.local"
BOT = f"@homebody:{SERVER}"
PASSWORD = "correct horse battery staple"
MOST_EVENT_BYTES = 65_536
OVERHEAD = 1_500
"""What hashes, signatures and the rest of an event take."""


class Refused(Exception):
    """Answered instead of a result."""

    def __init__(self, status: int, code: str, text: str = "no", **more: Any) -> None:
        super().__init__(text)
        self.status = status
        self.body = {"errcode": code, "error": text, **more}


@dataclass
class Room:
    id: str
    events: list[dict[str, Any]] = field(default_factory=list)
    direct: bool = False
    typing: list[tuple[str, int]] = field(default_factory=list)
    receipts: dict[str, str] = field(default_factory=dict)

    def state(self, until: int | None = None) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the latest state, or that before a position."""
        return {
            (one["type"], one["state_key"]): one
            for one in self.events
            if "state_key" in one and (until is None or one["_pos"] < until)
        }

    def membership(self, person: str) -> str:
        found = self.state().get(("m.room.member", person))
        return str(found["content"]["membership"]) if found else "leave"

    def count(self, membership: str) -> int:
        return sum(
            1
            for (kind, _), one in self.state().items()
            if kind == "m.room.member" and one["content"]["membership"] == membership
        )

    def event(self, identity: str) -> dict[str, Any] | None:
        return next((one for one in self.events if one["event_id"] == identity), None)


class Homeserver:
    """The state, and every change of it. What the account under test sends is checked as a strict server would."""

    def __init__(self, first: int = 1) -> None:
        self.rooms: dict[str, Room] = {}
        self.devices: dict[str, tuple[str, str]] = {}
        """User and device by access token."""
        self.media: dict[str, tuple[str, bytes]] = {}
        self.sent: dict[tuple[str, str, str], str] = {}
        """Events by device, room with type, and transaction id."""
        self.position = first
        self._ids = itertools.count(first)

    def renumber(self, first: int) -> None:
        """Go on from a later position, as a homeserver that is older."""
        self.position = first
        self._ids = itertools.count(first)

    def number(self) -> int:
        return next(self._ids)

    def made(self, *people: str, direct: bool = False, invite: bool = False, name: str = "") -> Room:
        """Make a room of these people and the account under test, which is in it, or invited."""
        room = Room(f"!room{self.number()}:{SERVER}", direct=direct)
        self.rooms[room.id] = room
        creator = people[0]
        self.add(room, creator, "m.room.create", {"room_version": "11"}, state_key="")
        for person in people:
            self.member(room, person, "join")
        if name:
            self.add(room, creator, "m.room.name", {"name": name}, state_key="")
        self.member(room, BOT, "invite", by=creator)
        if not invite:
            self.member(room, BOT, "join")
        return room

    def upgraded(self, room: Room, *people: str, public: bool = False) -> Room:
        """Replace a room by a new one, as its first member asks for: its people are in the new one, and we are not."""
        fresh = Room(f"!room{self.number()}:{SERVER}", direct=room.direct)
        self.rooms[fresh.id] = fresh
        content = {"room_version": "12", "predecessor": {"room_id": room.id}}
        self.add(fresh, people[0], "m.room.create", content, state_key="")
        for person in people:
            self.member(fresh, person, "join")
        self.add(fresh, people[0], "m.room.join_rules", {"join_rule": "public" if public else "invite"}, state_key="")
        told = {"body": "This room has been replaced", "replacement_room": fresh.id}
        self.add(room, people[0], "m.room.tombstone", told, state_key="")
        return fresh

    def created(self, asked: dict[str, Any]) -> Room:
        """Make the room that the account under test asks for; its people are invited."""
        invited, state = asked.get("invite"), asked.get("initial_state", [])
        if asked.get("preset") not in {"private_chat", "trusted_private_chat", "public_chat"} or "id" in asked:
            raise Refused(400, "M_UNKNOWN", "unknown preset")
        if not isinstance(invited, list) or not all(isinstance(one, str) and one[:1] == "@" and ":" in one for one in invited):
            raise Refused(400, "M_INVALID_PARAM", "invite: a list of full ids")
        if any(one["type"] == "m.room.encryption" and "algorithm" not in one["content"] for one in state):
            raise Refused(400, "M_BAD_JSON", "encryption without an algorithm")
        room = Room(f"!room{self.number()}:{SERVER}", direct=asked.get("is_direct") is True)
        self.rooms[room.id] = room
        self.add(room, BOT, "m.room.create", {"room_version": "11"}, state_key="")
        self.member(room, BOT, "join")
        for one in state:
            self.add(room, BOT, one["type"], one["content"], state_key=one["state_key"])
        for person in invited:
            self.member(room, person, "invite", by=BOT)
        return room

    def member(self, room: Room, person: str, membership: str, *, by: str | None = None) -> None:
        content: dict[str, Any] = {"membership": membership, "displayname": person[1:].partition(":")[0].title()}
        if membership == "invite" and room.direct:
            content["is_direct"] = True
        before = room.state().get(("m.room.member", person))
        event = self.add(room, by or person, "m.room.member", content, state_key=person)
        if before is not None:
            event["unsigned"] = {**event.get("unsigned", {}), "prev_content": before["content"]}

    def add(
        self, room: Room, sender: str, kind: str, content: dict[str, Any], *, state_key: str | None = None
    ) -> dict[str, Any]:
        self.position += 1
        event: dict[str, Any] = {
            "event_id": f"${self.number():06d}event",
            "type": kind,
            "sender": sender,
            "origin_server_ts": 1_770_000_000_000 + self.position,
            "content": content,
            "_pos": self.position,
        }
        if state_key is not None:
            event["state_key"] = state_key
        room.events.append(event)
        return event

    # -- what the account under test asks for ------------------------------------------------------------------------

    def room_of(self, identity: str, person: str = BOT) -> Room:
        room = self.rooms.get(identity)
        if room is None or room.membership(person) != "join":
            raise Refused(403, "M_FORBIDDEN", f"User {person} not in room {identity}")
        return room

    def send(self, device: str, room: Room, kind: str, transaction: str, content: dict[str, Any]) -> str:
        """Take an event once: the same transaction id of the same device returns the first event."""
        known = self.sent.get((device, f"{room.id} {kind}", transaction))
        if known is not None:
            return known
        check_event(room, kind, content)
        event = self.add(room, BOT, kind, content)
        event["unsigned"] = {"transaction_id": transaction, "age": 1}
        self.sent[device, f"{room.id} {kind}", transaction] = event["event_id"]
        return str(event["event_id"])

    def redact(self, room: Room, identity: str) -> str:
        event = room.event(identity)
        if event is None:
            raise Refused(404, "M_NOT_FOUND", "no such event")
        event["content"] = {}
        return str(self.add(room, BOT, "m.room.redaction", {"redacts": identity})["event_id"])

    def shown(self, room: Room) -> list[dict[str, Any]]:
        """Return what the account under test wrote, as clients show it."""
        return list(shown(room.events, BOT))


def shown(events: list[dict[str, Any]], sender: str) -> Iterator[dict[str, Any]]:
    """Yield the messages of a sender as clients show them: with their last edit in place, without what was removed."""
    edits = {
        one["content"]["m.relates_to"]["event_id"]: one["content"]["m.new_content"]
        for one in events
        if one["sender"] == sender and relates(one).get("rel_type") == "m.replace"
    }
    for one in events:
        if one["sender"] != sender or one["type"] != "m.room.message" or relates(one).get("rel_type") == "m.replace":
            continue
        if one["content"]:
            yield {**one, "content": {**one["content"], **edits.get(one["event_id"], {})}}


def relates(event: dict[str, Any]) -> dict[str, Any]:
    found = event["content"].get("m.relates_to") if isinstance(event["content"], dict) else None
    return found if isinstance(found, dict) else {}


def check_event(room: Room, kind: str, content: dict[str, Any]) -> None:
    """Refuse what a homeserver, or a client that shows it, would not take."""
    if len(json.dumps(content, ensure_ascii=False).encode()) + OVERHEAD > MOST_EVENT_BYTES:
        raise Refused(413, "M_TOO_LARGE", "event too large")
    relation = content.get("m.relates_to", {})
    for target in filter(None, (relation.get("event_id"), relation.get("m.in_reply_to", {}).get("event_id"))):
        if room.event(target) is None:
            raise Refused(400, "M_UNKNOWN", f"Can't send relation to unknown event {target}")
    if kind == "m.reaction":
        if relation.get("rel_type") != "m.annotation" or not isinstance(relation.get("key"), str):
            raise Refused(400, "M_BAD_JSON", "not an annotation")
        same = (BOT, relation["event_id"], relation["key"])
        if same in {_annotation(one) for one in room.events}:
            raise Refused(400, "M_DUPLICATE_ANNOTATION", "Can't send same reaction twice")
        return
    if kind != "m.room.message":
        raise Refused(400, "M_BAD_JSON", f"unexpected type {kind}")
    if "m.mentions" not in content:
        raise Refused(400, "M_BAD_JSON", "without m.mentions, a text may notify people")
    for part in filter(None, (content, content.get("m.new_content"))):
        _check_message(part)


def _check_message(content: dict[str, Any]) -> None:
    if not isinstance(content.get("body"), str) or not content["body"].strip():
        raise Refused(400, "M_BAD_JSON", "a message needs a body")
    if content["m.mentions"] != {}:
        raise Refused(400, "M_BAD_JSON", "notifies somebody")
    if ("format" in content) != ("formatted_body" in content):
        raise Refused(400, "M_BAD_JSON", "format and formatted_body come together")
    if "formatted_body" in content:
        try:
            check_html(content["formatted_body"])
        except ValueError as error:
            raise Refused(400, "M_BAD_JSON", f"HTML: {error}") from error
    kind = content.get("msgtype")
    if kind in {"m.file", "m.image", "m.audio", "m.video"}:
        if not content.get("url", "").startswith("mxc://") or not isinstance(content.get("info", {}).get("size"), int):
            raise Refused(400, "M_BAD_JSON", "a file needs url and info.size")
    elif kind not in {"m.text", "m.notice"}:
        raise Refused(400, "M_BAD_JSON", f"unexpected msgtype {kind}")


def _annotation(event: dict[str, Any]) -> tuple[str, str, str]:
    return str(event["sender"]), str(relates(event).get("event_id")), str(relates(event).get("key"))
