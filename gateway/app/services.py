"""What a running gateway serves besides its channels: the API on its unix socket and on TCP, and the watchdog."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from gateway.api.handlers.pairing_requests import PairingHandlers
from gateway.api.handlers.queues import QueueHandlers
from gateway.api.handlers.routes import RouteHandlers
from gateway.api.unix_socket import SOCKET
from gateway.base.api_token import FILE_NAME, token_from_file, token_from_settings
from gateway.base.state_lock import describe
from gateway.budget.report import facts

if TYPE_CHECKING:
    from channels.protocol import Hooked
    from gateway.api.routes.admin import Call
    from gateway.api.server import Routes
    from gateway.app.gateway import Gateway


async def unix_api(house: Gateway) -> None:
    """Serve the owner's commands and conversations on the unix socket."""
    import structlog

    from gateway.api.routes.admin import admin_routes
    from gateway.api.routes.chat import ChatRoutes
    from gateway.api.server import serve_unix

    async def usage(since: str) -> dict[str, Any]:
        return facts(await house.ledger.spending.usage(since))

    calls: dict[str, Call] = {
        "usage": usage,
        **house.status.calls(),
        **PairingHandlers(house.ledger, house.access).calls(),
        **RouteHandlers(
            lambda: house.settings.current, lambda: house.router, house.access, house.channel_supervisor.policies
        ).calls(),
        **QueueHandlers(house.ledger, house.inbox.hand_out).calls(),
    }
    log = structlog.get_logger("gateway.api")
    chat = ChatRoutes(house.terminal)
    routes = [*_health(house), *admin_routes(calls, log), *chat.routes()]
    await serve_unix(routes, house.deps.paths.state / SOCKET, log=log, ending=chat.close)


async def watch(house: Gateway) -> None:
    """Watch the event loop and the disk."""
    from gateway.supervision.disk_guard import DiskGuard
    from gateway.supervision.watchdog import Watchdog, end_at_once, supervised

    loop = asyncio.get_running_loop()

    def changed(level: str, told: str) -> None:
        if level == "out":
            house.pause.begin("disk", told)
        else:
            house.pause.end("disk")
            house.owner.say(f"💾 {told}", waits=True)

    def heard(level: str, told: str) -> None:
        loop.call_soon_threadsafe(changed, level, told)

    with Watchdog(end=end_at_once if house.deps.restart_on_stall or supervised(house.deps.env) else None):
        await DiskGuard(house.deps.paths.state, house.deps.clock, heard).run()


async def tcp_api(house: Gateway) -> None:
    """Serve what is public over HTTP on TCP."""
    import structlog

    from gateway.api.routes.webhooks import Webhooks
    from gateway.api.server import serve_tcp

    settings = house.settings.current.gateway.under(house.deps.env)
    given = settings.auth.token
    if given is not None:
        token = token_from_settings(given.get_secret_value())
    else:
        token = await asyncio.to_thread(token_from_file, house.deps.paths.state / FILE_NAME)

    def started(port: int) -> None:
        holder = describe(house.deps.paths.state / "gateway.lock")
        if holder is not None:
            house.lock.write(replace(holder, http_port=port))

    def hook(channel: str, account: str) -> Hooked | Literal["unknown", "not running"]:
        keeper = house.channel_supervisor.get(f"{channel}:{account}")
        return "unknown" if keeper is None else keeper.hook

    log = structlog.get_logger("gateway.http")
    await serve_tcp([*_health(house), *Webhooks(hook, log).routes()], settings, token=token, log=log, started=started)


def _health(house: Gateway) -> Routes:
    import structlog

    from gateway.api.routes.health import health_routes

    return health_routes(ready={"ledger": lambda: None}, status=house.status.status, log=structlog.get_logger("gateway.http"))
