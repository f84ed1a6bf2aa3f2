"""Appends new text to the notes of an audience during a memory flush, and records exactly what was written."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import PurePosixPath

from agent.characters import without_controls
from agent.context.must_keep import as_note, kept_statements
from agent.context.note_text import fresh_text
from agent.context.session_context import SessionContext
from agent.messages import ToolCall
from agent.transcript.entries import WrittenNote

MOST_IN_THE_DAYS_NOTE = 3000
"""Characters kept by rule that still go into the note of the day; more goes into a file beside it, which search finds."""


@dataclass(frozen=True, slots=True)
class Added:
    """The result of adding to a note: ``told`` describes it; ``refused`` is True when it failed."""

    told: str
    refused: bool = False


class NoteWriter:
    """Writes the notes of one session. ``problem`` is the last error, or empty."""

    def __init__(self, context: SessionContext, turn: str) -> None:
        self.written: dict[str, WrittenNote] = {}
        self.problem = ""
        self._context = context
        self._turn = turn

    async def add(self, content: str, note: PurePosixPath) -> Added:
        """Append what of ``content`` the note does not hold yet."""
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
        result = await self._context.keep(call, self._turn)
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

    async def add_statements(self, statements: Sequence[tuple[date, str]], *, everything: bool) -> bool:
        """Write down by rule what people said and the notes do not tell, each under the day when it was said.

        ``everything`` says that the model noted nothing. Returns whether anything was written.
        """
        days = sorted({day for day, _ in statements})
        wrote = False
        for day in days:
            said = [without_controls(text) for one, text in statements if one == day]
            known = await asyncio.to_thread(self._known, day)
            kept = await asyncio.to_thread(kept_statements, said, known, everything=everything)
            if kept:
                wrote |= await self._add_kept(kept, self._context.audience.daily_note(day))
        return wrote

    async def _add_kept(self, kept: Sequence[str], note: PurePosixPath) -> bool:
        if sum(map(len, kept)) <= MOST_IN_THE_DAYS_NOTE:
            return not (await self.add(as_note(kept), note)).refused
        beside = _beside(note)
        if (await self.add(as_note(kept), beside)).refused:
            return False
        await self.add(f"- Said in conversation, word for word: {beside}\n", note)
        return True

    def _known(self, day: date) -> str:
        note = self._context.audience.daily_note(day)
        said = self._context.workspace.note(_beside(note)) or ""
        return f"{self._context.notes_known([day])}\n{said}"


def _beside(note: PurePosixPath) -> PurePosixPath:
    return note.with_name(f"{note.stem}-said{note.suffix}")


def _digest(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()
