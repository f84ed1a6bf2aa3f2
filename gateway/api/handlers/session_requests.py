"""Conversations for people to read: listed, searched, read in pages, exported in pieces, and the former one restored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

from agent.characters import without_controls
from gateway.agents.running_agent import RunningAgent
from gateway.base.errors import UsageError, unknown_agent
from gateway.sessions.conversation_search import Hits, search
from gateway.sessions.entry_facts import TEXT_CHARS, as_json
from gateway.sessions.past_sessions import Found, about, conversations, find, key_of, page, rows
from gateway.sessions.protocol import SessionStore
from gateway.sessions.transcript_reader import TranscriptReader

MOST: Final = 200
"""Entries of a conversation that are read at once."""
PIECE: Final = 1000
"""Entries of a piece of an export."""
_LIST: Final = "`homebody sessions list --all` lists all sessions."


class SessionHandlers:
    """Reads the transcripts of all agents. ``busy`` returns whether a turn runs in the session of a key. All answers are JSON values."""

    def __init__(self, agents: Mapping[str, RunningAgent], busy: Callable[[str], bool]) -> None:
        self._agents = agents
        self._busy = busy
        self._reader = TranscriptReader()
        self._reading = asyncio.Lock()

    def calls(self) -> dict[str, Callable[..., Awaitable[Any]]]:
        """The calls by name, for ``POST /admin/CALL``."""
        return {
            "sessions.list": self.list,
            "sessions.search": self.search,
            "sessions.read": self.read,
            "sessions.export": self.export,
            "sessions.undo": self.undo,
        }

    async def list(self, agent: str | None = None, *, everything: bool = False) -> dict[str, Any]:
        """Return the sessions, the latest first; with ``everything`` those that ended too. Raises UsageError: no such agent."""
        return {"sessions": await asyncio.to_thread(rows, self._stores(agent), everything=everything)}

    async def search(self, query: str, agent: str | None = None, after: str = "", *, tools: bool = False) -> dict[str, Any]:
        """Return the conversations in which all words of ``query`` were said in one message, the latest first.

        ``after``: the session behind which to go on, as the former answer's ``more`` said. ``tools``: results of tools count too.

        Raises:
            UsageError: there is nothing to search for, or no such agent.
        """
        stores = self._stores(agent)
        return await asyncio.to_thread(search_facts, stores, query, after=after, tools=tools)

    async def read(self, session: str, offset: int | None = None, limit: int = 60, *, trees: bool = False) -> dict[str, Any]:
        """Return entries of a conversation from the number ``offset`` on; without it the last ones. ``session``: its id or key.

        With ``trees`` answers have the tree of their Markdown, too.

        Raises:
            UsageError: there is no such session.
            StorageFailed: its transcript cannot be read.
        """
        async with self._reading:
            found = await asyncio.to_thread(self._session_named, session)
            page = await asyncio.to_thread(self._page, found, offset, max(1, min(limit, MOST)))
        return await asyncio.to_thread(_with_trees, page) if trees else page

    def _page(self, found: Found, offset: int | None, limit: int) -> dict[str, Any]:
        total = self._reader.count(found.stored)
        start = max(0, total - limit) if offset is None else max(0, min(offset, total))
        entries = self._reader.page(found.stored, start, limit)
        return {
            **_named(found),
            "total": total,
            "offset": start,
            "textChars": TEXT_CHARS,
            "entries": [as_json(number, entry) for number, entry in enumerate(entries, start)],
        }

    async def export(self, session: str, form: str = "md", offset: int = 0, day: str = "") -> dict[str, Any]:
        """Return a piece of a conversation as Markdown or JSONL. ``next`` is the offset of the following piece, None at the end.

        JSONL has every stored entry. ``day``: as the former answer's ``day`` said.

        Raises:
            UsageError: there is no such session, or no such format.
            StorageFailed: its transcript cannot be read.
        """
        if form not in {"md", "jsonl"}:
            raise UsageError(f"there is no format {form!r}", hint="There are md and jsonl.")
        async with self._reading:
            found = await asyncio.to_thread(self._session_named, session)
            zone = self._agents[found.agent].zone

            def piece() -> dict[str, Any]:
                if form == "jsonl":
                    lines, following = self._reader.lines(found.stored, offset, PIECE)
                    text = "".join(f"{line.decode('utf-8', 'replace')}\n" for line in lines)
                    return {"text": text, "next": following, "day": ""}
                total = self._reader.count(found.stored)
                entries = self._reader.page(found.stored, offset, PIECE)
                last = next((one for one in reversed(entries) if one is not None), None)
                text = "".join(f"{without_controls(block)}\n\n" for block in page(entries, zone, day))
                following = offset + PIECE if offset + PIECE < total else None
                return {"text": text, "next": following, "day": f"{last.at.astimezone(zone):%Y-%m-%d}" if last else day}

            return {"name": f"{found.session}.{form}", **await asyncio.to_thread(piece)}

    async def undo(self, key: str) -> dict[str, Any]:
        """Restore the former session of a key, as ``/undo`` does; the present one becomes the former one.

        Raises:
            UsageError: there is no such session, no former one, or an answer is being written in it.
        """
        agent = next((agent for agent in self._agents.values() if agent.store.get(key)), None)
        if agent is None:
            raise UsageError(f"there is no session {key!r}", hint=_LIST)
        if self._busy(key):
            raise UsageError(f"the session {key} is busy", hint="Wait for its answer, or send /stop, then try again.")
        back = await agent.undo(key)
        if back is None:
            raise UsageError("there is no previous conversation to restore", hint="They can be restored for 7 days.")
        return {"sessionKey": key, "sessionId": back.session, "former": back.former}

    def _stores(self, agent: str | None) -> dict[str, SessionStore]:
        if agent and agent not in self._agents:
            raise unknown_agent(agent, self._agents)
        return {name: one.store for name, one in self._agents.items() if not agent or name == agent}

    def _session_named(self, session: str) -> Found:
        found = find(self._stores(None), session)
        if found is None:
            raise UsageError(f"there is no session {session!r}", hint=_LIST)
        return found


def search_facts(
    stores: Mapping[str, SessionStore],
    query: str,
    *,
    after: str = "",
    tools: bool = False,
    seconds: float = 2.0,
    most: int = 50,
) -> dict[str, Any]:
    """Return the result of a search as JSON values. Blocking."""
    everything = conversations(stores)
    found = search(everything, query, after=after, tools=tools, seconds=seconds, most=most)
    return {
        "results": [_hits_json(hits) for hits in found.results],
        "searched": found.searched,
        "conversations": len(everything),
        "more": found.more or None,
        "unreadable": found.unreadable,
    }


def _hits_json(hits: Hits) -> dict[str, Any]:
    return {**_named(hits.found), "count": hits.count, "hits": [asdict(hit) for hit in reversed(hits.hits)]}


def _named(found: Found) -> dict[str, Any]:
    return {
        "agent": found.agent,
        "sessionKey": key_of(found),
        "sessionId": found.session,
        "left": found.record is None,
        "about": about(found.stored),
    }


def _with_trees(page: dict[str, Any]) -> dict[str, Any]:
    from gateway.page.markdown_tree import tree_of

    answers = (entry for entry in page["entries"] if entry["kind"] == "assistant" and entry.get("text"))
    for entry in answers:
        entry["tree"] = tree_of(entry["text"])
    return page
