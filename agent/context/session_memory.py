"""Saves the end of a session as a note, so that later sessions find by search what it was about."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePosixPath

from msgspec import Struct

from agent import no_reply
from agent.characters import is_blank
from agent.context.background_call import call_in_background
from agent.context.session_context import SessionContext
from agent.errors import WorkspaceFileError
from agent.messages import AssistantMessage, Text, ToolCall, UserMessage, is_of_a_person
from agent.models.notebook import NAME as NOTEBOOK
from agent.models.protocol import Request
from agent.transcript.entries import Entry, InvalidEntry, Said, decode
from agent.transcript.stored_transcript import StoredTranscript

TITLE_SECONDS = 15.0
TITLE_CHARS = 2000
MESSAGE_CHARS = 2000
MOST_OF_A_NAME = 50
"""Files of one name that are tried before giving up: the second of a name gets ``-2``."""
_SLUG_CHARS = 40
_SLUG_WORDS = 6
_ORDER = (
    "[Title request] Below is the end of a conversation. Give it a title of two to four plain English words, in small letters, and "
    "nothing else.\n\n"
)


class _Line(Struct, frozen=True):
    at: datetime
    who: str
    text: str


async def keep(context: SessionContext, count: int) -> str | None:
    """Write the last ``count`` messages to a note of the session's audience; return its path, or None when nobody said anything.

    An existing note is never changed, and the same end of a session is not kept twice.

    Raises:
        WorkspaceFileError: the transcript cannot be read, or the note cannot be written.
    """
    stored = context.transcript.stored
    try:
        lines = [_line(entry, context) for entry in await asyncio.to_thread(_last, stored, count)]
    except OSError as error:
        raise WorkspaceFileError(f"the transcript {stored.where} cannot be read: {error.strerror or error}") from error
    if not any(line.who != "Agent" for line in lines):
        return None
    day = lines[-1].at.date()
    if (known := await asyncio.to_thread(_kept_before, context, f"{day:%Y-%m-%d}-", lines[-1].at)) is not None:
        return known
    slug = await _slug(context, lines) or f"{lines[-1].at:%H%M}"
    text = _note(context, lines)
    for number in range(1, MOST_OF_A_NAME + 1):
        name = context.audience.folder / f"{day:%Y-%m-%d}-{slug}{f'-{number}' if number > 1 else ''}.md"
        call = ToolCall(id="keep", name="write", arguments={"path": str(name), "content": text, "mode": "create"})
        result = await context.keep(call, "session-memory")
        if not result.is_error:
            return str(name)
        if "exists already" not in result.text:
            raise WorkspaceFileError(f"the end of the session was not kept: {result.text}")
    raise WorkspaceFileError(f"there are {MOST_OF_A_NAME} notes named {day:%Y-%m-%d}-{slug}.md already")


def _last(stored: StoredTranscript, count: int) -> list[Entry]:
    """The last messages of people and of the agent, without commands, failed answers and silence, oldest first."""
    found: list[Entry] = []
    for _, line in stored.lines_backwards():
        if b'"kind":"said"' not in line[:60]:
            continue
        try:
            entry = decode(line)
        except InvalidEntry:
            continue
        if _is_real(entry):
            found.append(entry)
            if len(found) == count:
                break
    return found[::-1]


def _is_real(entry: Entry) -> bool:
    message = entry.body.message if isinstance(entry.body, Said) else None
    if message is not None and is_of_a_person(message):
        return not is_blank(message.text) and not message.text.lstrip().startswith("/")
    if isinstance(message, AssistantMessage):
        said = message.failure is None and not is_blank(no_reply.without_no_reply(message.text))
        return said and message.model != NOTEBOOK  # what the notebook says stands in the notes already, or is about itself
    return False


def _line(entry: Entry, context: SessionContext) -> _Line:
    assert isinstance(entry.body, Said)
    message = entry.body.message
    who = (message.sender or "Person") if isinstance(message, UserMessage) else "Agent"
    text = no_reply.without_no_reply(message.text).strip()
    return _Line(entry.at.astimezone(context.zone), who, text if len(text) <= MESSAGE_CHARS else text[:MESSAGE_CHARS] + " …")


def _note(context: SessionContext, lines: Sequence[_Line]) -> str:
    head = (
        f"# The end of a conversation, {lines[0].at:%Y-%m-%d %H:%M} to {lines[-1].at:%Y-%m-%d %H:%M}\n\n"
        f"{_mark(context, lines[-1].at)}: `{context.key}`, its last {len(lines)} messages.\n\n"
    )
    return head + "\n\n".join(f"**{line.who}** ({line.at:%H:%M}): {line.text}" for line in lines) + "\n"


def _mark(context: SessionContext, until: datetime) -> str:
    return f"Session {context.session} until {until:%H:%M:%S}"


def _kept_before(context: SessionContext, start: str, until: datetime) -> str | None:
    """The note in which this session was kept before, if there is one: a crash may come between the note and its mark."""
    folder = context.audience.folder
    sandbox = context.workspace.sandbox
    try:
        names = [entry.name for entry in sandbox.scan(folder) if entry.name.startswith(start)]
        for name in sorted(names):
            path = PurePosixPath(folder / name)
            if _mark(context, until).encode() in sandbox.read(path).data[:400]:
                return str(path)
    except WorkspaceFileError:
        return None
    return None


async def _slug(context: SessionContext, lines: Sequence[_Line]) -> str:
    """Ask the model for a title; an empty text when it has none to give, and in a group: no name holds words that may be forgotten."""
    if context.model.name == NOTEBOOK or context.audience.kind == "group":
        return ""
    text = _ORDER + "\n".join(f"{line.who}: {line.text}" for line in lines)[-TITLE_CHARS:]
    order = UserMessage(content=(Text(text=text),), at=context.clock.now())
    request = Request(system=(), tools=(), messages=(order,), max_output=256, cached=False, thinking="off")
    try:
        async with asyncio.timeout(TITLE_SECONDS):
            answer = await call_in_background(context, request, learn=False)
    except TimeoutError:
        return ""
    title = no_reply.without_no_reply(answer.text) if answer.failure is None and not answer.calls else ""
    words = re.findall(r"[a-z0-9]+", title.lower())
    return "-".join(words)[:_SLUG_CHARS].strip("-") if len(words) <= _SLUG_WORDS else ""
