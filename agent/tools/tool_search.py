"""Tools that are too many to be told of in each request: ``tool_search`` finds them, and ``mcp_call`` calls one.

The request is the same whatever was found, so that the prompt stays as a provider's cache has it.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from msgspec import Struct
from msgspec.structs import replace
from pydantic import AliasChoices, Field

from agent.tools.arguments import Arguments, CheckedTool, CleanText, at_most, failed
from agent.tools.protocol import Act, ActingTool, Effect, Outcome, Tool, ToolContext

SEARCH: Final = "tool_search"
CALL: Final = "mcp_call"
_MOST: Final = 10
_FREQUENCY, _LENGTH = 1.2, 0.75
"""Weights of BM25: how much a word counts that stands often, and in a short text (Robertson and Zaragoza 2009)."""
_NAME_COUNTS: Final = 3
"""Words of a name count as if they stood so often in the description."""
_WORD: Final = re.compile(r"[^\W_]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class SearchArguments(Arguments):
    """What ``tool_search`` takes."""

    query: Annotated[CleanText, at_most(500), Field(description="what you want to do, in a few words")]


class CallArguments(Arguments):
    """What ``mcp_call`` takes."""

    name: Annotated[str, Field(validation_alias=AliasChoices("name", "tool"))]
    arguments: dict[str, Any] = Field(default_factory=dict)


class _Indexed(Struct, frozen=True):
    tool: Tool
    words: Counter[str]
    length: int


class ToolSearch(CheckedTool[SearchArguments]):
    """Finds tools by the words of their names and descriptions (BM25)."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        super().__init__(
            SearchArguments,
            name=SEARCH,
            description=(
                f"Find further tools ({len(tools)} of other programs: {_families(tools)}) by what they do. Call what you find with {CALL}."
            ),
            effect="pure",
            output="descriptions of tools that you approved",
            private=True,
        )
        self._tools = [_indexed(tool) for tool in sorted(tools, key=lambda tool: tool.spec.name)]
        self._usual = sum(one.length for one in self._tools) / max(1, len(self._tools))
        self._holding = Counter(word for one in self._tools for word in one.words)

    async def act(self, arguments: SearchArguments, context: ToolContext) -> Outcome:
        """Return the best tools with their arguments, as many as fit."""
        found = self.ranked(arguments.query)
        if not found:
            return Outcome(
                text=f"No tool matches. There are: {', '.join(one.tool.spec.name for one in self._tools)}"[: context.max_chars]
            )
        lines: list[str] = []
        for tool in found[:_MOST]:
            spec = tool.spec
            line = json.dumps(
                {"name": spec.name, "description": spec.description, "arguments": spec.parameters}, ensure_ascii=False
            )
            if lines and sum(map(len, lines)) + len(line) > context.max_chars:
                break
            lines.append(line)
        left = len(found) - len(lines)
        return Outcome(text="\n".join([*lines, *([f"[{left} more match less well]"] if left > 0 else [])]))

    def ranked(self, query: str) -> list[Tool]:
        """Return the tools that share a word with a query, the best first; of equal ones the first by name."""
        wanted = set(_words(query))
        scores = [(self._score(one, wanted), one.tool) for one in self._tools]
        return [tool for score, tool in sorted(scores, key=lambda pair: (-pair[0], pair[1].spec.name)) if score > 0]

    def _score(self, one: _Indexed, wanted: set[str]) -> float:
        total = 0.0
        for word in wanted & one.words.keys():
            rare = math.log(1 + (len(self._tools) - self._holding[word] + 0.5) / (self._holding[word] + 0.5))
            often = one.words[word]
            total += rare * often * (_FREQUENCY + 1) / (often + _FREQUENCY * (1 - _LENGTH + _LENGTH * one.length / self._usual))
        return total


class ToolCaller(CheckedTool[CallArguments]):
    """Calls a tool that ``tool_search`` found. It is judged, and run, like the tool itself."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        super().__init__(
            CallArguments,
            name=CALL,
            description=f"Call a tool that {SEARCH} found.",
            effect="effect",
            output="that of the tool: untrusted",
            needs=("approval",),
            private=True,
        )
        self._tools = {tool.spec.name: tool for tool in tools}

    def effect_of(self, name: str) -> Effect:
        """Return the effect of a tool."""
        return self._tools[name].effect if name in self._tools else "pure"

    def act_of(self, arguments: Mapping[str, Any], context: ToolContext) -> Act | None:
        """Return what the tool would do, under its own name; None where ``run`` refuses the call."""
        given = self.checked(arguments)
        tool = self._tools.get(given.name) if given is not None else None
        if given is None or not isinstance(tool, ActingTool):
            return None
        act = tool.act_of(given.arguments, context)
        return None if act is None else replace(act, tool=act.tool or given.name)

    async def act(self, arguments: CallArguments, context: ToolContext) -> Outcome:
        """Call it."""
        tool = self._tools.get(arguments.name)
        if tool is None:
            return failed(f"there is no tool {arguments.name[:80]!r}; {SEARCH} finds those that there are")
        return await tool.run(arguments.arguments, context)


def _indexed(tool: Tool) -> _Indexed:
    words = [*_words(tool.spec.name) * _NAME_COUNTS, *_words(tool.spec.description)]
    words += [word for name in tool.spec.parameters.get("properties", {}) for word in _words(str(name))]
    return _Indexed(tool, Counter(words), len(words))


def _words(text: str) -> list[str]:
    """Return the words of a text, also those within a name such as ``read_textFile``, without the s of a plural."""
    found = (word.casefold() for word in _WORD.findall(_CAMEL.sub(" ", text)))
    return [word[:-1] if len(word) > 3 and word.endswith("s") else word for word in found]  # noqa: PLR2004 -- "is", "was"


def _families(tools: Sequence[Tool]) -> str:
    """Name the servers of the tools."""
    return ", ".join(sorted({tool.spec.name.split("_")[1] for tool in tools if tool.spec.name.count("_") > 1})) or "various"
