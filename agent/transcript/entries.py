"""The entries of a transcript. They are only ever added; what the model sees is derived from them (``agent.transcript.history_view``)."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, TypeAdapter, ValidationError

from agent.messages import Message, Taint, ToolMessage, Usage, UserMessage

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
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
    kind: Literal["opened"] = "opened"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message."""

    message: Message
    kind: Literal["said"] = "said"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentPart:
    """A part of an answer that is still being written and is about to be sent. ``Said`` with the whole answer follows.

    ``opening`` and ``closing`` are put around the words so that they can be read alone: the ends of a code block that goes on.
    """

    text: str
    opening: str = ""
    closing: str = ""
    kind: Literal["ahead"] = "ahead"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushBegun:
    """A memory flush is about to run. ``cycle`` is the id of the latest compaction entry, or None before the first."""

    cycle: str | None
    reason: str
    kind: Literal["flush_begun"] = "flush_begun"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushReceipt:
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
    kind: Literal["flush_receipt"] = "flush_receipt"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenNote:
    """A note before and after an append."""

    path: str
    bytes_before: int
    bytes_after: int
    sha256_before: str | None
    sha256_after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRefreshed:
    """The provider was asked for nothing during a silence, so that it keeps the prompt cached for another while."""

    usage: Usage | None = None
    kind: Literal["cache_refreshed"] = "cache_refreshed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
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
    kind: Literal["compacted"] = "compacted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsCleared:
    """Tool results before the entry ``until`` are shown to the model as a placeholder: the step before a summary, or instead of one."""

    until: str
    kind: Literal["results_cleared"] = "results_cleared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
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
    kind: Literal["pruned"] = "pruned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """A text that stays in the prompt through all compactions, and in later sessions."""

    text: str
    kind: Literal["pinned"] = "pinned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpinned:
    """A removed pin."""

    text: str
    kind: Literal["unpinned"] = "unpinned"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesChanged:
    """Workspace files changed while the provider had the prompt cached. ``note`` tells the model how; the prompt keeps the former text."""

    note: str
    kind: Literal["files_changed"] = "files_changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """A turn ended without answering its messages. ``note`` tells the model so, after the last message.

    Entries in ``withdrawn`` (ids) are not shown any more: those messages come again in a turn of their own. ``taint`` names the
    sources of the untrusted text that the note quotes.
    """

    note: str
    withdrawn: tuple[str, ...] = ()
    taint: Taint = ()
    kind: Literal["unanswered"] = "unanswered"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded:
    """A turn is over. ``facts`` is for people: duration, figures, the reason if it was stopped."""

    turn: str
    outcome: Literal["answered", "silent", "failed", "stopped"]
    facts: dict[str, Any] = field(default_factory=dict)
    kind: Literal["turn_ended"] = "turn_ended"


Body = Annotated[
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
    | TurnEnded,
    Discriminator("kind"),
]
_BODY: TypeAdapter[Any] = TypeAdapter(Body, config=ConfigDict(defer_build=True))


def make_ready() -> None:
    """Make what reads and writes entries, which is not made before it is needed. Blocks for some tens of milliseconds, once."""
    _BODY.rebuild()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a transcript. ``id`` is ``<turn>:<n>``: derived, so that a repeated append is recognised."""

    id: str
    parent: str | None
    at: datetime
    body: Body


def taint_of(body: Body) -> tuple[str, ...]:
    """Return the sources of the untrusted text in an entry."""
    match body:
        case Opened(taint=taint) | Compacted(taint=taint) | Unanswered(taint=taint):
            return taint
        case Said(message=UserMessage(taint=taint) | ToolMessage(taint=taint)):
            return taint
    return ()


class InvalidEntry(ValueError):
    """A line is not a valid entry. ``foreign`` says that it is complete but was changed or written by another program."""

    def __init__(self, message: str, *, foreign: bool = False) -> None:
        super().__init__(message)
        self.foreign = foreign


def encode(entry: Entry) -> bytes:
    """Return the entry as one line. Lone surrogates become U+FFFD, so that no reader ever trips over them."""
    try:
        body = _BODY.dump_json(entry.body, by_alias=True)
    except (ValueError, UnicodeEncodeError):
        body = _BODY.dump_json(_BODY.validate_python(_clean(_BODY.dump_python(entry.body, by_alias=True))), by_alias=True)
    head = json.dumps(
        {"v": VERSION, "kind": entry.body.kind, "id": entry.id, "parent": entry.parent, "t": entry.at.isoformat()},
        ensure_ascii=False,
        allow_nan=False,
        separators=(",", ":"),
    ).encode()
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
        raw = json.loads(payload + b"}")
        return Entry(
            id=raw["id"], parent=raw["parent"], at=datetime.fromisoformat(raw["t"]), body=_BODY.validate_python(raw["body"])
        )
    except (ValueError, KeyError, TypeError, ValidationError) as error:
        raise InvalidEntry(f"cannot be read: {type(error).__name__}", foreign=True) from error


def with_body_values(values: Any) -> Body:
    """Return a body of its JSON values, as ``encode`` writes them. Raises ValidationError."""
    body: Body = _BODY.validate_python(values)
    return body


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item) for item in value]
    return value
