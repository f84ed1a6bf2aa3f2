"""The journal of the notes: who changed what, line by line and change by change; and searches with their explanation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from msgspec import to_builtins
from msgspec.structs import asdict

from agent.tools.untrusted_files import UntrustedFiles
from gateway.agents.running_agent import RunningAgent
from gateway.base.errors import Conflict, UsageError, unknown_agent
from memory.audience import OWNER
from memory.errors import MemoryConflict
from memory.notes.version_store import Version, undone_by
from memory.workspace_memory import WorkspaceMemory

MOST_VERSIONS: Final = 500
BLAMED: Final = 256 * 1024
"""Characters up to which a note is told line by line: comparing its versions takes the square of their lines."""
_LONGEST_QUERY: Final = 2_000


class NoteHistoryHandlers:
    """Shows and undoes changes of notes, and explains searches, as the owner sees them. All answers are JSON values.

    All raise UsageError for an agent that does not exist or has no memory of ours, and MemoryTrouble as the memory does.
    """

    def __init__(self, agents: Mapping[str, RunningAgent]) -> None:
        self._agents = agents

    def calls(self) -> dict[str, Callable[..., Awaitable[dict[str, Any]]]]:
        """The calls by name, for ``POST /admin/CALL``."""
        return {
            "memory.log": self.log,
            "memory.diff": self.diff,
            "memory.undo": self.undo,
            "memory.blame": self.blame,
            "memory.explain": self.explain,
        }

    async def log(self, agent: str, path: str | None = None, limit: int = 50) -> dict[str, Any]:
        """Return the changes of all notes or of one, the newest first, with whether each is ``undone``; ``more``: there are older ones."""
        _, memory = self._memory(agent)
        await memory.sync(vectors=False)
        versions = await memory.history.log(audience=OWNER, path=path)
        most, undone = max(1, min(limit, MOST_VERSIONS)), undone_by(versions)
        facts = [{**version_facts(one), "undone": one.name in undone} for one in versions[:most]]
        return {"versions": facts, "more": len(versions) > most}

    async def diff(self, agent: str, version: str) -> dict[str, Any]:
        """Return a change as the lines of a unified diff."""
        _, memory = self._memory(agent)
        store = memory.history.versions
        found = await asyncio.to_thread(store.version, version)
        text = await asyncio.to_thread(store.diff, found)
        return {**version_facts(found), "diff": text.splitlines()}

    async def undo(self, agent: str, version: str) -> dict[str, Any]:
        """Undo one change and keep later ones of other lines; return the change that this is. ``rest`` belongs to the same one and stands.

        Raises Conflict: it was undone already, or its lines were changed later.
        """
        _, memory = self._memory(agent)
        try:
            made = await memory.history.undo(version)
        except MemoryConflict as error:
            raise Conflict(str(error), hint=error.hint) from error
        await memory.sync_if_free(vectors=False)
        rest = [version_facts(one) for one in await memory.history.rest_of(version)]
        return {"undone": version, **version_facts(made), "rest": rest}

    async def blame(self, agent: str, path: str) -> dict[str, Any]:
        """Return the lines of a note with who wrote each, when, and from where the untrusted text came that was in view then."""
        running, memory = self._memory(agent)
        await memory.sync(vectors=False)
        return {"path": path, "lines": await asyncio.to_thread(_blamed, memory, running.workspace.untrusted, path)}

    async def explain(self, agent: str, query: str, line: str | None = None, *, by_words: bool = False) -> dict[str, Any]:
        """Search, and return the results, how the candidates were ranked, and why ``line`` ("path:number") was or was not found.

        ``by_words``: for a viewer, without asking an embedder.
        """
        _, memory = self._memory(agent)
        if not query.strip() or len(query) > _LONGEST_QUERY:
            raise UsageError(
                f"a question has 1 to {_LONGEST_QUERY:,} characters", hint="Ask with the words that the note may have."
            )
        await memory.sync_if_free(vectors=False)
        return await memory.explain(query, audience=OWNER, line=line, by_words=by_words)

    def _memory(self, agent: str) -> tuple[RunningAgent, WorkspaceMemory]:
        found = self._agents.get(agent)
        if found is None:
            raise unknown_agent(agent, self._agents)
        if not isinstance(found.memory, WorkspaceMemory):
            raise UsageError(
                f"the agent {agent} has no memory index of Homebody", hint="homebody config get plugins.slots.memory"
            )
        return found, found.memory


def version_facts(version: Version) -> dict[str, Any]:
    """Return a change as JSON values; ``name`` is what ``undo`` and ``diff`` take."""
    fields: dict[str, Any] = to_builtins(version)
    del fields["same"]
    made = "created" if version.before is None else "deleted" if version.after is None else "changed"
    return {**fields, "name": version.name, "kind": made}


def _blamed(memory: WorkspaceMemory, untrusted: UntrustedFiles, path: str) -> list[dict[str, Any]]:
    versions = memory.history.versions
    newest = next(iter(versions.versions(path)), None)
    if newest is None or newest.after is None:
        raise UsageError(f"the journal has no note {path[:200]!r}", hint="The changes and their notes: homebody memory log")
    text = versions.text(newest.after) or ""
    if len(text) > BLAMED:
        raise UsageError(
            f"{path} is too long to be told line by line ({len(text):,} characters)", hint=f"homebody memory blame {path}"
        )
    place = PurePosixPath(path)
    return [
        {
            "text": line,
            "version": version.name if version else None,
            "at": version.at if version else None,
            "author": asdict(version.author) if version else None,
            "untrusted": list(untrusted.of(place, line)),
        }
        for line, version in versions.blame(path)
    ]
