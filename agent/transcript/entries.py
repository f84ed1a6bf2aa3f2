"""The entries of a transcript. They are only ever added; what the model sees is derived from them (``agent.transcript.history_view``).

Values that are the default may be left out of a line, so a default of a body or a message never changes.
"""

from __future__ import annotations

import json
import zlib
from datetime import datetime
from typing import Any, ClassVar, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from agent.messages import AssistantMessage, Message, Taint, ToolMessage, Usage, UserMessage
from agent.record_reader import RecordReader

VERSION = 1


class Opened(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="opened"):
    """The first entry of a session: its agent and key, its start-up notes, and the pins of the previous session.

    ``taint`` names the sources of the untrusted text in the notes. ``audience`` is who may read it, "owner" or as ``kind:key``: the key
    of an isolated session does not say it. Transcripts of earlier versions lack it.
    """

    agent: str
    session: str
    key: str
    audience: str = ""
    notes: str = ""
    pins: tuple[str, ...] = ()
    taint: Taint = ()
    kind: ClassVar[Literal["opened"]] = "opened"


class Said(Struct, frozen=True, kw_only=True, tag_field="kind", tag="said"):
    """One message."""

    message: Message
    kind: ClassVar[Literal["said"]] = "said"


class SentPart(Struct, frozen=True, kw_only=True, tag_field="kind", tag="ahead"):
    """A part of an answer that is still being written and is about to be sent. ``Said`` with the whole answer follows.

    ``opening`` and ``closing`` are put around the words so that they can be read alone: the ends of a code block that goes on.
    """

    text: str
    opening: str = ""
    closing: str = ""
    kind: ClassVar[Literal["ahead"]] = "ahead"


class FlushBegun(Struct, frozen=True, kw_only=True, tag_field="kind", tag="flush_begun"):
    """A memory flush is about to run. ``cycle`` is the id of the latest compaction entry, or None before the first."""

    cycle: str | None
    reason: str
    kind: ClassVar[Literal["flush_begun"]] = "flush_begun"


class FlushReceipt(Struct, frozen=True, kw_only=True, tag_field="kind", tag="flush_receipt"):
    """The result of a memory flush.

    ``written`` are the notes it appended to, with sizes in bytes and SHA-256 before and after (None: the file was new).
    ``outcome`` is "written", "nothing" (the model answered NO_REPLY) or "extracted" (written by rule, without a model).
    """

    cycle: str | None
    outcome: Literal["written", "nothing", "extracted"]
    reason: str = ""
    written: tuple[WrittenNote, ...] = ()
    usage: Usage | None = None
    problem: str = ""
    kind: ClassVar[Literal["flush_receipt"]] = "flush_receipt"


class WrittenNote(Struct, frozen=True, kw_only=True):
    """A note before and after an append."""

    path: str
    bytes_before: int
    bytes_after: int
    sha256_before: str | None
    sha256_after: str


class CacheRefreshed(Struct, frozen=True, kw_only=True, tag_field="kind", tag="cache_refreshed"):
    """The provider was asked for nothing during a silence, so that it keeps the prompt cached for another while."""

    usage: Usage | None = None
    kind: ClassVar[Literal["cache_refreshed"]] = "cache_refreshed"


class Compacted(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="compacted"):
    """From here on the model sees ``summary``, ``pins``, the entries in ``waiting`` (ids) and those from ``first_kept`` on.

    ``waiting`` are messages before ``first_kept`` that had no answer yet. ``dropped`` counts messages that were left out without
    being summarised, in this compaction and those before. Nothing is removed from disk. ``taint`` names the sources of the untrusted
    text in what was summarised.
    """

    summary: str
    first_kept: str
    tokens_before: int
    tokens_after: int
    model: str
    reason: str
    pins: tuple[str, ...] = ()
    usage: Usage | None = None
    waiting: tuple[str, ...] = ()
    dropped: int = 0
    taint: Taint = ()
    kind: ClassVar[Literal["compacted"]] = "compacted"


class ResultsCleared(Struct, frozen=True, kw_only=True, tag_field="kind", tag="results_cleared"):
    """Tool results before the entry ``until`` are shown to the model as a placeholder: the step before a summary, or instead of one."""

    until: str
    kind: ClassVar[Literal["results_cleared"]] = "results_cleared"


class Pruned(Struct, frozen=True, kw_only=True, tag_field="kind", tag="pruned"):
    """Tool results that the model is shown in part (``trimmed``: head and tail) or not at all (``cleared``) from here on.

    ``aged`` are shown with a shorter head and tail than ``trimmed``. All hold ids of entries. What is needed to make the same bytes
    again stands here, so that changed settings change nothing.
    """

    trimmed: tuple[str, ...] = ()
    cleared: tuple[str, ...] = ()
    head_chars: int = 0
    tail_chars: int = 0
    placeholder: str = ""
    aged: tuple[str, ...] = ()
    aged_head_chars: int = 0
    aged_tail_chars: int = 0
    kind: ClassVar[Literal["pruned"]] = "pruned"


class Pinned(Struct, frozen=True, kw_only=True, tag_field="kind", tag="pinned"):
    """A text that stays in the prompt through all compactions, and in later sessions."""

    text: str
    kind: ClassVar[Literal["pinned"]] = "pinned"


class Unpinned(Struct, frozen=True, kw_only=True, tag_field="kind", tag="unpinned"):
    """A removed pin."""

    text: str
    kind: ClassVar[Literal["unpinned"]] = "unpinned"


class FilesChanged(Struct, frozen=True, kw_only=True, tag_field="kind", tag="files_changed"):
    """Workspace files changed while the provider had the prompt cached. ``note`` tells the model how; the prompt keeps the former text."""

    note: str
    kind: ClassVar[Literal["files_changed"]] = "files_changed"


class Unanswered(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="unanswered"):
    """A turn ended without answering its messages. ``note`` tells the model so, after the last message.

    Entries in ``withdrawn`` (ids) are not shown any more: those messages come again in a turn of their own. ``taint`` names the
    sources of the untrusted text that the note quotes.
    """

    note: str
    withdrawn: tuple[str, ...] = ()
    taint: Taint = ()
    kind: ClassVar[Literal["unanswered"]] = "unanswered"


class TurnEnded(Struct, frozen=True, kw_only=True, tag_field="kind", tag="turn_ended"):
    """A turn is over. ``facts`` is for people: duration, figures, the reason if it was stopped."""

    turn: str
    outcome: Literal["answered", "silent", "failed", "stopped"]
    facts: dict[str, Any] = field(default_factory=dict)
    kind: ClassVar[Literal["turn_ended"]] = "turn_ended"


Body: TypeAlias = (
    Opened
    | Said
    | SentPart
    | FlushBegun
    | FlushReceipt
    | CacheRefreshed
    | Compacted
    | ResultsCleared
    | Pruned
    | Pinned
    | Unpinned
    | FilesChanged
    | Unanswered
    | TurnEnded
)


class Entry(Struct, frozen=True, kw_only=True, rename={"at": "t"}):
    """One line of a transcript. ``id`` is ``<turn>:<n>``: derived, so that a repeated append is recognised."""

    id: str
    parent: str | None
    at: datetime
    body: Body


def calls_model(body: Body) -> bool:
    """Whether an entry is of a call that the model was made to answer, and that its provider reported the use of."""
    match body:
        case FlushReceipt(usage=usage) | CacheRefreshed(usage=usage) | Said(message=AssistantMessage(usage=usage)):
            return usage is not None
    return False


def taint_of(body: Body) -> tuple[str, ...]:
    """Return the sources of the untrusted text in an entry."""
    match body:
        case Opened(taint=taint) | Compacted(taint=taint) | Unanswered(taint=taint):
            return taint
        case Said(message=UserMessage(taint=taint) | ToolMessage(taint=taint)):
            return taint
    return ()


_ENTRIES: Final = RecordReader[Entry](Entry, strict=False)
_BODIES: Final = RecordReader[Body](Body, strict=False)


class InvalidEntry(ValueError):
    """A line is not a valid entry. ``foreign`` says that it is complete but was changed or written by another program."""

    def __init__(self, message: str, *, foreign: bool = False) -> None:
        super().__init__(message)
        self.foreign = foreign


def encode(entry: Entry) -> bytes:
    """Return the entry as one line. Lone surrogates become U+FFFD, so that no reader ever trips over them."""
    try:
        body = msgspec.json.encode(entry.body)
    except UnicodeEncodeError:
        body = msgspec.json.encode(_clean(msgspec.to_builtins(entry.body)))
    head = msgspec.json.encode(
        {"v": VERSION, "kind": entry.body.kind, "id": entry.id, "parent": entry.parent, "t": entry.at.isoformat()}
    )
    payload = head[:-1] + b',"body":' + body
    return payload + b',"crc":%d}\n' % zlib.crc32(payload)


def decode(line: bytes) -> Entry:
    """Read one line back.

    Raises:
        InvalidEntry: it is not a whole entry, or its checksum does not fit.
    """
    payload, mark, tail = line.rstrip(b"\r\n").rpartition(b',"crc":')
    if not mark or not tail.endswith(b"}") or not tail[:-1].isdigit():
        raise InvalidEntry("no checksum")
    if zlib.crc32(payload) != int(tail[:-1]):
        raise InvalidEntry("the checksum does not fit", foreign=True)
    try:
        return _ENTRIES.from_values(json.loads(payload + b"}"))
    except ValueError as error:
        raise InvalidEntry(f"cannot be read: {type(error).__name__}", foreign=True) from error


def with_body_values(values: Any) -> Body:
    """Return a body of its JSON values, as ``encode`` writes them. Raises ValueError."""
    return _BODIES.from_values(values)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item) for item in value]
    return value
