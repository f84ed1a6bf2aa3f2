"""The channel of the page in the browser. Whoever may write in it is the owner: the page's cookie was checked before.

A conversation is a session, so its address follows from the session's key. What is sent is kept (``conversation_log``) and so counts as
delivered, whether or not a page is open; open pages are told of it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

from channels.common.accepting import accept_or_tell
from channels.common.chunking import as_written
from channels.errors import ChannelError, Refused, Uncertain
from channels.live import Activity, Done, LiveEvent, Note, Rejected
from channels.messages import WEB, Attachment, ChatAddress, Inbound, Outbound, Sender, Sent
from channels.protocol import Clock, InboundSink
from channels.web.conversation_log import ConversationLog
from channels.web.stored_files import LARGEST as LARGEST_FILE
from channels.web.stored_files import StoredFile, StoredFiles

OWNER: Final = Sender(id="owner")
LONGEST: Final = 200_000
"""Characters of a message."""
MOST_FILES: Final = 10
STARTING_SECONDS: Final = 10.0
"""How long a message waits for the channel to run."""
_TOLD_ACTIVITIES: Final = 200


@dataclass
class Progress:
    """A turn that runs: what a page that is opened now has to show of it."""

    turn: str = ""
    draft: str = ""
    activities: list[dict[str, str]] = field(default_factory=list)

    @property
    def facts(self) -> dict[str, Any]:
        """The same as JSON."""
        return {"turn": self.turn, "draft": self.draft, "activities": self.activities}


async def _unknown(_: str) -> str:
    return ""


class WebChannel:
    """A ``Channel`` with ``Drafts``, ``DraftsEnd``, ``Fetches``, ``Follows`` and ``Shows``. ``tell`` is given what open pages show.

    ``folder`` is for what is kept, by what ``log`` makes for a session; ``on_stop`` stops the running turn of a conversation; ``during``
    returns which conversation is open under a session's key, "" before the first. ``answered`` returns the name of the message after
    which a turn's entries are named (``InboxRow.uid``), also of a turn that began before a restart; "" for one that is not known.
    """

    name = WEB
    account = "default"
    repeats_safely = True
    append_only = False
    shows: frozenset[Literal["buttons", "files"]] = frozenset({"buttons", "files"})

    def __init__(
        self,
        *,
        clock: Clock,
        folder: Path,
        tell: Callable[[str, Any], None],
        on_stop: Callable[[ChatAddress], Awaitable[None]],
        log: Callable[[Path, str], ConversationLog] = ConversationLog,
        during: Callable[[str], str] = lambda _: "",
        answered: Callable[[str], Awaitable[str]] = _unknown,
        largest: Callable[[], int] = lambda: LARGEST_FILE,
        together: Callable[[], int] = lambda: LARGEST_FILE,
    ) -> None:
        self.files = StoredFiles(folder / "files", largest)
        self._together = together
        self._clock = clock
        self._folder = folder
        self._tell = tell
        self._on_stop = on_stop
        self._make_log = log
        self._during = during
        self._logs: dict[str, ConversationLog] = {}
        self._answered = answered
        self._progress: dict[str, Progress] = {}
        self._open: dict[str, set[str]] = {}
        self._sink: asyncio.Future[InboundSink] | None = None
        self._writing = asyncio.Lock()

    async def said(self, session: str) -> list[dict[str, Any]]:
        """Return what was said in a session's conversation here, the oldest first."""
        return await asyncio.to_thread(self._log(session).lines)

    def progress(self, session: str) -> dict[str, Any] | None:
        """Return what is known of the turn that runs; None where none does."""
        found = self._progress.get(session)
        return None if found is None else found.facts

    async def say(
        self, session: str, text: str, *, key: str, files: Sequence[str] = (), recorded: bool = False
    ) -> Mapping[str, Any]:
        """Store a message, once for its key, and return what is kept of it; it is durable on return. ``files`` are ids of uploads.

        Its ``uid`` is its name in the ledger, its ``at`` when it came: what the agent does with it is later, however long storing takes.

        Raises:
            Refused: it is empty, too long, has a file that is not there, or its files are too large together.
            ChannelError: it was not stored.
        """
        clean = text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if len(clean) > LONGEST:
            raise Refused(f"a message may have {LONGEST:,} characters at most", hint="Send it as a file.")
        found = [self._upload(one) for one in files[:MOST_FILES]]
        if sum(one.size for one in found) > self._together():
            megabytes = f"{self._together() / 1024 / 1024:.4g}"
            raise Refused(f"the files of a message may have {megabytes} MB together", hint="Send them in several messages.")
        if not clean.strip() and not found:
            raise Refused("the message is empty", hint="Write something, or add a file.")
        inbound = self._inbound(session, clean, key, attachments=tuple(_attachment(one, recorded=recorded) for one in found))
        uid, open_ = self.uid_of(key), self._open.setdefault(session, set())
        line = {"who": "user", "text": clean, "key": f"in:{key}", "uid": uid, "files": [one.facts for one in found]}
        if not await asyncio.to_thread(self._log(session).holds, f"in:{key}"):
            open_.add(uid)
        try:
            await self._accept(inbound)
        except ChannelError:
            open_.discard(uid)
            raise
        return await self._keep(session, line | ({"voice": True} if recorded else {}), at=inbound.at)

    def waiting(self, session: str) -> frozenset[str]:
        """Return the names of messages that were typed and are not done with: no conversation may have them yet."""
        return frozenset(self._open.get(session, ()))

    async def press(self, session: str, target: str, value: str, *, key: str) -> None:
        """Press a button of a message that was sent here. Raises ChannelError; Refused where there is none such any more."""
        lines = await self.said(session)
        message = next((line for line in lines if line.get("key") == target), None)
        button = next((one for one in (message or {}).get("buttons", ()) if one["value"] == value), None)
        if button is None:
            raise Refused("there is no such button any more", hint="Reload the page.")
        await self._accept(self._inbound(session, value, key, event="button", target=target))
        await self._keep(session, {"who": "press", "key": f"in:{key}", "target": target, "label": button["label"]})

    async def stop(self, session: str) -> None:
        """Stop the running turn."""
        await self._on_stop(place_of(session))

    async def run(self, sink: InboundSink) -> None:
        """Serve pages until cancelled."""
        if self._sink is None or self._sink.done():
            self._sink = asyncio.get_running_loop().create_future()
        self._sink.set_result(sink)
        sink.alive()
        sink.ready()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._sink = None

    def chunks(self, markdown: str) -> list[str]:
        """Return the whole text as one piece, unless it is longer than any answer is."""
        return as_written(markdown, LONGEST, len) if len(markdown) > LONGEST else [markdown] if markdown.strip() else []

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:  # noqa: ARG002 - the protocol's
        """Keep a message, once for its key, and tell open pages."""
        session, turn = session_of(outbound.conversation), outbound.turn or ""
        log = self._log(session)
        line: dict[str, Any] = {"who": "agent", "text": outbound.text, "key": outbound.key}
        line["uid"] = (await self._answered(turn) if turn else "") or outbound.key.partition(".")[0]
        if outbound.buttons:
            line["buttons"] = [{"label": one.label, "value": one.value} for one in outbound.buttons]
        try:
            if await asyncio.to_thread(log.holds, outbound.key):
                return Sent(platform_id=outbound.key)
            if outbound.enclosure is not None:
                one = outbound.enclosure
                stored = await asyncio.to_thread(self.files.copy_of, one.path, one.name, one.media_type)
                line["files"] = [stored.facts]
            await self._keep(session, line)
        except OSError as error:
            raise Uncertain(
                f"it could not be kept for the page: {error.strerror}", hint="Free some space on the disk."
            ) from error
        return Sent(platform_id=outbound.key)

    async def typing(self, conversation: ChatAddress) -> None:
        """Tell that an answer is being written."""
        session = session_of(conversation)
        if session not in self._progress:
            self._progress[session] = Progress()
            self._tell("chat.typing", {"session": session})

    async def draft(self, conversation: ChatAddress, turn: str, text: str) -> None:
        """Tell what is new of the reply so far: the text from ``at`` on."""
        session = session_of(conversation)
        progress = self._of_turn(session, turn)
        before, progress.draft = progress.draft, text
        at = len(before) if text.startswith(before) else 0
        if text != before:
            self._tell("chat.draft", {"session": session, "turn": progress.turn, "at": at, "text": text[at:]})

    def draft_ended(self, conversation: ChatAddress, turn: str) -> None:
        """Note that a turn shows no more previews."""
        del turn
        session = session_of(conversation)
        self._progress.pop(session, None)
        self._tell("chat.idle", {"session": session})

    def turn_began(self, conversation: ChatAddress, turn: str, messages: Sequence[str]) -> None:  # noqa: ARG002 - the protocol's
        """Tell that a turn runs."""
        session = session_of(conversation)
        self._progress[session] = Progress(turn)
        self._tell("chat.typing", {"session": session})

    def show(self, conversation: ChatAddress, frame: LiveEvent) -> None:
        """Tell of an event of a turn."""
        session = session_of(conversation)
        match frame:
            case Activity(text=text, state=state):
                activities = self._progress.setdefault(session, Progress()).activities
                activities.append({"text": text, "state": state})
                del activities[:-_TOLD_ACTIVITIES]
                self._tell("chat.activity", {"session": session, "text": text, "state": state})
            case Note(text=text):
                self._tell("chat.note", {"session": session, "text": text, "at": self._clock.now().isoformat()})
            case Done(key=key, facts=facts):
                self._ended(session, key)
                self._tell("chat.done", {"session": session, "uid": self.uid_of(key), "stopped": bool(facts.get("stopped"))})
            case Rejected(key=key, reason=reason, hint=hint):
                self._ended(session, key)
                self._tell("chat.rejected", {"session": session, "uid": self.uid_of(key), "reason": reason, "hint": hint})

    async def fetch(self, attachment: Attachment, path: Path, limit: int) -> None:
        """Copy an upload; see ``channels.protocol.Fetches``."""
        await asyncio.to_thread(self.files.fetch, attachment.handle, path, limit)

    def uid_of(self, key: str) -> str:
        """Return the name of a message in the ledger (``InboxRow.uid``), after which its turn's entries are named."""
        return hashlib.sha256(f"{self.name}:{self.account}\0m:{key}".encode()).hexdigest()[:16]

    async def close(self) -> None:
        """Nothing is open."""

    def _ended(self, session: str, key: str) -> None:
        """Forget that a message waits, and what was shown of a command, which has no turn."""
        self._open.get(session, set()).discard(self.uid_of(key))
        if (found := self._progress.get(session)) is not None and not found.turn:
            del self._progress[session]

    def _of_turn(self, session: str, turn: str) -> Progress:
        found = self._progress.get(session)
        if found is None or found.turn not in {"", turn}:
            found = self._progress[session] = Progress()
        found.turn = turn
        return found

    def _log(self, session: str) -> ConversationLog:
        return self._logs.setdefault(session, self._make_log(self._folder, session))

    async def _keep(self, session: str, line: Mapping[str, Any], *, at: datetime | None = None) -> Mapping[str, Any]:
        kept: Mapping[str, Any] = {**line, "at": (at or self._clock.now()).isoformat()}
        if during := self._during(session):
            kept = {**kept, "during": during}
        async with self._writing:
            kept = await asyncio.to_thread(self._log(session).add, kept)
        self._tell("chat.said", {"session": session, "line": kept})
        return kept

    def _upload(self, wanted: str) -> StoredFile:
        found = self.files.get(wanted)
        if found is None:
            raise Refused("a file of this message is not there any more", hint="Add it again.")
        return found

    def _inbound(self, session: str, text: str, key: str, **more: Any) -> Inbound:
        return Inbound(
            conversation=place_of(session),
            sender=OWNER,
            text=text,
            at=self._clock.now(),
            key=f"w:{key}",
            alias=f"m:{key}",
            message_id=key,
            mentioned=True,
            hints={"session": session},
            **more,
        )

    async def _accept(self, inbound: Inbound) -> None:
        if self._sink is None:
            self._sink = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(STARTING_SECONDS):
                sink = await asyncio.shield(self._sink)
        except TimeoutError:
            raise ChannelError("the gateway is not ready", hint="Send it again in a moment.") from None
        await accept_or_tell(sink, inbound)


def place_of(session: str) -> ChatAddress:
    """Return the address of the conversation of a session. Its parts are joined by ``/``, which no session key holds."""
    return ChatAddress(channel=WEB, kind="direct", id=session.removeprefix("agent:").replace(":", "/"))


def session_of(place: ChatAddress) -> str:
    """Return the key of the session that a conversation is."""
    return "agent:" + place.id.replace("/", ":")


def _attachment(file: StoredFile, *, recorded: bool) -> Attachment:
    spoken = recorded and file.kind == "audio"
    return Attachment(
        kind="voice" if spoken else file.kind,
        handle=file.id,
        name=file.name,
        media_type=file.type,
        size=file.size,
        recorded=spoken,
    )
