"""A second opinion on Slack's Web API: npm `emulate`, which others wrote, behind a door that lets in what slack_sdk sends.

The program reads arguments from bodies only, while the library sends some in the query, as Slack allows; the door moves them.
Known gaps of the program: no Socket Mode, no slash commands and buttons, no streams, no `markdown_text`.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp import web

from tests.patience import PATIENCE
from tests.peers.aimock import ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

OLDEST_NODE = (22, 15)
"""What emulate 0.12 takes."""
BOT_TOKEN = "xoxb-emulated-on-loopback"
SEED = {
    "slack": {
        "team": {"name": "Home", "domain": "home"},
        "users": [{"name": "anna", "real_name": "Anna"}],
        "channels": [{"name": "general"}],
    }
}
START_SECONDS = PATIENCE
_KEPT = {"authorization", "content-type"}


def program() -> Path:
    """Return where `make test` installs it."""
    return ROOT / ".cache/peers/node_modules/emulate/dist/index.js"


@cache
def new_node() -> str | None:
    """Return a Node that is new enough: the one that `make test` fetched, or the system's."""
    for path in (str(ROOT / ".cache/node/node_modules/.bin/node"), shutil.which("node") or ""):
        if shutil.which(path) is None:
            continue
        told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
        found = re.match(r"v(\d+)\.(\d+)", told)
        if found and (int(found[1]), int(found[2])) >= OLDEST_NODE:
            return path
    return None


def missing_part() -> str | None:
    """Say what keeps the program from starting; None when all is there."""
    if new_node() is None:
        return "Node.js 22.15 or newer is not there for the second opinion on Slack; run `make test` once, which fetches it with npm"
    if not program().is_file():
        return "the second opinion on Slack is not installed; run `make test` once, which fetches it with npm"
    return None


class Emulated:
    """The running program, seen through the door. ``root`` is the Web API's address."""

    def __init__(self) -> None:
        self.port = 0
        self.inner = ""
        self.calls: list[str] = []
        self._session = aiohttp.ClientSession()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    async def ask(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Call the program as anybody else would."""
        headers = {"Authorization": f"Bearer {BOT_TOKEN}"}
        async with self._session.post(f"{self.inner}/api/{method}", json=arguments, headers=headers) as answer:
            found: dict[str, Any] = await answer.json()
            assert found["ok"], found
            return found

    async def channel(self) -> str:
        """Return the id of the room that is there from the beginning."""
        found: list[dict[str, Any]] = (await self.ask("conversations.list"))["channels"]
        return str(next(one["id"] for one in found if one["name"] == "general"))

    async def handle(self, request: web.Request) -> web.Response:
        """Let a request in, with its query in its body."""
        headers = {key: value for key, value in request.headers.items() if key.lower() in _KEPT}
        given: dict[str, Any] = {"data": await request.read()}
        if request.path.startswith("/api/"):
            self.calls.append(request.path.removeprefix("/api/"))
            if request.query:
                given = {"data": dict(request.query)}
                headers.pop("Content-Type", None)
        method = "POST" if request.path.startswith("/api/") else request.method
        async with self._session.request(method, self.inner + request.path, headers=headers, **given) as answer:
            kept = {key: value for key, value in answer.headers.items() if key.lower() in {"content-type", "retry-after"}}
            return web.Response(status=answer.status, body=await answer.read(), headers=kept)

    async def close(self) -> None:
        await self._session.close()


@asynccontextmanager
async def emulated(folder: Path) -> AsyncIterator[Emulated]:
    """Run the program for a test; its log is `emulate.log` in the folder."""
    node = new_node()
    assert node is not None
    door = Emulated()
    app = web.Application(client_max_size=8 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", door.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    door.port = runner.addresses[0][1]
    seed, log = folder / "seed.json", folder / "emulate.log"
    seed.write_text(json.dumps(SEED), encoding="utf-8")
    port = await _free_port()
    door.inner = f"http://127.0.0.1:{port}"
    command = [node, str(program()), "start", "--service", "slack", "--port", str(port), "--seed", str(seed)]
    with log.open("wb") as sink:
        running = await asyncio.create_subprocess_exec(
            *command,
            "--base-url",
            f"http://127.0.0.1:{door.port}",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            cwd=folder,
        )
    try:
        await _answering(door, running, log)
        yield door
    finally:
        if running.returncode is None:
            running.terminate()
        await running.wait()
        await door.close()
        await runner.cleanup()


async def _answering(door: Emulated, running: asyncio.subprocess.Process, log: Path) -> None:
    async with asyncio.timeout(START_SECONDS):
        while running.returncode is None:
            try:
                await door.ask("auth.test")
            except aiohttp.ClientError:
                await asyncio.sleep(0.05)
            else:
                return
    said = await asyncio.to_thread(log.read_text, encoding="utf-8")
    raise RuntimeError(f"emulate did not start; it said:\n{said}")


async def _free_port() -> int:
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port
