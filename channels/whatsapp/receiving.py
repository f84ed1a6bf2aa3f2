"""Takes what a call of Meta's brings: messages, reports on what was sent, and errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from channels.common.event_guard import EventGuard
from channels.whatsapp.account_memory import AccountMemory
from channels.whatsapp.call_store import CallStore
from channels.whatsapp.delivery_reports import Report, report_of
from channels.whatsapp.error_codes import SHUT, meaning
from channels.whatsapp.inbound import Writer, context_of, moment, read
from channels.whatsapp.person_ids import PersonIds, names_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from channels.common.log import Log
    from channels.messages import Cursor, Inbound
    from channels.protocol import Clock, InboundSink
    from channels.whatsapp.settings import WhatsAppAccount

OLDEST_SECONDS: Final = 8 * 24 * 3600.0
"""Meta repeats a call for seven days: what is older is a replay by somebody else."""


class NotYet(Exception):
    """A report came before it is stored that its message was sent: Meta is to call again."""


@dataclass(slots=True)
class _Call:
    messages: list[Inbound] = field(default_factory=list)
    identities: list[tuple[str, str]] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)


class Receiver:
    """One account's reader of calls."""

    def __init__(
        self,
        settings: WhatsAppAccount,
        account: str,
        sink: InboundSink,
        memory: AccountMemory,
        *,
        clock: Clock,
        log: Log,
    ) -> None:
        self._settings = settings
        self._account = account
        self._sink = sink
        self._memory = memory
        self._windows = memory.windows
        self._reports = memory.reports
        self._clock = clock
        self._log = log
        self._guard = EventGuard(log, account)
        self._people = PersonIds()
        self._unsaved: set[str] = set()
        self._store = CallStore(sink, self._cursors, self._not_stored)
        self._strays: set[str] = set()
        self.own_number = ""
        self.trouble = ""

    async def begin(self) -> None:
        """Read what an earlier process stored."""
        await self._people.begin(self._sink)
        await self._windows.begin(self._sink)
        await self._reports.begin(self._sink)

    async def close(self) -> None:
        """Stop storing."""
        await self._store.close()

    async def take(self, payload: Mapping[str, Any]) -> None:
        """Take a call. Raises what kept it from being stored: Meta must call again then."""
        call = _Call()
        for value in self._values(payload):
            with self._guard.reading({"field": "messages"}):
                self._read(value, call)
        await self._take_messages(call)
        for report in call.reports:
            if report.state == "failed":
                await self._failed(report)
        self._sink.alive()

    def _values(self, payload: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield what is told of this number. A call holds several entries, each with several changes."""
        for entry in _listed(payload.get("entry")):
            for change in _listed(entry.get("changes")):
                value, field_name = change.get("value"), change.get("field")
                if not isinstance(value, dict) or field_name != "messages":
                    self._log.info("skipped an event", kind=str(field_name)[:40], account=self._account)
                    continue
                metadata = value.get("metadata")
                number = str(metadata.get("phone_number_id") or "") if isinstance(metadata, dict) else ""
                if number == self._settings.number:
                    yield value
                elif number not in self._strays and len(self._strays) < 20:  # noqa: PLR2004 - told once each
                    self._strays.add(number)
                    self._log.warning(
                        "a call is about another phone number id; set channels.whatsapp.webhookUrl", id=number[:30]
                    )

    def _read(self, value: Mapping[str, Any], call: _Call) -> None:
        contacts = names_of(value.get("contacts"))
        read_here = [
            (raw, one)
            for raw in _listed(value.get("messages"))
            if (one := self._guard.read(_about(raw), self._message, raw, contacts, call)) is not None
        ]
        read_here.sort(key=lambda pair: pair[1].at)
        call.messages += [one for _, one in read_here]
        for raw in _listed(value.get("statuses")):
            report = self._guard.read(_about(raw), self._report, raw)
            if report is not None:
                call.reports.append(report)
        for error in _listed(value.get("errors")):
            reason = str(error.get("message") or error.get("title") or "")[:200]
            self._log.warning("whatsapp reports an error", code=error.get("code"), error=reason, account=self._account)
            self.trouble = f"WhatsApp reports: {reason} ({error.get('code')})"

    def _message(self, raw: dict[str, Any], contacts: Mapping[str, Mapping[str, Any]], call: _Call) -> Inbound | None:
        number, user_id = str(raw.get("from") or ""), str(raw.get("from_user_id") or "")
        contact = contacts.get(number) or contacts.get(user_id) or {}
        user_id = user_id or str(contact.get("user_id") or "")
        person = self._people.resolve(number, user_id)
        age = self._clock.now() - moment(raw)
        if age.total_seconds() > OLDEST_SECONDS:
            self._log.warning("skipped a message that is older than Meta repeats any", **_about(raw), account=self._account)
            return None
        profile = contact.get("profile")
        quoted = str(context_of(raw).get("id") or "")
        reading = read(
            raw,
            Writer(
                account=self._account,
                own_number=self.own_number,
                person=person,
                name=str(profile.get("name") or profile.get("username") or "") if isinstance(profile, dict) else "",
                quoted=self._memory.texts.get(quoted) or "",
                quotes_us=self._memory.ours.get(quoted) is True
                or bool(self.own_number and context_of(raw).get("from") == self.own_number),
            ),
        )
        if reading.inbound is None:
            self._log.info("skipped an event", kind=reading.passed, account=self._account)
            return None
        call.identities.append((number, user_id))
        return reading.inbound if self._wants(reading.inbound) else None

    def _wants(self, inbound: Inbound) -> bool:
        if inbound.event == "reaction" and self._settings.reaction_notifications == "off":
            return False
        if inbound.conversation.kind == "direct":
            return self._settings.dm_policy != "disabled"
        if not self._settings.reads(inbound.conversation.id):
            self._log.info(
                "skipped a message of a group that is not read", group=inbound.conversation.id, account=self._account
            )
            return False
        return True

    def _report(self, raw: dict[str, Any]) -> Report:
        number, user_id = str(raw.get("recipient_id") or ""), str(raw.get("recipient_user_id") or "")
        person = "" if raw.get("recipient_type") == "group" else self._people.resolve(number, user_id)
        return report_of(raw, self._account, person)

    async def _take_messages(self, call: _Call) -> None:
        reopened = any(self._windows.shut(message.conversation.id) for message in call.messages)
        for message in call.messages:
            if message.event == "message":
                self._memory.latest.put(message.conversation.address, message.message_id)
                self._memory.note_text(message.message_id, message.text)
            opens = message.event in {"message", "button"}
            if opens and self._windows.heard(message.conversation.id, message.at.timestamp()):
                self._unsaved.add("windows")
        for report in call.reports:
            if self._reports.take(report):
                self._unsaved.add("reports")
        if call.messages or self._unsaved:
            await self._store.put(call.messages)
        for number, user_id in call.identities:
            await self._people.learn(number, user_id)
        if reopened:
            self._sink.ready()  # what waited for this person goes out

    def _cursors(self) -> list[Cursor]:
        """Return what has to be stored with the next messages."""
        unsaved, self._unsaved = self._unsaved, set()
        kept = {"windows": self._windows.cursor, "reports": self._reports.cursor}
        return [kept[name]() for name in sorted(unsaved)]

    def _not_stored(self) -> None:
        self._unsaved = {"windows", "reports"}

    async def _failed(self, report: Report) -> None:
        error = meaning(report.code, report.text)
        self._log.warning("a message failed", code=report.code, error=str(error), to=report.place.id, account=self._account)
        if report.code == SHUT:
            self._windows.found_shut(report.place.id)
        known = await self._sink.bounced(report.place, report.message, error)
        if not known and report.key and self._reports.is_fresh(report.key):
            raise NotYet("it is not stored yet that this message was sent")


def _listed(value: object) -> Iterator[dict[str, Any]]:
    return (one for one in value if isinstance(one, dict)) if isinstance(value, list) else iter(())


def _about(raw: Mapping[str, Any]) -> dict[str, str]:
    return {"id": str(raw.get("id"))[:60], "kind": str(raw.get("type") or raw.get("status"))[:40]}
