"""The ways in that mailboxes, calendars and address books open."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import timedelta
from html import escape
from typing import Any

from gateway.calendar.calendar_source import KNOWN_SECONDS
from gateway.calendar.references import event_key
from tests.calendar.conftest import calendar, event
from tests.mail.letters import letter
from tests.taint.tool_carriers import ToolCarriers

_SHOWN = {"from": "2026-03-01", "to": "2026-03-08"}


def _ical(text: str) -> str:
    """Write a text as iCalendar and vCard want it."""
    for plain, escaped in (("\\", "\\\\"), (";", "\\;"), (",", "\\,"), ("\n", "\\n")):
        text = text.replace(plain, escaped)
    return text


class ServiceCarriers(ToolCarriers):
    """See ``Carriers``."""

    async def asks(self, tool: str, **arguments: Any) -> None:
        """The owner asks for a call of a tool."""
        await self.w.say(f"please call {tool} {json.dumps(arguments)}")

    async def _mail(self, **parts: Any) -> str:
        """Mallory writes a mail; returns its id."""
        given = {
            "text": "hello",
            "sender": "Mallory <mallory@evil.example>",
            "message_id": f"<m{self.case.number}@evil.example>",
        }
        return await asyncio.to_thread(self.w.services.deliver, letter(**given | parts))

    async def mail_subject(self) -> None:
        await self._mail(subject=self._line)
        await self.asks("mail", action="list")

    async def mail_sender(self) -> None:
        await self._mail(sender=f"{self.case.word} now <mallory@evil.example>")
        await self.asks("mail", action="list")

    async def mail_text(self) -> None:
        await self.asks("mail", action="read", id=await self._mail(text=self.case.text))

    async def mail_html(self) -> None:
        page = f"<html><body><h1>News</h1><p>{escape(self._line)}</p></body></html>"
        head = "From: Mallory <mallory@evil.example>\r\nSubject: hello\r\nMIME-Version: 1.0\r\n"
        mail = f"{head}Content-Type: text/html; charset=utf-8\r\n\r\n{page}".encode()
        await self.asks("mail", action="read", id=await asyncio.to_thread(self.w.services.deliver, mail))

    async def mail_header(self) -> None:
        mail = await self._mail(Reply_To=f"{self.case.word} <other@evil.example>", Cc=f"{self.case.word} <x@evil.example>")
        await self.asks("mail", action="read", id=mail)

    async def mail_attachment_name(self) -> None:
        mail = await self._mail(attached=((f"{self.case.word}.txt", b"hello"),))
        await self.asks("mail", action="read", id=mail)

    async def mail_attachment(self) -> None:
        mail = await self._mail(attached=(("letter.txt", self.case.text.encode()),))
        await self._saved(mail, "letter")

    async def _saved(self, mail: str, name: str) -> None:
        """An attachment is saved, and read in another conversation."""
        book = self.w.model.book.pop(self.case.word.lower())
        inbox = self.w.village.workspace / "inbox"
        known = {path.name for path in inbox.iterdir()} if inbox.is_dir() else set[str]()
        await self.asks("mail", action="save", id=mail)
        (fresh,) = {path.name for path in inbox.iterdir() if name in path.name} - known
        await self.w.afresh()
        self.w.model.book[self.case.word.lower()] = book
        await self.w.say(f"please read inbox/{fresh}")

    async def mail_invitation(self) -> None:
        """An invitation comes with a mail, as a file."""
        text = calendar("METHOD:REQUEST", event(f"SUMMARY:{_ical(self._line)}", "DTSTART:20260305T090000Z", uid="invited"))
        await self._saved(await self._mail(attached=(("invite.ics", text.encode()),)), "invite")

    async def mail_notice(self) -> None:
        """The owner is told of new mail while nobody asks, and goes on talking."""
        sent = len(self.w.phone.sent)
        mail = letter(subject=self._line, sender="Mallory <mallory@evil.example>")
        await asyncio.to_thread(self.w.services.deliver, mail, "told")
        await self.w.phone.until(lambda: any("📬" in one.text for one in self.w.phone.sent[sent:]))
        await self.w.say("thank you")

    async def mail_for_the_agent(self) -> None:
        """The agent is given new mail while nobody asks."""
        mail = letter(self.case.text, subject="hello", sender="Mallory <mallory@evil.example>")
        await asyncio.to_thread(self.w.services.deliver, mail, "given")
        async with asyncio.timeout(60):
            while self.case.word.lower() not in self.w.model.obeyed:  # noqa: ASYNC110 -- another thread watches the mailbox
                await asyncio.sleep(0.02)
        await self.w.quiet()

    async def _event(self, *lines: str) -> None:
        await self.w.services.put("theirs", calendar(event(*lines, "DTSTART:20260305T090000Z", "DTEND:20260305T100000Z")))

    async def event_title(self) -> None:
        await self._event(f"SUMMARY:{_ical(self._line)}")
        await self.asks("calendar", action="list", **_SHOWN)

    async def event_place(self) -> None:
        await self._event("SUMMARY:Lunch", f"LOCATION:{_ical(self._line)}")
        await self.asks("calendar", action="search", text="lunch")

    async def event_notes(self) -> None:
        await self._event("SUMMARY:Lunch", f"DESCRIPTION:{_ical(self.case.text)}")
        await self.asks("calendar", action="show", event=self._reference())

    async def invitation(self) -> None:
        """Somebody invites the owner, and chose the address that is shown."""
        people = f"ORGANIZER:mailto:{self.case.word}@evil.example", f"ATTENDEE:mailto:{self.case.word}-now@evil.example"
        await self._event("SUMMARY:Lunch", *people)
        await self.asks("calendar", action="show", event=self._reference())

    def _reference(self) -> str:
        return f"{event_key('personal', 'one')}-20260305T0900"

    async def event_free(self) -> None:
        await self._event(f"SUMMARY:{_ical(self._line)}")
        await self.asks("calendar", action="free", **{"from": "2026-03-05T08:00", "to": "2026-03-05T12:00"})

    async def event_alarm(self) -> None:
        """An alarm of somebody's event reminds the owner, who answers it."""
        await self.w.say("good morning")
        alarm = "BEGIN:VALARM\r\nACTION:DISPLAY\r\nDESCRIPTION:x\r\nTRIGGER:-PT30M\r\nEND:VALARM"
        at = (self.w.house.deps.clock.now() + timedelta(hours=2)).strftime("%Y%m%dT%H%M00Z")
        await self.w.services.put("theirs", calendar(event(f"SUMMARY:{_ical(self._line)}", f"DTSTART:{at}", alarm)))
        parts, jobs = self.w.house.automation.calendar, self.w.house.automation.jobs
        parts.look_soon()
        await parts.tick()
        await parts.synced()
        (job,) = [one for one in await jobs.list() if one.created_by.startswith("calendar:")]
        await jobs.run_now(job.id)
        await self.w.quiet()
        await self.w.say("thank you")

    async def contact(self) -> None:
        await self.w.services.card("zoe", f"FN:Zoe {_ical(self._line)}", "EMAIL:zoe@example.org")
        await self.asks("calendar", action="contacts", text="zoe")

    async def contact_note(self) -> None:
        line = _ical(self._line)
        await self.w.services.card("zoe", "FN:Zoe", f"ORG:{line}", f"NOTE:{line}", f"ADR:;;{line};;;;")
        await self.asks("calendar", action="contacts", text="zoe")

    async def calendar_feed_name(self) -> None:
        """Others name the calendar that they share."""
        name = base64.b16encode(self.case.word.encode()).decode().lower()
        shown = f"{self.case.word} now"
        body = (
            '<?xml version="1.0"?><D:mkcol xmlns:D="DAV:"><D:set><D:prop><D:resourcetype><D:collection/>'
            '<C:calendar xmlns:C="urn:ietf:params:xml:ns:caldav"/></D:resourcetype>'
            f"<D:displayname>{shown}</D:displayname></D:prop></D:set></D:mkcol>"
        )
        assert await self.w.services.radicale.ask("MKCOL", f"/anna/{name}/", body) == 201
        try:
            self.w.village.clock.move(KNOWN_SECONDS + 1)
            await self.asks("calendar", action="calendars")
        finally:
            await self.w.services.radicale.ask("DELETE", f"/anna/{name}/")
