"""Opens a session with a server, over a program's pipes or over HTTP.

Loads the MCP library: import it in a thread, when a server is used.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final, Literal

from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    REQUEST_TIMEOUT,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    GetPromptResult,
    Implementation,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceResult,
    ToolListChangedNotification,
)
from pydantic import TypeAdapter

from gateway.mcp.errors import CallRefused
from gateway.mcp.offer import MOST_TOOLS, Offer, offered
from gateway.mcp.stdio import LONGEST_LINE, Ending, Program, stdio_streams
from gateway.mcp.tolerant_stream import TolerantStream
from gateway.net.guarded_client import guarded_client

__all__ = ["CONNECTION_CLOSED", "REQUEST_TIMEOUT", "MCPError", "McpSession", "opened"]

MOST_PAGES: Final = 50
"""Pages of a list that are asked for."""
MOST_LISTED: Final = 500
"""Resources or prompts that are listed."""
GONE: Final = "Session terminated"
"""What the SDK says when an HTTP server does not know the session any more."""
CLOSED: Final = "Connection closed"
"""What the SDK says when the connection is closed."""
_CALL_RESULT: Final = TypeAdapter[CallToolResult | InputRequiredResult](CallToolResult | InputRequiredResult)
for _name in ("mcp", "client"):  # the SDK logs, with tracebacks, what a server does wrong; errors say it here
    logging.getLogger(_name).setLevel(logging.CRITICAL)

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A server over HTTP."""

    url: str
    headers: Mapping[str, str]
    seconds: float


class McpSession:
    """A session with one server. Its methods raise what the SDK raises; ``gateway.mcp.connection`` translates that."""

    def __init__(self, client: Client, left_out: list[tuple[str, str]]) -> None:
        self._client = client
        self._left_out = left_out

    @property
    def legacy(self) -> bool:
        """Whether the server speaks a protocol that begins with a handshake."""
        return self._client.session.discover_result is None

    async def offer(self) -> Offer:
        """Ask what the server offers."""
        has = self._client.server_capabilities
        tools: list[dict[str, Any]] = []
        self._left_out.clear()
        cursor: str | None = None
        for _ in range(MOST_PAGES if has.tools is not None else 0):
            page = await self._client.session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
            tools += [one.model_dump(by_alias=True, mode="json", exclude_none=True) for one in page.tools]
            cursor = page.next_cursor
            if not cursor or len(tools) > MOST_TOOLS:
                break
        info = self._client.server_info
        title = f"{info.title or info.name} {info.version}" if info is not None else ""
        return offered(
            tools,
            resources=has.resources is not None,
            prompts=has.prompts is not None,
            title=title,
            left_out=self._left_out,
        )

    async def call(self, tool: str, arguments: dict[str, Any], seconds: float, show: Progress | None = None) -> CallToolResult:
        """Call a tool. What it returns is not checked against the schema that it promised: a schema can be made to take for ever."""

        async def tell(progress: float, total: float | None, message: str | None) -> None:
            if show is not None:
                show(" ".join(f"{message or ''} {progress:g}{f' of {total:g}' if total else ''}".split())[:200])

        result = await self._client.session.send_request(
            CallToolRequest(params=CallToolRequestParams(name=tool, arguments=arguments)),
            _CALL_RESULT,
            request_read_timeout_seconds=seconds,
            progress_callback=tell if show is not None else None,
        )
        if isinstance(result, InputRequiredResult):
            raise CallRefused("it asks for something from people or from a model in the midst of a call, which is not given")
        return result

    async def resources(self) -> tuple[ListResourcesResult, ListResourceTemplatesResult]:
        """List the first page of resources and of their templates."""
        return await self._client.session.list_resources(), await self._client.session.list_resource_templates()

    async def read(self, uri: str) -> ReadResourceResult:
        """Read a resource."""
        return await self._client.session.read_resource(uri)

    async def prompts(self) -> ListPromptsResult:
        """List the first page of prompts."""
        return await self._client.session.list_prompts()

    async def prompt(self, name: str, arguments: dict[str, str]) -> GetPromptResult:
        """Return the messages of a prompt."""
        return await self._client.session.get_prompt(name, arguments)


@asynccontextmanager
async def opened(
    place: Program | Address, ending: Ending, *, legacy: bool, changed: Callable[[], None]
) -> AsyncIterator[McpSession]:
    """Connect, shake hands and yield the session. Enter and leave it in one task.

    ``legacy``: the server is known to begin with a handshake. ``changed`` is called when it says that its tools changed. Requests of the
    server for sampling, elicitation and roots are answered with an error, as none of them is announced.
    """

    async def heard(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            changed()

    mode: Literal["legacy", "auto"] = "legacy" if legacy else "auto"
    info = Implementation(name="homebody", version=version("homebody"))
    left_out: list[tuple[str, str]] = []
    if isinstance(place, Program):
        transport = _tolerant(stdio_streams(place, ending), left_out)
        async with Client(transport, mode=mode, cache=None, client_info=info, message_handler=heard) as client:
            yield McpSession(client, left_out)
        return
    http = guarded_client(place.url, headers=place.headers, largest=LONGEST_LINE, seconds=place.seconds)
    async with http:
        streams = streamable_http_client(place.url, http_client=http, max_sse_event_size=LONGEST_LINE)
        over_http = _tolerant(streams, left_out)
        async with Client(over_http, mode=mode, cache=None, client_info=info, message_handler=heard) as client:
            yield McpSession(client, left_out)


@asynccontextmanager
async def _tolerant(
    streams: AbstractAsyncContextManager[tuple[Any, Any]], left_out: list[tuple[str, str]]
) -> AsyncIterator[tuple[Any, Any]]:
    async with streams as (received, to_send):
        yield TolerantStream(received, left_out), to_send
