"""The door for webhooks over a real socket and a real ledger, with everything behind it that has no model."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import structlog
from msgspec.structs import replace

from channels.messages import ChatAddress
from gateway.api.routes.health import health_routes
from gateway.api.routes.hook_routes import HookRoutes
from gateway.api.routes.webhooks import Webhooks
from gateway.api.server import serve_tcp
from gateway.base.api_token import FixedToken
from gateway.base.clock import ManualClock
from gateway.hooks.credentials import hash_of
from gateway.hooks.receiver import HookReceiver
from gateway.hooks.target import HookMessages
from gateway.ledger.hook_rows import HOOK_ACCOUNT, Hook, HookRules
from gateway.ledger.rows import Unasked
from gateway.routing.routed_message import arrival_of, decode_received
from gateway.settings.http_settings import GatewaySettings
from gateway.settings.quiet_hours import UnaskedRule
from memory.audience import OWNER
from tests.both_engines import engine, on_each
from tests.ledger.engines import open_at

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable
    from pathlib import Path

    import pytest

    from channels.messages import Inbound
    from gateway.ledger.protocol import Ledger
    from gateway.ledger.rows import InboxRow
    from gateway.routing.routed_message import Automation, ReceivedMessage
    from gateway.routing.router import Route
    from memory.audience import Audience

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOME = ChatAddress(channel="telegram", kind="direct", id="42")
TOKEN = "pVq7wT0b9LrWm5ZsYd8HcN2pK4xQ"
SECRET = "sGn3wT0b9LrWm5ZsYd8HcN2pK4xQ"
GATEWAY_TOKEN = "k3XqvT0b9LrWm5ZsYd8HcN2p"
BEARER = f"Authorization: Bearer {TOKEN}"
PROMPT = HookRules(kind="prompt", text="Tell me what happened.", burst=1000, per_minute=1000)

__all__ = ["engine"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests that open a door on each engine."""
    on_each(metafunc, (), openers=("opened",))


def a_hook(name: str = "alarm", **more: Any) -> Hook:
    plain = Hook(
        id=f"{sum(name.encode()):08x}",
        name=name,
        agent="main",
        rules=PROMPT,
        token_hash=hash_of(TOKEN),
        secret=None,
        created_at=NOON,
        changed_at=NOON,
    )
    return replace(plain, **more)


@dataclass
class Door:
    """A running server. ``agents`` are those there are, ``rule`` when texts are sent that nobody asked for."""

    port: int
    ledger: Ledger
    receiver: HookReceiver
    clock: ManualClock
    agents: set[str] = field(default_factory=lambda: {"main"})
    told: list[str] = field(default_factory=list)
    rule: UnaskedRule = field(default_factory=lambda: UnaskedRule(zone=ZoneInfo("UTC")))

    async def add(self, *hooks: Hook) -> None:
        for one in hooks:
            assert await self.ledger.hooks.add(one)
        self.receiver.changed()

    async def taken(self) -> list[tuple[InboxRow, ReceivedMessage]]:
        return [(row, decode_received(row)) for row in await self.ledger.inbox.latest(["waiting"], limit=5000)]

    async def call(
        self, name: str = "alarm", *lines: str, body: bytes = b'{"a": 1}', length: int | None = None, method: str = "POST"
    ) -> tuple[int, str, bytes]:
        """Send one request with the right token unless other lines are given; return status, head and body of the answer."""
        given = lines or (BEARER, "Content-Type: application/json")
        length_line = f"Content-Length: {len(body) if length is None else length}"
        head = [f"{method} /hooks/in/{name} HTTP/1.1", "Host: x", *given, length_line, "Connection: close", "", ""]
        return await self.raw("\r\n".join(head).encode("latin-1") + body)

    async def raw(self, sent: bytes) -> tuple[int, str, bytes]:
        """Send bytes; return the first answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        told = b""
        try:
            writer.write(sent)
            told = await asyncio.wait_for(reader.read(), 60)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        top, _, answer = told.partition(b"\r\n\r\n")
        return int(top.split()[1]), top.decode().lower(), answer


@contextlib.asynccontextmanager
async def opened(
    folder: Path, *, body_seconds: float = 5.0, learn: Callable[[Iterable[str]], None] = lambda _: None, **settings: Any
) -> AsyncIterator[Door]:
    clock = ManualClock(NOON)
    ledger = await open_at(folder / "ledger.sqlite", clock)
    door = Door(0, ledger, None, clock)  # type: ignore[arg-type]

    async def submit(inbound: Inbound, route: Route, automation: Automation) -> InboxRow | None:
        arrival = arrival_of(inbound, route, automation, clock.now())
        rows = (await ledger.inbox.accept(HOOK_ACCOUNT, [arrival])).rows
        return rows[0] if rows else None

    async def latest(_: str) -> ChatAddress:
        return HOME

    async def audience(agent: str, place: ChatAddress) -> Audience:
        del agent, place
        return OWNER

    target = HookMessages(
        submit=submit,
        announce=ledger.context_events.announce,
        latest=latest,
        name_at=lambda _agent, _place: "",
        audience=audience,
        agents=lambda: door.agents,
        unasked=lambda hook: Unasked(agent=hook.agent, source=f"hook:{hook.name}", name=hook.name, rule=door.rule),
        tell=door.told.append,
        clock=clock,
    )
    door.receiver = HookReceiver(ledger.hooks, target, clock, learn=learn)

    async def facts() -> dict[str, object]:
        return {}

    log = structlog.get_logger("gateway.http")
    routes = [
        *health_routes(ready={}, status=facts, log=log),
        *HookRoutes(door.receiver, log, body_seconds).routes(),
        *Webhooks(lambda *_: "unknown", log).routes(),
    ]
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    settings = GatewaySettings(port=0, **settings)
    running = asyncio.create_task(
        serve_tcp(routes, settings, token=FixedToken(GATEWAY_TOKEN), log=log, started=port.set_result)
    )
    try:
        door.port = await port
        yield door
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        await ledger.close()
