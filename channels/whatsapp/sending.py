"""Sends messages. Each carries the key of its outbox row, by which Meta's reports settle what is in doubt. Loads aiohttp."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from channels.common.json_answers import BadAnswer
from channels.errors import ChannelBroken, ChannelError, NotSent
from channels.messages import Outbound, OutboundFile, Sent, mark
from channels.whatsapp import message_bodies as bodies
from channels.whatsapp.account_memory import AccountMemory
from channels.whatsapp.delivery_reports import Report
from channels.whatsapp.error_codes import broken, is_template, meaning, send_error, template_line
from channels.whatsapp.graph_api import TROUBLE, GraphApi, Refused
from channels.whatsapp.markup import written
from channels.whatsapp.media_transfer import Shown, shown_as, size_of, upload

if TYPE_CHECKING:
    from channels.common.log import Log
    from channels.messages import ChatAddress
    from channels.protocol import Clock, InboundSink
    from channels.whatsapp.settings import WhatsAppAccount

    Record = Callable[[str], Awaitable[None]]

TEXT_BEFORE: Final = "text "
"""Begins what is recorded once the text was sent that goes before a file which can have none."""
SHOWN_SECONDS: Final = 20.0
"""WhatsApp shows for 25 seconds that an answer is being written."""
_WAITS: Final = "more than 24 hours have passed since they wrote, and WhatsApp takes no message until they write again"


class Outgoing:
    """Sends for one number. ``refused`` is called when Meta no longer accepts the token."""

    def __init__(
        self,
        settings: WhatsAppAccount,
        account: str,
        api: GraphApi,
        sink: InboundSink,
        memory: AccountMemory,
        *,
        clock: Clock,
        log: Log,
        refused: Callable[[ChannelBroken], None],
    ) -> None:
        self._settings = settings
        self._account = account
        self._api = api
        self._sink = sink
        self._memory = memory
        self._windows = memory.windows
        self._reports = memory.reports
        self._clock = clock
        self._log = log
        self._refused = refused
        self._shown: dict[str, float] = {}
        self._template_error = ""

    @property
    def template_error(self) -> str:
        """Why Meta does not take the template, "" if it does."""
        return self._template_error

    async def send(self, outbound: Outbound, record: Record) -> Sent:
        """Send a chunk. One in doubt waits for Meta's report, and is repeated with a mark where none comes.

        Raises:
            NotSent: it did not arrive.
            Uncertain: it may have.
        """
        if outbound.uncertain:
            found = await self._reports.proof(outbound.key, self._settings.confirm_seconds)
            if isinstance(found, Report):
                raise await self._undelivered(outbound.conversation, found)
            if found is not None:
                return self._done(outbound, found)
        else:
            self._reports.forget(outbound.key)
        if self._windows.shut(outbound.conversation.id):
            raise await self._waits(outbound.conversation)
        try:
            message = await self._sent(replace(outbound, text=mark(outbound) + outbound.text), record)
        except TROUBLE as error:
            raise await self._told(error, outbound) from error
        if (failure := self._reports.failed(outbound.key)) is not None:  # Meta was quicker with the report than with the answer
            raise await self._undelivered(outbound.conversation, failure)
        return self._done(outbound, message)

    def _done(self, outbound: Outbound, message: str) -> Sent:
        self._reports.settle(outbound.key)
        self._memory.note_text(message, outbound.text)
        self._memory.ours.put(message, True)  # noqa: FBT003 - a mark, not a switch
        self._shown.pop(outbound.conversation.address, None)
        return Sent(platform_id=message)

    async def _sent(self, outbound: Outbound, record: Record) -> str:
        if outbound.enclosure is not None:
            return await self._send_file(outbound, outbound.enclosure, record)
        group = outbound.conversation.kind == "group"
        text = outbound.text
        return await self._post(
            outbound, bodies.choices(text, outbound.buttons, group=group) if outbound.buttons else bodies.text(text)
        )

    async def _send_file(self, outbound: Outbound, file: OutboundFile, record: Record) -> str:
        size = await size_of(file, self._settings.media_max_mb)
        shown = shown_as(file, size)
        if shown is None:
            note = f"📎 {file.name} (WhatsApp takes no files of this kind; it is in my workspace)"
            return await self._post(outbound, bodies.text("\n\n".join(filter(None, [outbound.text, note]))))
        media_id = await upload(self._api, file, shown.media_type, size, self._settings.timeout_seconds)
        caption = await self._caption(outbound, shown, record)
        return await self._post(
            outbound, bodies.media(shown.kind, media_id, caption=caption, name=file.name, voice=shown.voice)
        )

    async def _caption(self, outbound: Outbound, shown: Shown, record: Record) -> str:
        """Return the text that goes with a file. What has no place there is a message before it, once."""
        caption = written(outbound.text) if outbound.text.strip() else ""
        fits = shown.kind not in {"audio", "sticker"} and len(caption) <= bodies.CAPTION and not outbound.buttons
        if fits or not (caption or outbound.buttons):
            return caption
        if not (outbound.recorded or "").startswith(TEXT_BEFORE):
            group = outbound.conversation.kind == "group"
            body = (
                bodies.choices(outbound.text, outbound.buttons, group=group) if outbound.buttons else bodies.text(outbound.text)
            )
            before = await self._post(replace(outbound, key=f"{outbound.key}.text"), body)
            await record(TEXT_BEFORE + before)
        return ""

    async def _post(self, outbound: Outbound, body: dict[str, Any]) -> str:
        head = bodies.addressed(outbound.conversation, key=outbound.key, reply_to=outbound.reply_to)
        answer = await self._api.post(f"{self._api.number}/messages", {**head, **body})
        return _message_of(answer)

    # -- when it cannot be sent --------------------------------------------------------------------------------------

    async def _told(self, error: BaseException, outbound: Outbound) -> ChannelError:
        if isinstance(error, Refused) and (refused := broken(error, self._account)) is not None:
            self._refused(refused)
        told = send_error(error, outbound.attempt)
        if isinstance(told, NotSent) and told.held:
            self._windows.found_shut(outbound.conversation.id)
            return await self._waits(outbound.conversation)
        return told

    async def _undelivered(self, place: ChatAddress, report: Report) -> NotSent:
        error = meaning(report.code, report.text)
        if not error.held:
            return error
        self._windows.found_shut(place.id)
        return await self._waits(place)

    async def _waits(self, place: ChatAddress) -> NotSent:
        """Return the error of a message that waits until its person writes; ask them by a template to do so."""
        template = self._settings.template
        if template is None:
            return NotSent(_WAITS, held=True, hint="a template can ask them to (docs/whatsapp.md, The 24 hours)")
        if not self._windows.asked(place.id):
            await self._ask(place)
        if self._template_error:
            return NotSent(f"{_WAITS}; the template {template.name!r} was refused: {self._template_error}", held=True)
        return NotSent(f"{_WAITS}; the template {template.name!r} asked them to", held=True)

    async def _ask(self, place: ChatAddress) -> None:
        """Send the template, once until the person writes: each costs money."""
        template = self._settings.template
        assert template is not None
        await self._sink.accept([], self._windows.note_asked(place.id))
        try:
            await self._api.post(f"{self._api.number}/messages", {**bodies.addressed(place), **bodies.template(template)})
        except Refused as error:
            line = template_line(error.code, error.text) if is_template(error.code) else str(send_error(error))
            self._template_error = line
            self._log.warning("the template was refused", template=template.name, error=line, account=self._account)
        except TROUBLE as error:
            self._log.warning("the template could not be sent", error=type(error).__name__, account=self._account)
        else:
            self._template_error = ""

    # -- only for show -----------------------------------------------------------------------------------------------

    async def typing(self, place: ChatAddress) -> None:
        """Mark the newest message as read, and show that an answer is being written. Raises one of TROUBLE."""
        message, now = self._memory.latest.get(place.address), self._clock.monotonic()
        if message is None or place.kind == "group" or not self._settings.read_marks:
            return
        if now - self._shown.get(place.address, -SHOWN_SECONDS) < SHOWN_SECONDS:
            return
        self._shown[place.address] = now
        while len(self._shown) > 1000:  # noqa: PLR2004 - chats that are being answered
            del self._shown[next(iter(self._shown))]
        await self._api.post(f"{self._api.number}/messages", bodies.seen(message))

    async def react(self, place: ChatAddress, message: str, emoji: str | None) -> None:
        """Put an emoji under a message in place of an earlier one, or take it off. Raises one of TROUBLE."""
        await self._api.post(f"{self._api.number}/messages", {**bodies.addressed(place), **bodies.reaction(message, emoji)})

    async def answers(self) -> bool:
        """Return whether Meta answers."""
        try:
            await self._api.get(self._api.number, fields="id")
        except TROUBLE:
            return False
        return True


def _message_of(answer: dict[str, Any]) -> str:
    try:
        return str(answer["messages"][0]["id"])
    except (LookupError, TypeError) as error:
        raise BadAnswer("the answer names no message") from error
