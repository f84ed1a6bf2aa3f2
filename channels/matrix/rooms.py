"""The rooms that an account is in, from what the homeserver tells: who is in each, whether it is a private chat, and what replaced it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from channels.messages import ChatAddress

MOST_NAMES: Final = 500
"""Names of people that are kept for a room; a room may have many thousands."""
_TWO: Final = 2


@dataclass(slots=True)
class Room:
    """One room. ``joined`` and ``invited`` are how many are in it, as the homeserver counts; ``people`` are some of them, without us."""

    id: str
    me: str
    joined: int = 0
    invited: int = 0
    people: OrderedDict[str, str] = field(default_factory=OrderedDict)
    name: str = ""
    encrypted: bool = False
    heard: int = 0
    """When somebody last wrote there, in milliseconds."""
    replaced_by: str = ""
    """The room that takes its place, as was said in it, and the server of whoever said so."""
    replaced_on: str = ""
    replaces: str = ""
    """The room whose place it takes, as it says itself."""

    @property
    def person(self) -> str | None:
        """Whose private chat it is: the only other member. None for a room of several people."""
        others = [one for one in self.people if one != self.me]
        return others[0] if self.joined + self.invited == _TWO and len(others) == 1 else None

    def conversation(self, account: str, thread: str | None) -> ChatAddress:
        """Return the address of what is written here."""
        person = self.person
        kind, identity = ("direct", person) if person is not None else ("group", self.id)
        return ChatAddress(
            channel="matrix", account=account, kind="direct" if kind == "direct" else "group", id=str(identity), thread=thread
        )

    def member(self, person: str, content: Mapping[str, Any]) -> None:
        """Take in who came or went."""
        if content.get("membership") in {"join", "invite"}:
            self.people[person] = str(content.get("displayname") or "")[:200]
            self.people.move_to_end(person)
            while len(self.people) > MOST_NAMES:
                self.people.popitem(last=False)
        else:
            self.people.pop(person, None)

    def state(self, event: Mapping[str, Any]) -> None:
        """Take in an event of the room's state."""
        content = event.get("content")
        if not isinstance(content, dict):
            return
        match event.get("type"):
            case "m.room.member":
                self.member(str(event["state_key"]), content)
            case "m.room.name":
                self.name = str(content.get("name") or "")[:200]
            case "m.room.encryption":
                self.encrypted = True
            case "m.room.tombstone":
                self.replaced_by = str(content.get("replacement_room") or "")
                self.replaced_on = str(event.get("sender") or "").partition(":")[2]
            case "m.room.create":
                former = content.get("predecessor")
                self.replaces = str(former.get("room_id") or "") if isinstance(former, dict) else ""


class RoomDirectory:
    """The rooms of one account."""

    def __init__(self, me: str) -> None:
        self.me = me
        self._rooms: dict[str, Room] = {}
        self.known = False
        """Whether all rooms were told; before that, nothing follows from a room that is missing."""
        self._news = asyncio.Event()

    def __iter__(self) -> Iterator[Room]:
        """Go through the rooms."""
        return iter(self._rooms.values())

    def get(self, room: str) -> Room | None:
        """Return a room that we are in."""
        return self._rooms.get(room)

    def awaits(self, identity: str) -> bool:
        """Return whether a room takes the place of one that we are in."""
        return any(room.replaced_by == identity for room in self._rooms.values())

    def _successor(self, room: Room) -> Room | None:
        fresh = self._rooms.get(room.replaced_by)
        return fresh if fresh is not None and fresh.replaces == room.id else None

    def lineage(self, room: Room) -> list[Room]:
        """Return the rooms that took each other's place, oldest first, of which this is one."""
        former = self._rooms.get(room.replaces)
        seen = {room.id}
        while former is not None and self._successor(former) is room and former.id not in seen:
            room = former
            seen.add(room.id)
            former = self._rooms.get(room.replaces)
        found = [room]
        while (fresh := self._successor(found[-1])) is not None and fresh not in found:
            found.append(fresh)
        return found

    def joined(self, identity: str, changes: Mapping[str, Any]) -> Room:
        """Take in what a sync tells of a room: its state before the timeline, and how many are in it."""
        room = self._rooms.setdefault(identity, Room(identity, self.me))
        before = set(room.people)
        for event in _events(changes.get("state")):
            room.state(event)
        for event in _events(changes.get("timeline")):
            if "state_key" in event:
                room.state(event)
        self._count(room, changes.get("summary"), before)
        self._news.set()
        return room

    async def told(self, room: str, seconds: float) -> None:
        """Wait until the homeserver has told of a room that we are in. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while room not in self._rooms:
                self._news.clear()
                await self._news.wait()

    def _count(self, room: Room, summary: object, before: set[str]) -> None:
        """Take over the homeserver's count; where it gives none, who came and went is counted on."""
        fields = summary if isinstance(summary, dict) else {}
        joined, invited = fields.get("m.joined_member_count"), fields.get("m.invited_member_count")
        heroes = fields.get("m.heroes")
        for hero in heroes if isinstance(heroes, list) else []:
            if isinstance(hero, str) and hero != self.me:
                room.people.setdefault(hero, "")
        if isinstance(joined, int):
            room.joined = joined
        if isinstance(invited, int) or (isinstance(joined, int) and not before):
            room.invited = invited if isinstance(invited, int) else 0
        if not room.joined:
            room.joined = len({*room.people, self.me})

    def left(self, identity: str) -> Room | None:
        """Forget a room that we are no longer in."""
        return self._rooms.pop(identity, None)

    def private(self, person: str) -> Room | None:
        """Return the private chat with a person: of several, the one in which something was written last."""
        found = [room for room in self._rooms.values() if room.person == person and self._successor(room) is None]
        return max(found, key=lambda room: room.heard, default=None)


def _events(part: object) -> Iterator[Mapping[str, Any]]:
    listed = part.get("events") if isinstance(part, dict) else None
    for event in listed if isinstance(listed, list) else []:
        if isinstance(event, dict) and isinstance(event.get("state_key"), str):
            yield event


def invited_at(events: list[dict[str, Any]], me: str) -> int | None:
    """Return where, in events of a room that we joined meanwhile, what was said to us begins: at the invitation, or the joining.

    A member event that only changes our name or picture is no joining.
    """
    joined: int | None = None
    for number, event in enumerate(events):
        content = event.get("content")
        if event.get("type") != "m.room.member" or event.get("state_key") != me or not isinstance(content, dict):
            continue
        unsigned = event.get("unsigned")
        before = unsigned.get("prev_content") if isinstance(unsigned, dict) else None
        membership = content.get("membership")
        if membership == "invite" or (
            membership == "join" and not (isinstance(before, dict) and before.get("membership") == "join") and joined is None
        ):
            joined = number
    return joined
