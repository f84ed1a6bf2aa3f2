"""The tools of one agent, and how their calls are run."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

from msgspec.structs import replace

from agent.messages import ToolCall, ToolMessage
from agent.models.protocol import ToolSpec
from agent.taint import Marks, fenced, newest, random_mark
from agent.tools.arguments import failed
from agent.tools.protocol import Act, ActingTool, Effect, Outcome, RememberingTool, Tool, ToolContext
from agent.tools.tool_search import ToolCaller, ToolSearch

log = logging.getLogger(__name__)

Permit: TypeAlias = "Callable[[ToolCall], str | None]"
"""Says why a call may not run now, or None when it may."""
Withheld: TypeAlias = "Callable[[str, str], bool]"
"""Says whether a tool's call may not run because its arguments, as JSON, hold what must not leave the machine."""
WITHHELD = "not run: the arguments hold a secret of this machine, which may not leave it; the owner was told"
OUTSIDE = frozenset({"exec", "process", "web_fetch", "web_search", "message", "send_file", "mail", "calendar"})
"""Tools whose arguments reach something outside of the workspace."""
LOOKS_AROUND = frozenset({"mail", "calendar"})
"""Those of them that look something up before they can say what a call would do: they are asked in a thread."""
OTHER_PROGRAMS = "mcp_"
"""What the names of tools begin with that are those of other programs (MCP servers)."""
_RAW_SHOWN = 120
_CAPS = ((400_000, 64_000), (100_000, 32_000), (32_000, 16_000))
"""Windows in tokens from which on a result may have so many characters."""


def reaches_outside(name: str) -> bool:
    """Whether the arguments of a tool reach something outside of the workspace."""
    return name in OUTSIDE or name.startswith(OTHER_PROGRAMS)


class Toolbox:
    """The tools of one agent by name. Calls may run side by side. ``marks`` draws the marks of the fences around untrusted results.

    ``withheld`` is asked before a call reaches outside of the workspace. Models are not told of tools that are ``deferred``: they find
    them with ``tool_search``, which is there where any is.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        marks: Marks = random_mark,
        withheld: Withheld = lambda _tool, _arguments: False,
        deferred: Collection[str] = (),
    ) -> None:
        self._marks = marks
        self._withheld = withheld
        there = list(tools)
        found = [tool for tool in there if tool.spec.name in deferred]
        there += [ToolSearch(found), ToolCaller(found)] if found else []
        self._tools = {tool.spec.name: tool for tool in sorted(there, key=lambda tool: tool.spec.name)}
        self.specs: tuple[ToolSpec, ...] = tuple(tool.spec for name, tool in self._tools.items() if name not in deferred)
        """What models are told: sorted by name, the same bytes at every start, so that the provider's prompt cache holds."""
        self.told = frozenset(spec.name for spec in self.specs)
        """The names of what models are told."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools that can be called, also of those that models are not told of."""
        return tuple(self._tools)

    def effect_of(self, name: str) -> Effect:
        """Say what a repeat of a tool would do. A name nobody knows does nothing, however often."""
        tool = self._tools.get(name)
        return tool.effect if tool else "pure"

    def only_reads(self, call: ToolCall, context: ToolContext) -> bool:
        """Whether a call reads the workspace and does nothing else: no gate would ask about it, and it reaches nothing outside."""
        if self.effect_of(call.name) != "pure" or reaches_outside(call.name):
            return False
        try:
            return self.act_of(call, context) is None
        except Exception:  # a defect in one tool must not end the turn
            log.exception("tool %s could not say what it would do in turn %s", call.name, context.turn)
            return False

    def withholds(self, call: ToolCall) -> bool:
        """Whether a call may not run because it would carry a secret outside."""
        return reaches_outside(call.name) and self._withheld(call.name, json.dumps(call.arguments, ensure_ascii=False))

    def act_of(self, call: ToolCall, context: ToolContext) -> Act | None:
        """Return what a call would do, where its tool can say. Raises what the tool raises: a call that cannot be judged must not run."""
        tool = self._tools.get(call.name)
        return tool.act_of(call.arguments, context) if isinstance(tool, ActingTool) and call.arguments is not None else None

    def known_of(self, call: ToolCall, context: ToolContext) -> str:
        """Return what is known of a call that a restart interrupted, in a sentence, where its tool can say; "" otherwise."""
        tool = self._tools.get(call.name)
        return (
            tool.known_of(call.arguments, context) if isinstance(tool, RememberingTool) and call.arguments is not None else ""
        )

    async def run(
        self, call: ToolCall, context: ToolContext, *, permit: Permit | None = None, max_chars: int | None = None
    ) -> ToolMessage:
        """Run one call and answer it, whatever happens. Only cancellation gets out.

        ``permit`` may refuse the call. ``max_chars`` bounds the result (default: what the scene says): most tools keep to it
        themselves; of any other the beginning and the end are kept, around a mark that tells its length. A result with sources is fenced.
        """
        if max_chars is not None:
            context = replace(context, max_chars=max_chars)
        outcome = await self._outcome(call, context, permit)
        text = capped(outcome.text, context.max_chars)
        return ToolMessage(
            call_id=call.id,
            name=call.name,
            text=fenced(text, outcome.sources, self._marks) if outcome.sources else text,
            is_error=outcome.is_error,
            images=outcome.images,
            details=outcome.details,
            taint=newest(outcome.sources),
        )

    async def _outcome(self, call: ToolCall, context: ToolContext, permit: Permit | None) -> Outcome:
        tool = self._tools.get(call.name)
        if tool is None:
            return failed(self._unknown(call.name))
        if call.arguments is None:
            return failed(
                f"the arguments of {call.name} are not a JSON object: {call.raw[:_RAW_SHOWN]!r}; call it again with one"
            )
        refusal = WITHHELD if self.withholds(call) else permit(call) if permit else None
        if refusal:
            return failed(refusal)
        try:
            return await tool.run(call.arguments, context)
        except Exception:  # a defect in one tool must not end the turn: the model is told, and the log has the rest
            log.exception("tool %s failed in turn %s", call.name, context.turn)
            return failed(f"{call.name} failed because of a defect in it; the log has the details")

    def _unknown(self, name: str) -> str:
        if not self._tools:
            return f"there is no tool named {name!r}: this conversation has none"
        import difflib

        near = difflib.get_close_matches(name.casefold(), self._tools, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(self._tools)}"
        return f"there is no tool named {name[:80]!r}; {hint}"


def capped(text: str, cap: int) -> str:
    """Shorten a text to ``cap`` characters, keeping three quarters of its beginning and one quarter of its end, and say so."""
    if len(text) <= cap:
        return text
    mark = f"\n[cut: {len(text):,} characters in all; the middle is left out]\n"
    room = max(0, cap - len(mark))
    head = room * 3 // 4
    return text[:head] + mark + text[len(text) - (room - head) :]


def result_cap(window: int) -> int:
    """How many characters one result may have for a model with a window of that many tokens: about a tenth of it at most."""
    return next((cap for least, cap in _CAPS if window >= least), max(2000, window // 2))
