"""A server of the Model Context Protocol on standard input and output, which offers other programs what an agent has.

What it offers is a list of plain facts and one function, so that it knows neither agents nor whether a gateway runs.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server

log = logging.getLogger(__name__)


class Offer(Struct, frozen=True):
    """One tool that is offered. ``arguments`` is a JSON Schema; ``writes`` says that a call changes something."""

    name: str
    description: str
    arguments: dict[str, Any]
    writes: bool = False


class Given(Struct, frozen=True):
    """The result of a call. ``untrusted`` names the sources of text in it that is not the owner's."""

    text: str
    is_error: bool = False
    untrusted: tuple[str, ...] = ()


Answer: TypeAlias = "Callable[[str, dict[str, Any]], Awaitable[Given]]"
"""Answers a call by name and arguments. What it raises is told to the client as a defect, without details."""


def server_of(offers: Sequence[Offer], answer: Answer, *, instructions: str) -> Server[Any]:
    """Build the server. Its tools are ``offers``, in this order."""
    import mcp_types as types
    from mcp.server.lowlevel import Server

    names = {offer.name for offer in offers}
    tools = [_tool(offer) for offer in offers]

    async def listed(_: ServerRequestContext[Any], params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        del params
        return types.ListToolsResult(tools=tools)

    async def called(_: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name not in names:
            return _result(Given(f"there is no tool {params.name[:80]!r}; there is {', '.join(sorted(names))}", is_error=True))
        try:
            return _result(await answer(params.name, dict(params.arguments or {})))
        except Exception:  # a defect in one call must not end the server
            log.exception("the call of %s failed", params.name)
            return _result(
                Given(f"{params.name} failed; the log of this server (standard error) has the details", is_error=True)
            )

    return Server("homebody", version=version("homebody"), instructions=instructions, on_list_tools=listed, on_call_tool=called)


async def serve(offers: Sequence[Offer], answer: Answer, *, instructions: str) -> None:
    """Serve on standard input and output until the client closes them."""
    from mcp.server.stdio import stdio_server

    from gateway.mcp.answered_stream import AnsweredStream

    server = server_of(offers, answer, instructions=instructions)
    async with stdio_server() as (read, write):
        await server.run(AnsweredStream(read, write), write, server.create_initialization_options())


def _tool(offer: Offer) -> types.Tool:
    import mcp_types as types

    hints = types.ToolAnnotations(
        read_only_hint=not offer.writes, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    return types.Tool(name=offer.name, description=offer.description, input_schema=offer.arguments, annotations=hints)


def _result(given: Given) -> types.CallToolResult:
    import mcp_types as types

    meta = {"homebody/untrusted": list(given.untrusted)} if given.untrusted else None
    return types.CallToolResult(content=[types.TextContent(text=given.text)], is_error=given.is_error, _meta=meta)


def as_facts(given: Given) -> dict[str, Any]:
    """Return a result as JSON values."""
    return {"text": given.text, "isError": given.is_error, "untrusted": list(given.untrusted)}


def from_facts(facts: dict[str, Any]) -> Given:
    """Return the result that ``as_facts`` wrote. Raises ValueError for anything else."""
    try:
        return Given(str(facts["text"]), bool(facts["isError"]), tuple(map(str, facts["untrusted"])))
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a result of a call: {json.dumps(facts)[:200]}") from error
