"""The owner's notes and the files of prompts: listed, read in pages, and changed against the text that was read.

Names are those that memory uses, relative to the workspace. Nothing else of the workspace is served, and nothing outside of it is changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from agent.context.workspace_files import HEARTBEAT, PROMPT_FILES, RITUAL
from agent.errors import StaleFile, WorkspaceFileError, WorkspaceFileNotFound
from agent.tools.file_tool_context import is_note, is_standing
from agent.tools.path_rules import workspace_path
from agent.tools.workspace_sandbox import WorkspaceSandbox
from gateway.agents.running_agent import RunningAgent
from gateway.base.errors import UsageError, unknown_agent
from gateway.config.settings_file import with_line_ends_of
from memory.errors import MemoryTrouble
from memory.notes.note_reader import decode, read_note
from memory.notes.sources import NoteSources
from memory.protocol import Author

EDITABLE: Final = 256 * 1024
"""Bytes up to which a file is edited as a whole; a longer one is read in pages."""
PAGE: Final = 60_000
"""Characters of a page."""
_BY_PAGE: Final = Author("owner", "browser page")
_BOM: Final = b"\xef\xbb\xbf"
_PROMPTS: Final = (*PROMPT_FILES, HEARTBEAT, RITUAL)
_HINT: Final = "The page lists the files that can be read."


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it is now. ``why_not`` says why it cannot be edited; "": it can."""

    path: str
    data: bytes
    text: str
    why_not: str = ""

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


class NoteHandlers:
    """Lists, reads and writes files of an agent's memory and prompts. All answers are JSON values."""

    def __init__(self, agents: Mapping[str, RunningAgent]) -> None:
        self._agents = agents

    def calls(self) -> dict[str, Callable[..., Awaitable[dict[str, Any]]]]:
        """The calls by name, for ``POST /admin/CALL``."""
        return {
            "memory.files": self.files,
            "memory.read": self.read,
            "memory.write": self.write,
            "memory.remove": self.remove,
        }

    async def files(self, agent: str) -> dict[str, Any]:
        """Return the notes and prompt files of an agent. Raises UsageError: there is no such agent."""
        found = self._agent(agent)
        listed = await asyncio.to_thread(_listed, found)
        return {
            "agent": found.id,
            "workspace": str(found.workspace.root),
            "editable": EDITABLE,
            "journal": _sources(found) is not None,
            "files": listed,
        }

    async def read(self, agent: str, path: str, offset: int = 0) -> dict[str, Any]:
        """Return a file: all of one that can be edited, or a page of a long one from character ``offset`` on.

        Raises:
            UsageError: there is no such file, or it is none of those that are served.
        """
        found = self._agent(agent)
        file = await asyncio.to_thread(_read, found, path)
        return {"agent": found.id, **_page(file, max(0, offset))}

    async def write(self, agent: str, path: str, text: str, expected: str | None, *, by: Author = _BY_PAGE) -> dict[str, Any]:
        """Replace the text of a file whose hash is ``expected`` (None: of one that does not exist yet).

        Returns ``written`` true, or false with what the file holds meanwhile and how that differs.

        Raises:
            UsageError: it is none of the files that can be edited, or the text cannot be stored.
        """
        found = self._agent(agent)
        name = _editable_name(found, path)
        _check_text(text)
        present = await asyncio.to_thread(_present, found, name)
        data = _as_written(text, present)
        if present is not None and present.data == data and not present.why_not:  # also where the answer to this save got lost
            return {"written": True, "changed": False, **_page(present, 0)}
        if (present.hash if present else None) != expected:
            return await asyncio.to_thread(_conflict, name, present, text)
        if present is not None and present.why_not:
            raise UsageError(f"{name} {present.why_not}", hint="Change it in an editor on the machine itself.")
        await self._change(found, name, present, data, by)
        return {"written": True, "changed": True, **_page(await asyncio.to_thread(_read, found, str(name)), 0)}

    async def remove(self, agent: str, path: str, expected: str) -> dict[str, Any]:
        """Delete a file whose hash is ``expected``; the journal keeps its text. Returns as ``write`` does. Raises UsageError."""
        found = self._agent(agent)
        name = _editable_name(found, path)
        present = await asyncio.to_thread(_present, found, name)
        if present is None:
            raise UsageError(f"there is no file {name}", hint=_HINT)
        if present.hash != expected:
            return await asyncio.to_thread(_conflict, name, present, "")
        await self._change(found, name, present, None)
        return {"written": True, "changed": True, "path": str(name)}

    async def _change(
        self, agent: RunningAgent, path: PurePosixPath, present: _File | None, data: bytes | None, by: Author = _BY_PAGE
    ) -> None:
        """Change a file between two words to the memory, which keeps the owner's changes apart and finds the new text at once."""
        memory = agent.memory
        if memory is not None:
            await memory.writing(str(path))
        try:
            await asyncio.to_thread(_put, agent, path, present, data)
        except StaleFile as error:
            raise UsageError(str(error), hint="Load it again: nothing was written.") from error
        except WorkspaceFileError as error:
            raise UsageError(str(error), hint=error.hint) from error
        finally:
            if memory is not None:
                with contextlib.suppress(MemoryTrouble):  # the file itself is safe; the index catches up at its next sync
                    await memory.wrote(str(path), by=by)

    def _agent(self, agent: str) -> RunningAgent:
        found = self._agents.get(agent)
        if found is None:
            raise unknown_agent(agent, self._agents)
        return found


def _sources(agent: RunningAgent) -> NoteSources | None:
    """Return where the notes of an agent lie; None where its memory is of another package, or switched off."""
    found = getattr(agent.memory, "sources", None)
    return found if isinstance(found, NoteSources) else None


def _listed(agent: RunningAgent) -> list[dict[str, Any]]:
    sandbox, sources = agent.workspace.sandbox, _sources(agent)
    prompts = {name: sandbox.stamp(PurePosixPath(name)) for name in _PROMPTS}
    rows: list[dict[str, Any]] = [
        {"path": name, "kind": "prompt", "size": stamp.size, "modified": stamp.modified_ns // 1_000_000}
        for name, stamp in prompts.items()
        if stamp is not None
    ]
    if sources is not None:
        rows += [
            {
                "path": file.path,
                "kind": "elsewhere" if file.path.startswith("@") else "note",
                "size": file.stamp.size,
                "modified": file.stamp.mtime_ns // 1_000_000,
                "trouble": file.trouble,
                "audience": sources.audience_of(file.path),
            }
            for file in sources.walk()
            if file.path not in prompts
        ]
    untrusted = agent.workspace.untrusted
    return [{"trouble": "", "audience": "", **row, "untrusted": list(untrusted.of(PurePosixPath(row["path"])))} for row in rows]


def _read(agent: RunningAgent, raw: str) -> _File:
    """Read a file of memory or of prompts. Raises UsageError."""
    sources = _sources(agent)
    if raw.startswith("@") and sources is not None:
        return _read_elsewhere(sources, raw)
    name = _name(agent, raw)
    found = _present(agent, name)
    if found is None:
        raise UsageError(f"there is no file {name}", hint=_HINT)
    return found


def _read_elsewhere(sources: NoteSources, raw: str) -> _File:
    """Read a note of a folder of ``memorySearch.extraPaths``, which is read and never changed."""
    try:
        note = read_note(sources, raw)
    except MemoryTrouble as error:
        raise UsageError(str(error), hint=error.hint) from error
    return _File(
        raw, note.text.encode("utf-8", "replace"), note.text, "lies outside of the workspace (memorySearch.extraPaths)"
    )


def _present(agent: RunningAgent, name: PurePosixPath) -> _File | None:
    """Return a file of the workspace as it is, or None when there is none. Raises UsageError."""
    try:
        data = agent.workspace.sandbox.read(name).data
    except WorkspaceFileNotFound:
        return None
    except WorkspaceFileError as error:
        raise UsageError(str(error), hint=error.hint) from error
    try:
        text = decode(data, str(name))
    except MemoryTrouble as error:
        raise UsageError(str(error), hint=error.hint) from error
    return _File(str(name), data, text, _why_not(data))


def _why_not(data: bytes) -> str:
    if len(data) > EDITABLE:
        return f"has {len(data) / 1000:,.0f} kB; files of more than {EDITABLE // 1024} kB are only read here"
    try:
        return "has NUL characters, which are no text" if b"\0" in data else data.decode() and ""
    except UnicodeDecodeError:
        return "is not UTF-8 text, so that saving it here would change more than you do"


def _name(agent: RunningAgent, raw: str) -> PurePosixPath:
    """Return the path of a note or a prompt file, as it is written. Raises UsageError for anything else."""
    try:
        path = workspace_path(raw)
    except WorkspaceFileError as error:
        raise UsageError(str(error), hint=error.hint or _HINT) from error
    sources = _sources(agent)
    hidden = any(part.startswith(".") for part in path.parts)
    ours = sources.place(str(path)) is not None if sources is not None else bool(path.parts) and is_note(path)
    if not path.parts or hidden or not (ours or is_standing(path)):
        raise UsageError(f"{str(path)[:200]!r} is neither a note nor a file of prompts", hint=_HINT)
    return path


def _editable_name(agent: RunningAgent, raw: str) -> PurePosixPath:
    if raw.startswith("@"):
        raise UsageError(f"{raw[:200]!r} lies outside of the workspace", hint="Change it where it lies.")
    return _name(agent, raw)


def _check_text(text: str) -> None:
    if "\0" in text:
        raise UsageError("the text has a NUL character, which is no text", hint="Remove it.")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise UsageError("the text holds half of a character (a lone surrogate)", hint="Remove it.") from error
    if size > EDITABLE:
        raise UsageError(f"the text has {size:,} bytes; at most {EDITABLE:,} are possible", hint="Split it into several notes.")


def _as_written(text: str, present: _File | None) -> bytes:
    """Return what is stored: a browser's text with the mark at the beginning and the ends of lines that the file has."""
    if present is None:
        return text.encode()
    mark = _BOM if present.data.startswith(_BOM) else b""
    unix = text.replace("\r\n", "\n")
    return mark + (with_line_ends_of(present.text, unix) if "\r\n" in present.text else unix).encode()


def _put(agent: RunningAgent, path: PurePosixPath, present: _File | None, data: bytes | None) -> None:
    """Change the file, if it is as it was, and vouch for the lines that the owner wrote. Raises WorkspaceFileError."""
    sandbox: WorkspaceSandbox = agent.workspace.sandbox
    if data is None:
        sandbox.remove(path, expected=present.data if present else b"")
        return
    known = set((present.text if present else "").splitlines())
    fresh = "\n".join(line for line in data.decode().splitlines() if line not in known)
    try:
        agent.workspace.untrusted.vouch(path, fresh)
    except OSError as error:
        raise WorkspaceFileError(f"the record of untrusted text cannot be written: {error.strerror or error}") from error
    if present is None:
        sandbox.create(path, data)
    else:
        sandbox.replace(path, data, expected=present.data)


def _conflict(path: PurePosixPath, present: _File | None, mine: str) -> dict[str, Any]:
    """Return what a file holds that was changed meanwhile, and how the text to be saved differs from it."""
    now = (present.text if present else "").replace("\r\n", "\n")
    small = len(now) <= EDITABLE and (present is None or not present.why_not)
    rows = difflib.unified_diff(
        now.splitlines(), mine.splitlines(), str(path), str(path), "now in the file", "yours", lineterm=""
    )
    return {
        "written": False,
        "path": str(path),
        "present": {"hash": present.hash if present else None, "text": now if small else None},
        "diff": list(rows)[2:] if small else [],
    }


def _page(file: _File, offset: int) -> dict[str, Any]:
    whole = not file.why_not or len(file.text) <= PAGE
    end = len(file.text) if whole else page_end(file.text, offset)
    start = 0 if whole else min(offset, len(file.text))
    return {
        "path": file.path,
        "text": file.text[start:end].replace("\r\n", "\n"),
        "hash": file.hash,
        "size": len(file.data),
        "editable": not file.why_not,
        "why": file.why_not,
        "offset": start,
        "next": end if end < len(file.text) else None,
        "line": file.text.count("\n", 0, start) + 1,
        "lines": file.text.count("\n") + 1,
        "characters": len(file.text),
    }


def page_end(text: str, offset: int, size: int = PAGE) -> int:
    """Return where a page of at most ``size`` characters ends: behind a whole line, unless a line is longer than a page."""
    if offset + size >= len(text):
        return len(text)
    return text.rfind("\n", offset, offset + size) + 1 or offset + size
