"""What of an agent other programs are offered by ``homebody mcp serve``: its memory, notes and sessions."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeAlias
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from agent.messages import ToolCall
from agent.taint import fenced, random_mark, source
from agent.timing import Clock
from agent.tools.protocol import MAX_CHARS, ToolContext
from agent.tools.toolbox import Toolbox, capped
from agent.tools.untrusted_files import UntrustedFiles
from agent.transcript.entries import Said
from gateway.agents.running_agent import RunningAgent
from gateway.base.errors import UsageError, unknown_agent
from gateway.mcp.serving import Given, Offer, as_facts
from gateway.routing.router import is_owners
from gateway.sessions.past_sessions import find
from gateway.sessions.protocol import SessionStore
from gateway.subagents.session_reading import history_text
from memory.audience import OWNER, Audience

To: TypeAlias = Literal["owner", "shared"]
PROGRAM: Final = Audience("peer", "mcp")
"""Programs for which the owner opened nothing but what is shared are a guest of this name: their notes are in its folder."""
_LISTED: Final = 100
_TEXT: Final = 8_000
"""Characters of one note."""
_NEXT_LINE: Final = re.compile(
    r"(; (?:go on with|next line:) )offset( \d+\])(?!.*; (?:go on with|next line:) offset \d+\])", re.DOTALL
)
"""What the tool for files says of the rest of a note: its argument has another name there than it has here."""
_TEXT_FIELD: Final = {"type": "string"}
_NUMBER: Final = {"type": "integer", "minimum": 1}
_SEARCH: Final = Offer(
    "memory_search",
    "Search the notes of the owner's agent. Results have paths and line numbers, for memory_get.",
    {"type": "object", "properties": {"query": _TEXT_FIELD, "maxResults": {**_NUMBER, "maximum": 50}}, "required": ["query"]},
)
_GET: Final = Offer(
    "memory_get",
    "Read lines of a note that memory_search found.",
    {"type": "object", "properties": {"path": _TEXT_FIELD, "from": _NUMBER, "lines": _NUMBER}, "required": ["path"]},
)
_APPEND: Final = Offer(
    "note_append",
    "Add a text to today's note. The agent treats it as text of a stranger.",
    {"type": "object", "properties": {"text": {**_TEXT_FIELD, "maxLength": _TEXT}}, "required": ["text"]},
    writes=True,
)
_SESSIONS: Final = Offer(
    "sessions_list", "List the conversations with the agent, the most recent first.", {"type": "object", "properties": {}}
)
_HISTORY: Final = Offer(
    "sessions_read",
    "Read the last messages of a conversation, or those before the message with a number.",
    {"type": "object", "properties": {"session": _TEXT_FIELD, "before": _NUMBER}, "required": ["session"]},
)


def offers(to: To, *, write: bool) -> list[Offer]:
    """Return what is offered: sessions to those who may see all that the owner sees, and writing where it is allowed."""
    return [_SEARCH, _GET, *([_APPEND] if write else []), *([_SESSIONS, _HISTORY] if to == "owner" else [])]


class SharedAgent(Struct, frozen=True, kw_only=True):
    """What of one agent is needed. ``tools`` has its tools for notes and files, ``store`` its sessions as they are on disk."""

    id: str
    tools: Toolbox
    store: SessionStore
    zone: ZoneInfo
    clock: Clock

    async def call(self, name: str, arguments: Mapping[str, Any], *, to: To, write: bool, program: str) -> Given:
        """Answer a call. ``program`` names the program that asks, by which its notes are known again."""
        offer = next((offer for offer in offers(to, write=write) if offer.name == name), None)
        if wrong := f"{name} is not offered here" if offer is None else _wrong(arguments, offer.arguments):
            return Given(wrong, is_error=True)
        match name:
            case "note_append":
                return await self._append(arguments.get("text"), to, program)
            case "sessions_list":
                return await asyncio.to_thread(self._sessions)
            case "sessions_read":
                return await asyncio.to_thread(self._history, arguments.get("session"), arguments.get("before"))
        if to == "owner" and any(spec.name == name for spec in self.tools.specs):
            return await self._run(name, dict(arguments), to, program)
        given = await self._run(*_by_files(name, arguments), to, program)
        return replace(given, text=_NEXT_LINE.sub(r"\1from\2", given.text))

    async def _run(
        self, tool: str, arguments: dict[str, Any], to: To, program: str, taint: frozenset[str] = frozenset()
    ) -> Given:
        context = ToolContext(
            now=self.clock.now().astimezone(self.zone),
            session=f"mcp:{program}",
            turn="",
            audience=OWNER if to == "owner" else PROGRAM,
            taint=taint,
        )
        done = await self.tools.run(ToolCall(id="", name=tool, arguments=arguments), context)
        return Given(done.text, done.is_error, tuple(done.taint))

    async def _append(self, text: object, to: To, program: str) -> Given:
        if not isinstance(text, str) or not text.strip():
            return Given("text: is required", is_error=True)
        if len(text) > _TEXT:
            return Given(f"text: has {len(text):,} characters; at most {_TEXT:,} are possible", is_error=True)
        now = self.clock.now().astimezone(self.zone)
        path = (OWNER if to == "owner" else PROGRAM).daily_note(now.date())
        block = f"\n## {now:%H:%M}, from {program}\n\n{_no_headings(text.strip())}\n"
        given = {"path": str(path), "content": block, "mode": "append"}
        return await self._run("write", given, to, program, frozenset({source("mcp", program)}))

    def _sessions(self) -> Given:
        rows = [
            {
                "session": record.key,
                "id": record.session,
                "started": record.started.astimezone(self.zone).isoformat(timespec="minutes"),
                "lastMessage": record.spoken.astimezone(self.zone).isoformat(timespec="minutes"),
                "turns": record.turns,
            }
            for record in self.store.all()[:_LISTED]
        ]
        return Given(json.dumps(rows, ensure_ascii=False, separators=(",", ":")))

    def _history(self, session: object, before: object) -> Given:
        if not isinstance(session, str) or not (before is None or isinstance(before, int)):
            return Given("session: is required, as sessions_list names it; before: is a number", is_error=True)
        found = find({self.id: self.store}, session)
        if found is None:
            return Given(f"there is no session {session[:80]!r}; sessions_list names them", is_error=True)
        said = [entry.body.message for entry in found.entries() if entry is not None and isinstance(entry.body, Said)]
        text = capped(history_text(said, before, MAX_CHARS), MAX_CHARS)
        sources = UntrustedFiles(sessions=self.store.transcript).of_session(found.session)
        if found.record is None or not is_owners(found.record.key):  # of an ended session it is not known who spoke
            sources = (source("session", found.session),)
        return Given(fenced(text, sources, random_mark) if sources else text, untrusted=sources)


class SharingHandlers:
    """Answers ``homebody mcp serve`` while the gateway runs."""

    def __init__(self, agents: Mapping[str, RunningAgent], clock: Clock, default: Callable[[], str]) -> None:
        self._agents = agents
        self._clock = clock
        self._default = default

    def calls(self) -> dict[str, Callable[..., Awaitable[dict[str, Any]]]]:
        """The calls by name, for ``POST /admin/CALL``."""
        return {"share.call": self.call}

    async def call(
        self, name: str, arguments: dict[str, Any], to: str, program: str, agent: str | None = None, *, write: bool = False
    ) -> dict[str, Any]:
        """Answer one call of another program. Raises UsageError for an unknown agent or audience."""
        found = self._agents.get(agent or self._default())
        if found is None:
            raise unknown_agent(agent, self._agents)
        if to not in {"owner", "shared"}:
            raise UsageError(f"there is no audience {to!r}", hint="There is owner and shared.")
        shared = SharedAgent(
            id=found.id, tools=found.conversations.rack.whole, store=found.store, zone=found.zone, clock=self._clock
        )
        return as_facts(
            await shared.call(name, arguments, to="owner" if to == "owner" else "shared", write=write, program=program)
        )


def _by_files(name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the tool for files, and its arguments, that does what one for notes does: it also sees files that are shared."""
    if name == "memory_search":
        return "grep", {"pattern": _pattern(str(arguments.get("query", ""))), "ignoreCase": True}
    return "read", {"path": arguments.get("path"), "offset": arguments.get("from"), "limit": arguments.get("lines")}


def _wrong(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Say what is wrong with the arguments of a call, by the names that they were given; "" if nothing."""
    known: Mapping[str, Mapping[str, Any]] = schema["properties"]
    found = [f"{name}: is required" for name in schema.get("required", ()) if arguments.get(name) is None]
    for name, value in arguments.items():
        field = known.get(name)
        if field is None:
            found.append(f"{name[:80]}: there is no such argument; there is {', '.join(known) or 'none'}")
        elif value is None:
            continue
        elif field["type"] == "string" and not isinstance(value, str):
            found.append(f"{name}: must be a text")
        elif field["type"] == "integer" and (not isinstance(value, int) or isinstance(value, bool)):
            found.append(f"{name}: must be a whole number")
        elif "minimum" in field and not field["minimum"] <= value <= field.get("maximum", value):
            found.append(
                f"{name}: must be {field['minimum']} or more" + (f", at most {most}" if (most := field.get("maximum")) else "")
            )
    return "; ".join(found)


def _pattern(query: str) -> str:
    """Return a pattern for lines that hold a word of the query; short words only where there are no others."""
    words = re.findall(r"\w+", query)
    long = [word for word in words if len(word) > 3] or words  # noqa: PLR2004 - as in "the", "and", "wie"
    return "|".join(map(re.escape, dict.fromkeys(long))) or "(?!)"


def _no_headings(text: str) -> str:
    """Return a text whose lines begin no heading, so that a note of another program cannot look like one of somebody else."""
    return re.sub(r"^([ \t]{0,3})(#{1,6}(?:\s|$))", r"\1\\\2", text, flags=re.MULTILINE)
