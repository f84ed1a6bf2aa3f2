"""The lists of things to do of one agent, as files in its workspace: TODO.md for the owner, one in their own folder for everybody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct

from agent.errors import AmbiguousItem, StaleFile, WorkspaceFileError
from agent.taint import merged
from agent.tools.arguments import scrubbed
from agent.tools.file_tool_context import FileToolContext
from agent.tools.protocol import ToolContext
from agent.tools.todo_list import Item, TodoList, one_line
from memory.audience import Audience
from memory.protocol import Author

NAMES: Final = ("TODO.md", "todo.md")
"""The file, and another spelling of its name that is used where it exists."""
MAX_TEXT: Final = 500
"""Characters of one item."""
_MAX_BYTES: Final = 1 << 20
_ATTEMPTS: Final = 5
"""How often a change is made anew because somebody else changed the file meanwhile."""
_BOM: Final = "\ufeff"


class Shown(Struct, frozen=True):
    """A list as it stands. ``sources`` are those of untrusted text in its file."""

    path: PurePosixPath
    found: TodoList
    sources: tuple[str, ...] = ()


class Changed(Struct, frozen=True):
    """What came of a change. ``item`` is what it is about, ``did`` whether anything changed, ``found`` the list afterwards.

    ``sources`` are those of untrusted text in the words of ``item``, where the list had them before.
    """

    path: PurePosixPath
    item: Item
    did: bool
    found: TodoList
    nested: int = 0
    """How many items below it went with it."""
    sources: tuple[str, ...] = ()


_Edit = Callable[[TodoList], "tuple[str, Callable[[TodoList], Item], Item | None]"]
"""Returns the new text, how the item is found in it, and the item as it was."""


class TodoFiles:
    """Reads and changes the lists. A change names one item, so it is made again on what somebody else wrote meanwhile.

    All methods raise WorkspaceFileError. ``context`` says for whom, and which untrusted text is in view; ``by`` is the author in the
    history of the notes, the agent if omitted.
    """

    def __init__(self, access: FileToolContext) -> None:
        self.access = access

    def path(self, audience: Audience) -> PurePosixPath:
        """Return the file of an audience. Blocks."""
        folder = PurePosixPath() if audience.kind == "owner" else audience.folder
        return next((folder / name for name in NAMES if self.access.sandbox.kind(folder / name) is not None), folder / NAMES[0])

    async def shown(self, audience: Audience) -> Shown:
        """Return the list of an audience; one that does not exist yet is empty."""
        return await asyncio.to_thread(self._shown, audience)

    async def add(self, text: str, section: str, context: ToolContext, by: Author | None = None) -> Changed:
        """Add an open item, unless its section has one with this text: a repeat adds none."""
        wanted, section = _checked(text), section and _checked(section)

        def edit(found: TodoList) -> tuple[str, Callable[[TodoList], Item], Item | None]:
            open_ones = [item for item in _within(found, section) if not item.done]
            there = next((item for item in open_ones if item.text.casefold() == wanted.casefold()), None)
            if there is not None:
                return found.text, lambda now: now.items[there.number - 1], there

            def where(now: TodoList) -> Item:
                return next(one for one in _within(now, section) if one.text == wanted and not one.done)

            return found.with_item(wanted, section), where, None

        return await self._change(edit, context, by)

    async def mark(self, which: str, context: ToolContext, by: Author | None = None, *, done: bool) -> Changed:
        """Mark an item as done, or as open again."""

        def edit(found: TodoList) -> tuple[str, Callable[[TodoList], Item], Item | None]:
            item = found.find(which, done=not done)
            text = found.text if item.done == done else found.with_mark(item, done=done)
            return text, lambda now: now.items[item.number - 1], item

        return await self._change(edit, context, by)

    async def edit(self, which: str, text: str, context: ToolContext, by: Author | None = None) -> Changed:
        """Give an item another text. Where it is gone and one with the new text is there, that has been done already."""
        wanted = _checked(text)

        def edit(found: TodoList) -> tuple[str, Callable[[TodoList], Item], Item | None]:
            try:
                item = found.find(which, done=False)
            except WorkspaceFileError:
                there = next((item for item in found.items if item.text == wanted), None)
                if there is None:
                    raise
                return found.text, lambda now: now.items[there.number - 1], there
            return found.with_text(item, wanted), lambda now: now.items[item.number - 1], item

        return await self._change(edit, context, by)

    async def remove(self, which: str, context: ToolContext, by: Author | None = None) -> Changed:
        """Take an item out, with what is nested below it."""

        def edit(found: TodoList) -> tuple[str, Callable[[TodoList], Item], Item | None]:
            item = found.find(which)
            return found.without(item), lambda _: item, item

        return await self._change(edit, context, by)

    async def _change(self, edit: _Edit, context: ToolContext, by: Author | None) -> Changed:
        for attempt in range(_ATTEMPTS):
            path = await asyncio.to_thread(self.path, context.audience)
            await self.access.changing(self.access.changeable(str(path), context.audience))
            try:
                changed = await asyncio.to_thread(self._changed, path, edit, context)
            except StaleFile:
                if attempt + 1 == _ATTEMPTS:
                    raise
                continue
            if changed.did:
                await self.access.changed(path, context, by)
            return changed
        raise AssertionError("the last attempt returns or raises")

    def _shown(self, audience: Audience) -> Shown:
        path = self.path(audience)
        data = self._data(path)
        if data is None:
            return Shown(path, TodoList.of(""))
        found = TodoList.of(_text(data))
        lines = "\n".join(line for item in found.items for line in found.lines[item.line : item.end])
        headings = "\n".join(item.section for item in found.items)
        return Shown(path, found, self.access.untrusted.of(path, f"{lines}\n{headings}"))

    def _changed(self, path: PurePosixPath, edit: _Edit, context: ToolContext) -> Changed:
        data = self._data(path)
        present = _text(data or b"")
        before = TodoList.of(present)
        try:
            text, where, former = edit(before)
        except AmbiguousItem as error:
            shown = "".join(before.lines[number] for number in error.lines)
            raise WorkspaceFileError(str(error), hint=error.hint, sources=self.access.untrusted.of(path, shown)) from error
        if text == present:
            item = where(before)
            return Changed(path, item, did=False, found=before, sources=self.access.untrusted.of(path, before.lines[item.line]))
        after = TodoList.of(text)
        item = where(after)
        new = (_BOM if data is not None and data.startswith(_BOM.encode()) else "").encode() + text.encode(
            "utf-8", "surrogateescape"
        )
        self.access.record(path, data, new, context)
        sources: tuple[str, ...] = ()
        if former is not None and former.text == item.text:  # the words are the same, and so is where they come from
            sources = self.access.untrusted.of(path, before.lines[former.line])
            if len(after.items) == len(before.items):
                self._carry(path, sources, after, item)
        if data is None:
            self.access.sandbox.create(path, new)
        else:
            self.access.sandbox.replace(path, new, expected=data)
        nested = len(before.items) - len(after.items) - 1
        return Changed(path, item, did=True, found=after, nested=max(0, nested), sources=sources)

    def _carry(self, path: PurePosixPath, sources: tuple[str, ...], after: TodoList, item: Item) -> None:
        if sources and item.line < len(after.lines):
            try:
                self.access.untrusted.mark(path, after.lines[item.line], merged(sources[1:] or sources))
            except OSError as error:
                raise WorkspaceFileError(
                    f"{path} was not written: the record of untrusted text cannot be kept ({error})"
                ) from error

    def _data(self, path: PurePosixPath) -> bytes | None:
        if self.access.sandbox.kind(path) is None:
            return None
        return self.access.sandbox.read(path, limit=_MAX_BYTES).data


def _within(found: TodoList, section: str) -> tuple[Item, ...]:
    return found.in_section(section) if section else found.items


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape").removeprefix(_BOM)


def _checked(text: str) -> str:
    line = one_line(scrubbed(text))
    if not line:
        raise WorkspaceFileError("text: must not be empty")
    if len(line) > MAX_TEXT:
        raise WorkspaceFileError(
            f"text: has {len(line):,} characters; at most {MAX_TEXT} are possible", hint="Keep the rest in a note."
        )
    return line
