"""A whole house that serves its page on a real port, with a scripted model, and a browser without a screen."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.clock import SystemClock
from gateway.base.paths import Paths
from gateway.base.state_lock import describe
from tests.openai_api.conftest import until
from tests.patience import PATIENCE
from tests.peers.phone import Village

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@dataclass
class Tab:
    """What a browser does: it has a cookie, sends the value against forged requests, and says where a request comes from."""

    client: httpx.AsyncClient
    base: str
    csrf: str = ""
    me: dict[str, Any] = field(default_factory=dict)

    async def enter(self, code: str) -> httpx.Response:
        answer = await self.post("/enter", {"code": code})
        if answer.status_code == 200:
            self.me = (await self.client.get("/page/me")).json()
            self.csrf = self.me["csrf"]
        return answer

    async def post(self, path: str, body: Any = None, **headers: str) -> httpx.Response:
        given = {"origin": self.base, "sec-fetch-site": "same-origin", "x-homebody-csrf": self.csrf} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        content = body if isinstance(body, bytes) else json.dumps(body or {}).encode("utf-8", "surrogatepass")
        return await self.client.post(path, content=content, headers={name: value for name, value in given.items() if value})

    async def call(self, name: str, /, **arguments: Any) -> Any:
        """Make a call that must succeed."""
        answer = await self.post(f"/page/call/{name}", arguments)
        assert answer.status_code == 200, answer.text
        return answer.json()["result"]

    @contextlib.asynccontextmanager
    async def events(self, last: str | None = None) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
        """Listen; yields ``{"id", "kind", "data"}``."""
        headers = {"last-event-id": last} if last else {}
        async with self.client.stream("GET", "/page/events", headers=headers) as answer:
            assert answer.status_code == 200, await answer.aread()
            lines = answer.aiter_lines()
            assert await anext(lines) == "retry: 1000"
            yield _events(lines)


async def _events(lines: AsyncIterator[str]) -> AsyncIterator[dict[str, Any]]:
    name = ""
    beats = False
    async for line in lines:
        if line.startswith("id: "):
            name = line[4:]
        elif line.startswith("data: ") and not beats:
            yield {"id": name, **json.loads(line[6:])}
        beats = line == "event: beat"


@dataclass
class ServedPage:
    """A running house, and how browsers come in."""

    house: Gateway
    port: int
    state: Path
    clients: list[httpx.AsyncClient] = field(default_factory=list)

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stranger(self) -> Tab:
        """A browser that was not let in."""
        client = httpx.AsyncClient(base_url=self.base, trust_env=False, timeout=PATIENCE, verify=False)
        self.clients.append(client)
        return Tab(client, self.base)

    async def tab(self, *, viewer: bool = False) -> Tab:
        """A browser that was let in."""
        tab = self.stranger()
        made = await self.house.page.open(viewer=viewer)
        assert (await tab.enter(made["code"])).status_code == 200
        return tab


class PageVillage(Village):
    """Opens houses that serve their page."""

    def __init__(self, root: Path, **settings: Any) -> None:
        super().__init__(root, gateway={"port": 0} | settings.pop("gateway", {}), **settings)
        self.clock = SystemClock()  # type: ignore[assignment]

    @contextlib.asynccontextmanager
    async def page(self) -> AsyncIterator[ServedPage]:
        paths = Paths(self.root / "home")
        on = Dependencies(settings=self.settings, paths=paths, env={}, clock=self.clock, random=random.Random(7), serving=True)
        house = await Gateway.open(on)
        house.model_registry.put("scripted/model", self.model)
        running = asyncio.ensure_future(house.run())
        lock = paths.state / "gateway.lock"
        await until(lambda: running.done() or bool((found := describe(lock)) and found.http_port))
        if running.done():
            running.result()
        holder = describe(lock)
        assert holder is not None
        served = ServedPage(house, holder.http_port or 0, paths.state)
        try:
            yield served
        finally:
            for one in served.clients:
                await one.aclose()
            house.stop()
            await running
            await house.close()


@pytest.fixture
def village(tmp_path: Path) -> PageVillage:
    return PageVillage(tmp_path)


@pytest.fixture
async def served(village: PageVillage) -> AsyncIterator[ServedPage]:
    async with village.page() as found:
        yield found
