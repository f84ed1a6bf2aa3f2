"""What a running gateway serves besides its channels: the API on its unix socket and on TCP, and the watchdog.

Imported only by a gateway that serves: it brings in Starlette and uvicorn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import replace

from channels.protocol import Hooked
from channels.terminal.channel import TerminalChannel
from gateway.api.routes.admin import Call, admin_routes
from gateway.api.routes.chat_stream import ChatRoutes
from gateway.api.routes.health import health_routes
from gateway.api.routes.hook_routes import HookRoutes
from gateway.api.routes.on_demand import on_demand, on_demand_all
from gateway.api.routes.webhooks import Webhooks
from gateway.api.server import PortTaken, Routes, serve_tcp, serve_unix
from gateway.api.unix_socket import SOCKET
from gateway.app.api_parts import ApiParts
from gateway.app.page_parts import PageParts
from gateway.app.telemetry_parts import TelemetryParts
from gateway.base.api_token import FILE_NAME, GatewayToken
from gateway.base.state_lock import StateLock, describe
from gateway.base.structured_log import structlog
from gateway.hooks.receiver import HookReceiver
from gateway.settings.http_settings import ANOTHER_PORT, PORT_VARIABLE, GatewaySettings
from gateway.supervision.channel_supervisor import ChannelSupervisor
from gateway.supervision.disk_guard import DiskGuard
from gateway.supervision.watchdog import Watchdog, end_at_once, supervised

if TYPE_CHECKING:
    from gateway.app.forwarding import ForwardingParts

Status = Callable[[], Awaitable[dict[str, Any]]]


async def unix_api(
    local: Path,
    calls: Mapping[str, Call],
    *,
    status: Status,
    terminal: TerminalChannel,
    forwarding: ForwardingParts | None = None,
) -> None:
    """Serve the owner's commands (``calls`` by name) and conversations on the unix socket in ``local``."""
    log = structlog.get_logger("gateway.api")
    chat = ChatRoutes(terminal)
    routes = [*_health(status), *admin_routes(calls, log), *chat.routes()]
    last = [] if forwarding is None else [forwarding.entries().terminals()]
    await serve_unix(routes, local / SOCKET, log=log, ending=chat.close, last=last)


async def tcp_api(
    state: Path,
    local: Path,
    settings: Callable[[], GatewaySettings],
    *,
    api: ApiParts,
    metrics: TelemetryParts,
    page: PageParts,
    calls: Callable[[], Mapping[str, Call]],
    learn: Callable[[Iterable[str]], None],
    status: Status,
    channels: ChannelSupervisor,
    hooks: HookReceiver,
    elsewhere: Callable[[], Collection[str]],
    lock: StateLock,
    forwarding: ForwardingParts | None = None,
    terminal: TerminalChannel,
) -> None:
    """Serve what is public over HTTP on TCP, and write the port into the lock."""

    def given() -> str | None:
        secret = settings().auth.token
        return None if secret is None else secret.get_secret_value()

    token = GatewayToken(state / FILE_NAME, given, learn)
    await token.open()

    def started(port: int) -> None:
        holder = describe(local / "gateway.lock")
        if holder is not None:
            lock.write(replace(holder, http_port=port))
        if forwarding is not None:
            forwarding.listening(port, everywhere=settings().bind == "lan")

    def hook(channel: str, account: str) -> Hooked | Literal["unknown", "not running"]:
        runner = channels.get(f"{channel}:{account}")
        if runner is None:
            return "not running" if f"{channel}:{account}" in elsewhere() else "unknown"
        return runner.hook

    log = structlog.get_logger("gateway.http")
    webhooks = [*HookRoutes(hooks, log).routes(), *Webhooks(hook, log).routes()]
    openai = on_demand("/v1/{path:path}", "gateway.openai.enabled", enabled=lambda: api.enabled, make=api.routes)
    routes = [*_health(status), *webhooks, openai, *_switched_on(metrics, page, calls)]
    if forwarding is None:
        await serve_tcp(routes, settings(), token=token, log=log, started=started, ending=page.close)
        return
    chat, entries = ChatRoutes(terminal), forwarding.entries()

    def ending() -> None:
        page.close()
        chat.close()

    first = [entries.door([*webhooks, openai, *chat.routes()], log)]
    last = [entries.webhooks()]
    try:
        await serve_tcp(routes, settings(), token=token, log=log, started=started, ending=ending, first=first, last=last)
    except PortTaken as error:  # the settings are those of all gateways
        raise PortTaken(error.message, where=PORT_VARIABLE, hint=ANOTHER_PORT) from error


def _switched_on(metrics: TelemetryParts, page: PageParts, calls: Callable[[], Mapping[str, Call]]) -> Routes:
    """Return the routes that are there while a setting says so."""
    return [
        on_demand("/metrics", "gateway.metrics.enabled", enabled=lambda: metrics.enabled, make=metrics.routes),
        *on_demand_all(
            ("/", "/enter", "/static/{path:path}", "/page/{path:path}"),
            "gateway.page.enabled",
            enabled=lambda: page.enabled,
            make=lambda: page.routes(calls),
        ),
    ]


async def watch(disk: DiskGuard, env: Mapping[str, str], *, restart: bool) -> None:
    """Watch the event loop and the disk. With ``restart``, or under a service manager, a blocked event loop ends the process."""
    with Watchdog(end=end_at_once if restart or supervised(env) else None):
        await disk.run()


def _health(status: Status) -> Routes:
    return health_routes(ready={"ledger": lambda: None}, status=status, log=structlog.get_logger("gateway.http"))
