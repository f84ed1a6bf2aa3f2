"""The slash command ``/mcp``: shows the MCP servers, and approves what one of them offers now."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, TypeAlias

from channels.messages import Button
from gateway.base.errors import HomebodyError
from gateway.mcp.offer import texts_of
from gateway.mcp.servers import McpServers, Server, shortened
from gateway.routing.routed_message import RoutedMessage

Reply: TypeAlias = "tuple[str, Sequence[Button]]"
_USAGE: Final = "Send /mcp for the list of servers, /mcp NAME for one, or /mcp approve NAME DIGEST as a notice says."
_TOLD: Final = 2500


class McpCommand:
    """Answers ``/mcp``, for owners. May be called twice for one message after a crash."""

    def __init__(self, servers: McpServers) -> None:
        self._servers = servers

    async def reply(self, argument: str, message: RoutedMessage) -> Reply:
        """Do what the argument says and return the reply with its buttons."""
        if not message.actor.owner or message.route.audience.kind != "owner":
            return "Only my owner can use this command, in a private chat.", ()
        try:
            return await self._reply(argument.split())
        except HomebodyError as error:
            text = str(error)
            return f"{text[:1].upper()}{text[1:]}. {error.hint}".strip(), ()

    async def _reply(self, words: Sequence[str]) -> Reply:
        match words:
            case []:
                lines = [_line(server) for server in self._servers]
                return "\n".join(
                    ["MCP servers:", "", *lines] if lines else ["There are no MCP servers (homebody mcp add)."]
                ), ()
            case ["approve", name, digest]:
                server, text = await asyncio.to_thread(self._servers.approve, name, digest)
                return f"✅ Approved what {server.name} offers now: {shortened(text)}.", ()
            case [name]:
                return _shown(self._servers.get(name))
            case _:
                return _USAGE, ()


def _line(server: Server) -> str:
    pin, connection = server.pin, server.connection
    state = (
        "running"
        if connection.running
        else f"failing: {shortened(connection.last_error, 200)}"
        if connection.failures
        else "stopped"
    )
    waits = "; 🔐 changed" if pin is not None and pin.waiting is not None else ""
    return f"- `{server.name}`: {state if pin is not None else 'never reached'}, {len(server.tools)} tools{waits}"


def _shown(server: Server) -> Reply:
    lines = [
        _line(server)[2:],
        *(f"- `{tool.name}` — {shortened(' '.join(tool.description.split()), 120)}" for tool in server.tools),
    ]
    pin = server.pin
    if pin is None or pin.waiting is None:
        return shortened("\n".join(lines), _TOLD), ()
    fresh = [*pin.difference.added, *pin.difference.changed]
    lines += ["", f"🔐 It offers something else than you approved ({shortened(pin.difference.in_words)}). It says now:"]
    lines += [
        f"- `{tool.name}` — {shortened(' '.join(tool.description.split()), 400)}"
        + (f"; arguments: {shortened(arguments, 400)}" if (arguments := " | ".join(texts_of(tool.schema))) else "")
        for tool in pin.waiting.tools
        if tool.name in fresh
    ]
    button = Button(label="✅ Approve", value=f"/mcp approve {server.name} {pin.waiting.digest[:8]}")
    return shortened("\n".join(lines), _TOLD), (button,)
