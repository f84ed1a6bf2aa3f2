"""Who somebody is: by phone number, or by Meta's own id (BSUID) where WhatsApp shows no number.

https://developers.facebook.com/documentation/business-messaging/whatsapp/business-scoped-user-ids. People may take a user name, and then
messages come without their number. Whoever was known by a number stays known by it: Meta names both while it shows both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from channels.messages import Cursor
from channels.whatsapp.kept_facts import put, read, written
from channels.whatsapp.settings import PERSON

if TYPE_CHECKING:
    from collections.abc import Mapping

    from channels.protocol import InboundSink

CURSOR: Final = "people"


class PersonIds:
    """The id under which the house knows each person who may write, by Meta's id."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._sink: InboundSink | None = None

    async def begin(self, sink: InboundSink) -> None:
        """Read what an earlier process stored."""
        self._sink = sink
        self._known = read(await sink.cursor(CURSOR))

    def resolve(self, number: str, user_id: str) -> str:
        """Return the id of a person. Raises ValueError where there is none that can be."""
        found = self._known.get(user_id, "") or number or user_id
        if not PERSON.fullmatch(found):
            raise ValueError("a message without a sender")
        return found

    async def learn(self, number: str, user_id: str) -> None:
        """Store that a number and an id of Meta's are one person, who may write: those of strangers could fill any list."""
        if not (number and user_id) or user_id in self._known or self._sink is None:
            return
        if not await self._sink.admits(number) or await self._sink.admits(user_id):
            return
        put(self._known, user_id, number)
        await self._sink.accept([], Cursor(name=CURSOR, value=written(self._known)))


def names_of(contacts: object) -> dict[str, Mapping[str, Any]]:
    """Return what a call says of people, by number and by Meta's id."""
    found: dict[str, Mapping[str, Any]] = {}
    for contact in contacts if isinstance(contacts, list) else ():
        if isinstance(contact, dict):
            found |= {str(contact[key]): contact for key in ("wa_id", "user_id") if contact.get(key)}
    return found
