"""The tools that look into memory: ``memory_search`` and ``memory_get``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Annotated, Any

from pydantic import AliasChoices, Field

from agent.errors import WorkspaceFileError
from agent.taint import merged
from agent.tools.arguments import Arguments, CheckedTool, CleanText, failed
from agent.tools.file_tool_context import FileToolContext
from agent.tools.path_rules import workspace_path
from agent.tools.protocol import Outcome, ToolContext
from memory.errors import MemoryTrouble
from memory.protocol import Excerpt, Hit, Memory, SearchAnswer

_ENVELOPE = 400
"""Characters kept free for what stands around the text in the JSON."""


class SearchArguments(Arguments):
    """What ``memory_search`` takes."""

    query: Annotated[CleanText, Field(min_length=1, max_length=4000)]
    max_results: Annotated[int | None, Field(ge=1, le=50, validation_alias=AliasChoices("maxResults", "max_results"))] = None
    min_score: Annotated[
        float | None, Field(ge=0, le=1, exclude=True, validation_alias=AliasChoices("minScore", "min_score"))
    ] = None


class MemorySearch(CheckedTool[SearchArguments]):
    """Searches the notes. Trouble of an embedder or an index is told in the answer and never takes the tool away."""

    def __init__(self, memory: Memory, access: FileToolContext | None = None) -> None:
        super().__init__(
            SearchArguments,
            name="memory_search",
            description=(
                "Search your notes by meaning and by words, before you answer anything about the past. Returns passages with path "
                "and lines."
            ),
            effect="pure",
        )
        self._memory = memory
        self._access = access

    async def act(self, arguments: SearchArguments, context: ToolContext) -> Outcome:
        """Search."""
        try:
            answer = await self._memory.search(
                arguments.query, audience=context.audience, max_results=arguments.max_results, min_score=arguments.min_score
            )
        except MemoryTrouble as trouble:
            return failed(f"the memory cannot be searched now: {trouble}; grep still works", trouble.hint)
        sources = (
            await asyncio.to_thread(_sources, self._access, (*answer.hits, *answer.nearest)) if self._access is not None else ()
        )
        details = {"hits": len(answer.hits), "provider": answer.provider}
        return Outcome(text=_answer_json(answer, context.max_chars), details=details, sources=sources)


class GetArguments(Arguments):
    """What ``memory_get`` takes."""

    path: str
    from_line: Annotated[int, Field(ge=1, validation_alias=AliasChoices("from", "from_line"), description="first line")] = 1
    lines: Annotated[int | None, Field(ge=1)] = None


class MemoryGet(CheckedTool[GetArguments]):
    """Reads lines of one note."""

    def __init__(self, memory: Memory, access: FileToolContext | None = None) -> None:
        super().__init__(
            GetArguments,
            name="memory_get",
            description="Read lines of a note that memory_search found.",
            effect="pure",
        )
        self._memory = memory
        self._access = access

    async def act(self, arguments: GetArguments, context: ToolContext) -> Outcome:
        """Read."""
        path = str(workspace_path(arguments.path))
        try:
            excerpt = await self._memory.get(
                path, audience=context.audience, from_line=arguments.from_line, lines=arguments.lines
            )
        except MemoryTrouble as trouble:
            return failed(str(trouble), trouble.hint)
        sources: tuple[str, ...] = ()
        if self._access is not None:
            sources = await asyncio.to_thread(self._access.untrusted.of, PurePosixPath(excerpt.path), excerpt.text)
        text = _json({"path": excerpt.path, "text": _fitted(excerpt, context.max_chars)})
        return Outcome(text=text, details={"path": excerpt.path}, sources=sources)


def _sources(access: FileToolContext, hits: Sequence[Hit]) -> tuple[str, ...]:
    """Return the sources of the untrusted text in search results. A hit may begin within a line, so the lines of its file are looked at."""
    with access.untrusted.checked_once():
        return merged(*(_sources_of(access, hit) for hit in hits))


def _sources_of(access: FileToolContext, hit: Hit) -> tuple[str, ...]:
    known, path = access.untrusted, PurePosixPath(hit.path)
    if hit.source == "sessions":
        return known.of_session(path.name)
    named = known.of_path(path)
    if whole := known.of(path) or known.of(path, hit.snippet):
        try:
            lines = access.sandbox.read(path).data.decode("utf-8", "replace").splitlines()
        except WorkspaceFileError:  # the index knows an older state of it
            return merged(whole, named)
        pieces = hit.pieces or ((hit.start_line, hit.end_line),)
        shown = "\n".join([*(line for first, last in pieces for line in lines[first - 1 : last]), hit.snippet])
        return merged(known.of(path, shown), named)
    return named


def _fitted(excerpt: Excerpt, max_chars: int) -> str:
    """Keep as many whole lines as there is room for, and say how to go on."""
    lines, room = excerpt.text.split("\n"), max_chars - _ENVELOPE
    kept = 0
    while kept < len(lines) and room >= len(_json(lines[kept])):
        room -= len(_json(lines[kept]))
        kept += 1
    if kept == len(lines):
        return excerpt.text + (f"\n[cut; go on with from {excerpt.end_line + 1}]" if excerpt.cut else "")
    if kept == 0:
        first = _shortened(lines[0], max_chars // 2)
        return f"{first}\n[line {excerpt.start_line} is {len(lines[0]):,} characters long and cut here]"
    return "\n".join(lines[:kept]) + f"\n[cut; go on with from {excerpt.start_line + kept}]"


def _answer_json(answer: SearchAnswer, max_chars: int) -> str:
    facts: dict[str, Any] = {"results": [], "provider": answer.provider, "model": answer.model}
    facts |= {"fallback": answer.fallback} if answer.fallback else {}
    facts |= {"stale": True} if answer.stale else {}
    room = max_chars - _ENVELOPE
    for hit in answer.hits:
        one = _told_hit(hit)
        room -= len(_json(one)) + 1
        if room < 0 and facts["results"]:
            break
        if room < 0:
            one["snippet"] = _shortened(hit.snippet, max_chars // 2) + " [cut; memory_get reads the rest]"
        facts["results"].append(one)
    left = len(answer.hits) - len(facts["results"])
    for hit in answer.nearest:
        one = _told_hit(hit)
        room -= len(_json(one)) + 1
        if room < 0:
            break
        facts.setdefault("nearest", []).append(one)
    notes = [answer.note or "", f"{left} more hits did not fit; ask for fewer or search more narrowly" if left else ""]
    if any(notes):
        facts["note"] = "; ".join(note for note in notes if note)
    return _json(facts)


def _told_hit(hit: Hit) -> dict[str, Any]:
    return {
        "path": hit.path,
        "startLine": hit.start_line,
        "endLine": hit.end_line,
        "score": round(hit.score, 3),
        "snippet": hit.snippet,
        "source": hit.source,
    }


def _shortened(text: str, room: int) -> str:
    """Keep the beginning of a text, as much as takes up to ``room`` characters once it is JSON."""
    while len(_json(text)) > room:
        text = text[: len(text) * room // len(_json(text))]
    return text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
