"""Appends new text to the notes of an audience during a memory flush, and records exactly what was written.

What is new is decided unit by unit: a list item with its continuation, a paragraph, a table, a code block. A unit is known when the
note holds the same words under the same headings; headings that are only a time or a date do not count. New units are written with
their headings.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import PurePosixPath
from typing import Literal

from msgspec import Struct

from agent.characters import without_controls
from agent.context.session_context import SessionContext
from agent.messages import ToolCall
from agent.transcript.entries import WrittenNote

log = logging.getLogger(__name__)

MOST_IN_THE_DAYS_NOTE = 3000
"""Characters kept by rule that still go into the note of the day; more goes into a file beside it, which search finds."""


class Added(Struct, frozen=True):
    """The result of adding to a note: ``told`` describes it; ``refused`` is True when it failed."""

    told: str
    refused: bool = False


class Statement(Struct, frozen=True):
    """Something that a person said on a day. ``taint`` names its sources where it is not to be trusted.

    ``speaker`` and ``edited`` are those of ``must_keep.Saying``.
    """

    day: date
    text: str
    taint: frozenset[str] = frozenset()
    speaker: str = ""
    edited: bool = False


class NoteWriter:
    """Writes the notes of one session. ``problem`` is the last error, or empty."""

    def __init__(self, context: SessionContext, turn: str) -> None:
        self.written: dict[str, WrittenNote] = {}
        self.problem = ""
        self._context = context
        self._turn = turn

    async def add(self, content: str, note: PurePosixPath, taint: frozenset[str] | None = None) -> Added:
        """Append what of ``content`` the note does not hold yet. ``taint``: its sources, where they are not those of the history."""
        workspace, name = self._context.workspace, str(note)
        content = without_controls(content)
        before = await asyncio.to_thread(workspace.note, note)
        title = f"{self._context.now():%H:%M}"
        fresh = await asyncio.to_thread(fresh_text, before or "", content, title)
        if not fresh:
            return Added(
                f"Nothing was added: {name} holds all of this already." if content.strip() else "There is nothing to add."
            )
        call = ToolCall(id="flush", name="write", arguments={"path": name, "content": fresh, "mode": "append"})
        result = await self._context.keep(call, self._turn, taint)
        after = await asyncio.to_thread(workspace.note, note)
        if result.is_error or after is None:
            self.problem = result.text
            return Added(result.text, refused=True)
        first = self.written.get(name)
        self.written[name] = WrittenNote(
            path=name,
            bytes_before=first.bytes_before if first else len((before or "").encode()),
            bytes_after=len(after.encode()),
            sha256_before=first.sha256_before if first else _digest(before),
            sha256_after=_digest(after) or "",
        )
        rest = "" if len(fresh) >= len(content.strip()) else "; what it held already was not added again"
        return Added(f"Appended {len(fresh.encode()):,} bytes to {name}{rest}.")

    async def add_statements(self, statements: Sequence[Statement], *, everything: bool) -> bool:
        """Write down by rule what people said and the notes do not tell, each under the day when it was said.

        ``everything`` says that the model noted nothing. What it noted with untrusted text in view does not stand for trusted words.
        Returns whether anything was written.
        """
        wrote = False
        async for day, taint, kept in self.missing(statements, everything=everything):
            wrote |= await self._add_kept(kept, self._context.audience.daily_note(day), taint)
        return wrote

    async def missing(
        self, statements: Sequence[Statement], *, everything: bool
    ) -> AsyncIterator[tuple[date, frozenset[str], list[str]]]:
        """Yield, by day and sources, the sentences that ``add_statements`` would write down; nothing is written."""
        from agent.context.must_keep import Saying, kept_statements  # its patterns take 6 ms to compile

        for day, taint in sorted({(one.day, one.taint) for one in statements}, key=lambda key: (key[0], sorted(key[1]))):
            those = [one for one in statements if (one.day, one.taint) == (day, taint)]
            said = [Saying(without_controls(one.text), without_controls(one.speaker), one.edited) for one in those]
            trusted = not taint and bool(self._context.taint)
            known = await asyncio.to_thread(self._existing_text, day, trusted=trusted)
            kept = await asyncio.to_thread(kept_statements, said, known, everything=everything or trusted)
            if kept:
                yield day, taint, kept

    async def _add_kept(self, kept: Sequence[str], note: PurePosixPath, taint: frozenset[str]) -> bool:
        from agent.context.must_keep import as_note

        if sum(map(len, kept)) <= MOST_IN_THE_DAYS_NOTE:
            return await self._add_words(as_note(kept), note, taint)
        beside = _beside(note)
        if not await self._add_words(as_note(kept), beside, taint):
            return False
        await self.add(f"- Said in conversation, word for word: {beside}\n", note, frozenset())
        return True

    async def _add_words(self, words: str, note: PurePosixPath, taint: frozenset[str]) -> bool:
        if not taint:
            try:
                await asyncio.to_thread(self._context.workspace.untrusted.vouch, note, words)
            except OSError as error:  # the words are kept; they are only taken for less trusted than they are
                log.warning("the record of untrusted text cannot be written: %s", error)
        return not (await self.add(words, note, taint)).refused

    def _existing_text(self, day: date, *, trusted: bool) -> str:
        context = self._context
        note = context.audience.daily_note(day)
        beside = _beside(note)
        said = context.workspace.note(beside) or ""
        if not trusted:
            return f"{context.notes_known([day])}\n{said}"
        opened = context.transcript.opened
        days = {note: context.workspace.note(note), beside: said}
        texts = (context.workspace.untrusted.trusted(path, text or "")[0] for path, text in days.items())
        return "\n".join((opened.notes if opened else "", *texts))


def _beside(note: PurePosixPath) -> PurePosixPath:
    return note.with_name(f"{note.stem}-said{note.suffix}")


def _digest(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()


_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_ITEM = re.compile(r"([ \t]*)(?:[-*+]|\d{1,9}[.)])[ \t]+\S")
_MARKER = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_RULE = re.compile(r" {0,3}(?:([-*_])[ \t]*)(?:\1[ \t]*){2,}$")
_LEAD_LEVEL = 7
"""The level of a line that ends with a colon before a list: it says what the list is about, as a heading does."""
_OWN_LEVEL = 2
_NOT_NAMES = re.compile(r"[\W\d_]+|\b(?:am|pm|uhr|h|mon|tue|wed|thu|fri|sat|sun)\b", re.IGNORECASE)


class _Heading(Struct, frozen=True):
    level: int
    text: str

    @property
    def name(self) -> str:
        """What it says, or an empty text when that is but a time or a date."""
        return normal(self.text) if _NOT_NAMES.sub("", self.text) else ""


class _Unit(Struct, frozen=True):
    """``block`` numbers the paragraph or list that it is a part of; ``under`` are its headings, the outermost first.

    ``bare`` is the heading that it is itself, where nothing stands under one.
    """

    text: str
    kind: Literal["item", "block"]
    under: tuple[_Heading, ...]
    block: int
    bare: _Heading | None = None

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(heading.name for heading in self.under if heading.name)


@dataclass
class _Parsed:
    units: list[_Unit] = field(default_factory=list)
    under: tuple[_Heading, ...] = ()
    """Under which headings a text would stand that is added at the end."""
    fence: str = ""
    """What closes a code block that the text leaves open."""


def fresh_text(existing: str, content: str, title: str) -> str:
    """Return what has to be added to ``existing`` so that it holds all of ``content``, or an empty text.

    It begins with a blank line where it is set off from what is there. ``title`` is a heading's text, a time of day say, under
    which comes what has no heading of its own, so that it does not come under another one's.
    """
    note, given = _parse(existing), _parse(content)
    known: dict[str, list[tuple[str, ...]]] = {}
    for unit in note.units:
        known.setdefault(normal(unit.text), []).append(unit.path)
        for n, heading in enumerate(unit.under):
            known.setdefault(normal(heading.text), []).append(_names(unit.under[:n]))
    pieces: list[str] = []
    under = note.under
    first: _Unit | None = None
    last: _Unit | None = None
    for unit in given.units:
        words, path = normal(unit.text), unit.path
        if not words or any(_ends_with(one, path) for one in known.get(words, ())):
            continue
        known.setdefault(words, []).append(path)
        if unit.kind == "block" and unit.under[-1:] != under[-1:]:
            under = tuple(one for one in under if one.level != _LEAD_LEVEL)
        heads, under = _headings_for(unit, under, title)
        pieces += [f"\n\n{_written(head)}" for head in heads]
        if unit.bare is not None:
            under = _stacked(under, [unit.bare])
        elif unit.kind == "block" and (lead := _would_lead(unit.text.splitlines())):
            under = (*under, _Heading(_LEAD_LEVEL, lead))
        close = unit.kind == "item" and last is not None and last.block == unit.block and not heads
        close = close or (bool(heads) and heads[-1].level == _LEAD_LEVEL)
        pieces.append(("\n" if close else "\n\n") + unit.text)
        first, last = first or unit, unit
    text = "".join(pieces).lstrip("\n")
    if first is None:
        return ""
    if note.fence:
        return f"{note.fence}\n\n{text}\n"
    goes_on = note.units[-1:] and note.units[-1].kind == "item" == first.kind and text.startswith(first.text) and text[0] > " "
    return ("" if goes_on or not existing.strip() else "\n") + text + "\n"


def normal(text: str) -> str:
    """Return a text without its list marker and heading marks, and with single blanks: what is compared."""
    bare = _MARKER.sub("", text.lstrip("#"), count=1)
    return "\n".join(" ".join(line.split()) for line in bare.splitlines()).strip().rstrip(":")


def _ends_with(path: tuple[str, ...], end: tuple[str, ...]) -> bool:
    return not end or path[-len(end) :] == end


def _names(under: Sequence[_Heading]) -> tuple[str, ...]:
    return tuple(heading.name for heading in under if heading.name)


def _written(heading: _Heading) -> str:
    return heading.text if heading.level == _LEAD_LEVEL else f"{'#' * heading.level} {heading.text}"


def _headings_for(unit: _Unit, under: tuple[_Heading, ...], title: str) -> tuple[list[_Heading], tuple[_Heading, ...]]:
    """Return the headings to write before a unit at a place that stands under ``under``, and under what that place is then."""
    wanted = unit.under
    shared = 0
    while shared < min(len(wanted), len(under)) and wanted[shared] == under[shared]:
        shared += 1
    if strangers := [one for one in under[shared:] if one.name and (shared == len(wanted) or one.level < wanted[shared].level)]:
        if shared:
            shared -= 1  # the last heading in common is written again, which ends those below it
        elif not wanted or any(one.level > 1 for one in strangers):
            stays = (*(one for one in under if one.level < _OWN_LEVEL), _Heading(_OWN_LEVEL, title))
            return [stays[-1], *wanted], _stacked(stays, wanted)
    return list(wanted[shared:]), _stacked(under, wanted[shared:])


def _stacked(under: tuple[_Heading, ...], headings: Sequence[_Heading]) -> tuple[_Heading, ...]:
    for heading in headings:
        under = (*(one for one in under if one.level < heading.level), heading)
    return under


def _parse(text: str) -> _Parsed:
    parsed = _Parsed()
    stack: list[_Heading] = []
    bare: _Heading | None = None
    blocks = list(_blocks(text))
    for number, lines in enumerate(blocks):
        heading = _HEADING.match(lines[0])
        if heading is not None:
            level, name = len(heading[1]), (heading[2] or "").strip()
            if bare is not None and level <= bare.level:
                parsed.units.append(_bare(bare, stack, number))
            while stack and stack[-1].level >= level:
                stack.pop()
            stack.append(bare := _Heading(level, name))
            continue
        if len(lines) == 1 and _RULE.match(lines[0]):
            continue
        bare = None
        if stack and stack[-1].level == _LEAD_LEVEL and not _ITEM.match(lines[0]):
            stack.pop()
        lead, rest = _led(lines, blocks[number + 1] if number + 1 < len(blocks) else [])
        if lead:
            stack.append(_Heading(_LEAD_LEVEL, lead))
        parsed.units += [_Unit(one, kind, tuple(stack), number) for one, kind in _units(rest)]
    if bare is not None:
        parsed.units.append(_bare(bare, stack, len(blocks)))
    if blocks and not _HEADING.match(blocks[-1][0]) and (lead := _would_lead(blocks[-1])):
        stack.append(_Heading(_LEAD_LEVEL, lead))
    parsed.under, parsed.fence = tuple(stack), _open_fence(text)
    return parsed


def _bare(heading: _Heading, stack: Sequence[_Heading], number: int) -> _Unit:
    """A heading that nothing stands under is a unit itself."""
    above = tuple(one for one in stack if one.level < heading.level)
    return _Unit(_written(heading), "block", above, number, heading)


def _blocks(text: str) -> Iterator[list[str]]:
    """Yield what blank lines set apart; a heading is a block of its own, a code block is never taken apart."""
    block: list[str] = []
    fence = ""
    for line in text.splitlines():
        within, fence = bool(fence), _fence_behind(line, fence)
        if within:
            block.append(line)
            continue
        if not fence and (not line.strip() or _HEADING.match(line)):
            if block:
                yield block
            block = []
            if line.strip():
                yield [line]
            continue
        block.append(line)
    if fence:
        block.append(fence)
    if block:
        yield block


def _fence_behind(line: str, fence: str) -> str:
    """Return the mark of the code block that is open behind a line, given the one that was open before it."""
    mark = _FENCE.match(line)
    if mark is None:
        return fence
    closes = bool(fence) and mark[1].startswith(fence) and not line.strip().strip(fence[0])
    return "" if closes else fence or mark[1]


def _open_fence(text: str) -> str:
    fence = ""
    for line in text.splitlines():
        fence = _fence_behind(line, fence)
    return fence


def _led(lines: list[str], following: Sequence[str]) -> tuple[str, list[str]]:
    """Part a block into the line that says what a list is about, and the list: in the same block, or in the one behind it."""
    first_item = next((n for n, line in enumerate(lines) if _ITEM.match(line)), len(lines))
    opening = [line.strip() for line in lines[:first_item]]
    leads = bool(opening) and opening[-1].endswith(":") and not any(map(_FENCE.match, opening))
    if leads and (first_item < len(lines) or (following and _ITEM.match(following[0]))):
        return "\n".join(opening), lines[first_item:]
    return "", lines


def _would_lead(lines: list[str]) -> str:
    """Return what a list would be about that comes behind a block, or an empty text."""
    return _led(lines, ["- item"])[0]


def _units(lines: list[str]) -> Iterator[tuple[str, Literal["item", "block"]]]:
    if not lines:
        return
    first = _ITEM.match(lines[0])
    if first is None or any(map(_FENCE.match, lines)):
        yield "\n".join(lines), "block"
        return
    item: list[str] = []
    indent = len(first[1])
    for line in lines:
        mark = _ITEM.match(line)
        if item and mark is not None and len(mark[1]) <= indent:
            yield "\n".join(item), "item"
            item, indent = [], len(mark[1])
        item.append(line)
    yield "\n".join(item), "item"
