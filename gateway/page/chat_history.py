"""A conversation as the page shows it: of the transcript, and of what its channel keeps besides (questions, files, replies of commands).

A transcript is read from its end, a piece at a time, so that the length of a conversation does not matter. What a page was sent for a
turn replaces the turn's text in the transcript, and what was typed in it the stored message, so that nothing is shown twice.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from agent import no_reply
from agent.loop.tool_runner import came_of, outcome_name
from agent.messages import AssistantMessage, ToolMessage, UserMessage
from agent.taint import apart
from agent.transcript.entries import Compacted, Entry, FlushReceipt, InvalidEntry, Said, decode
from agent.transcript.stored_transcript import StoredTranscript
from gateway.page.markdown_tree import tree_of

_PIECE: Final = 256 * 1024
RESULT_CHARS: Final = 4000
"""How much of a tool's result is shown; a session's export has all of it."""
SHOWN_CHARS: Final = 100_000
_ARGUMENT_CHARS: Final = 2000
_SNIPPET: Final = 160


@dataclass
class History:
    """A part of a conversation. ``before`` is where the part before it ends; None at the beginning."""

    items: list[dict[str, Any]] = field(default_factory=list)
    before: int | None = None


def read_history(
    stored: StoredTranscript | None,
    said: Sequence[Mapping[str, Any]],
    started: datetime | None,
    before: int | None,
    limit: int,
    *,
    session: str = "",
    waiting: Collection[str] = (),
) -> History:
    """Return the last items before a byte of a transcript, and what the channel keeps of the same time. Blocking.

    What it keeps of a turn belongs to the transcript that has the turn, whenever it was; the rest to the conversation that was open
    then, which is ``session`` and began at ``started``: it may be one that was restored, and another one may lie between. Commands
    and their replies are of the conversation that was open when they were stored (``during``), the first command of all of the one in
    which it was answered. What was typed and is ``waiting`` for its turn is shown, whichever conversation will have it.
    """
    found, rest = _tail(stored, before, limit) if stored is not None else ([], None)
    since = max(found[0][1].at, started or found[0][1].at) if found and rest is not None else started
    until = None if stored is None or before is None else _instant(stored, before)
    here = {name for _, entry in found for name in _names(entry.id)}
    earliest = found[0][1].at if found and rest is not None else None
    answered = _answered_elsewhere(said, session)
    first = {line["uid"] for line in said if line.get("who") == "agent" and line.get("during") == session != ""}
    own = [
        line
        for line in said
        if line.get("uid") in here
        or (line.get("who") == "user" and line.get("uid") in waiting)
        or (line.get("uid") in first and not line.get("during") and _within(line, earliest, until))
        or (_within(line, since, until) and line.get("during", session) in {session, ""})
        or (line.get("uid") not in answered and line.get("during", "") == session != "" and _within(line, earliest, until))
    ]
    typed = {line["uid"] for line in own if line.get("who") == "user"}
    sent = {line["uid"] for line in own if line.get("who") == "agent" and line.get("text") and not line.get("buttons")}
    outcomes = {
        entry.id: entry.body.message.text for _, entry in found if isinstance(entry.body, Said) and "~approval-" in entry.id
    }
    items = [item for place, entry in found for item in _items(place, entry, typed, sent, outcomes)]
    pressed = {line["target"]: line["label"] for line in said if line.get("who") == "press"}
    items += [_own_item(line, pressed) for line in own if line.get("who") != "press"]
    return History(sorted(items, key=lambda item: item["at"]), rest)


def asked_in(item: Mapping[str, Any]) -> str:
    """Return the name of the question that the buttons of an item decide (``/approve NAME once``); "" where there is none."""
    words = [str(one.get("value", "")).split() for one in item.get("buttons", ())]
    return next((found[1] for found in words if len(found) > 1 and found[0] == "/approve"), "")


def search_history(stored: StoredTranscript, words: Sequence[str], most: int) -> list[dict[str, Any]]:
    """Return the messages of a transcript that hold all ``words`` (in lower case), the latest first. Blocking."""
    found: list[dict[str, Any]] = []
    for place, line in stored.lines_backwards():
        if b'"kind":"said"' not in line and b'"said"' not in line:
            continue
        entry = _decoded(line)
        if entry is None or not isinstance(entry.body, Said) or isinstance(entry.body.message, ToolMessage):
            continue
        text = entry.body.message.text
        folded = text.casefold()
        if all(word in folded for word in words):
            at = max(0, folded.find(words[0]) - _SNIPPET // 3)
            who = "user" if isinstance(entry.body.message, UserMessage) else "agent"
            found.append({"id": entry.id, "o": place, "at": entry.at.isoformat(), "who": who, "text": text[at : at + _SNIPPET]})
            if len(found) == most:
                break
    return found


def _tail(stored: StoredTranscript, before: int | None, limit: int) -> tuple[list[tuple[int, Entry]], int | None]:
    """Return the last entries that are shown, with their places, and the place of the first; None at the beginning."""
    found: list[tuple[int, Entry]] = []
    for place, line in stored.lines_backwards(before):
        entry = _decoded(line)
        if entry is not None and isinstance(entry.body, Said | Compacted | FlushReceipt):
            found.append((place, entry))
        if len(found) == limit:
            return found[::-1], place or None
    return found[::-1], None


def _decoded(line: bytes) -> Entry | None:
    try:
        return decode(line)
    except InvalidEntry:
        return None


def _instant(stored: StoredTranscript, place: int) -> datetime | None:
    """Return the time of the entry that begins at a byte."""
    try:
        [line] = stored.lines_at([place])
    except FileNotFoundError:
        return None
    entry = _decoded(line)
    return entry.at if entry is not None else None


def _names(entry: str) -> tuple[str, str]:
    """Return the name of the turn that an entry is of, which is that of its first message, and that of the message that the entry is.

    Further messages of a turn are stored as ``TURN~MESSAGE:0``.
    """
    turn, _, message = entry.rpartition(":")[0].partition("~")
    return turn, message or turn


def _answered_elsewhere(said: Sequence[Mapping[str, Any]], session: str) -> set[str]:
    """Return the names of messages that were answered while another conversation was open than ``session``, which they began."""
    return {line["uid"] for line in said if line.get("who") == "agent" and line.get("during", session) != session}


def _within(line: Mapping[str, Any], since: datetime | None, until: datetime | None) -> bool:
    try:
        at = datetime.fromisoformat(str(line.get("at")))
    except ValueError:
        return False
    return (since is None or at >= since) and (until is None or at <= until)


def _items(place: int, entry: Entry, typed: set[str], sent: set[str], outcomes: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    base = {"id": entry.id, "o": place, "at": entry.at.isoformat()}
    turn, written = _names(entry.id)
    match entry.body:
        case Said(message=UserMessage() as message):
            if message.runtime or written in typed:
                return
            whose = {"from": message.automation or message.sender} if message.automation or message.sender else {}
            own, inside = apart(message.text)
            others = {"others": inside[:RESULT_CHARS]} if inside else {}
            yield base | {"who": "user", "text": own.strip()[:SHOWN_CHARS]} | whose | others
        case Said(message=AssistantMessage() as message):
            yield from _answered(base, message, hidden=turn in sent)
        case Said(message=ToolMessage() as message):
            text, failed, asked = message.text, message.is_error, str(message.details.get("approval", ""))
            if asked and (told := outcomes.get(f"{outcome_name(turn, asked)}:0")) is not None:
                text, failed = told, came_of(told) != "done"
                asked = asked if came_of(told) == "not run" else ""
            result = {"call": message.call_id, "name": message.name, "error": failed} | ({"asked": asked} if asked else {})
            cut = {"more": len(text) - RESULT_CHARS} if len(text) > RESULT_CHARS else {}
            yield base | {"who": "result", "text": text[:RESULT_CHARS]} | result | cut
        case Compacted():
            yield base | {"who": "mark", "mark": "compacted"}
        case FlushReceipt(outcome=outcome):
            yield base | {"who": "mark", "mark": "flushed", "outcome": outcome}


def _answered(base: dict[str, Any], message: AssistantMessage, *, hidden: bool) -> Iterator[dict[str, Any]]:
    text = no_reply.without_no_reply(message.text).strip()
    if text and not hidden and message.failure is None:
        yield base | {"who": "agent", "text": text[:SHOWN_CHARS], "tree": tree_of(text)}
    for number, call in enumerate(message.calls):
        given = json.dumps(call.arguments, ensure_ascii=False, indent=1) if call.arguments is not None else call.raw
        yield base | {
            "id": f"{base['id']}.{number}",
            "who": "tool",
            "call": call.id,
            "name": call.name,
            "text": given[:_ARGUMENT_CHARS],
        }


def _own_item(line: Mapping[str, Any], pressed: Mapping[str, str]) -> dict[str, Any]:
    kept = {
        name: line[name]
        for name in ("who", "text", "uid", "at", "files", "buttons", "voice", "target", "label")
        if name in line
    }
    item = kept | {"id": str(line.get("key"))}
    if line.get("who") == "agent":
        item["tree"] = tree_of(str(line.get("text", "")))
    if line.get("key") in pressed:
        item["pressed"] = pressed[str(line["key"])]
    return item


def told_line(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a line of the channel's log as the page is told of it when it comes."""
    return _own_item(line, {})
