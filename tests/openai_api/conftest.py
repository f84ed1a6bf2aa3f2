"""A whole house with its API on a real port, a scripted model, and a chat in which its owner is asked."""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import openai

from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.client_tokens import ClientTokens
from gateway.base.clock import SystemClock
from gateway.base.paths import Paths
from gateway.base.state_lock import describe
from tests.patience import PATIENCE
from tests.peers.phone import OPEN, Phone, Village

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path


@dataclass
class Served:
    """A running house, and the way to call it."""

    house: Gateway
    phone: Phone
    port: int
    state: Path
    clients: list[openai.AsyncOpenAI] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def gateway_token(self) -> str:
        return (self.state / "gateway.token").read_text().strip()

    @property
    def tokens(self) -> ClientTokens:
        return ClientTokens(self.state)

    def token(self, name: str = "app", *, guest: str = "", agent: str = "") -> str:
        role: Any = "guest" if guest else "owner"
        return self.tokens.add(name, role=role, guest=guest, agent=agent, now=SystemClock().now())[1]

    def client(self, token: str | None = None, **more: Any) -> openai.AsyncOpenAI:
        made = openai.AsyncOpenAI(
            base_url=self.url, api_key=token or self.gateway_token, **{"max_retries": 0, "timeout": PATIENCE, **more}
        )
        self.clients.append(made)
        return made

    async def ask(self, text: str, client: openai.AsyncOpenAI | None = None, **more: Any) -> Any:
        given = {"model": "homebody", "messages": [{"role": "user", "content": text}]} | more
        return await (client or self.client()).chat.completions.create(**given)

    async def raw(self, method: str, path: str, token: str | None = None, **more: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.gateway_token if token is None else token}"} | more.pop("headers", {})
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE, verify=False) as client:
            return await client.request(method, f"http://127.0.0.1:{self.port}{path}", headers=headers, **more)


class ApiVillage(Village):
    """Opens a house that serves its API."""

    def __init__(self, root: Path, **settings: Any) -> None:
        gateway = {"port": 0, "openai": {"enabled": True}} | settings.pop("gateway", {})
        super().__init__(root, gateway=gateway, **settings)
        self.clock = SystemClock()  # type: ignore[assignment]

    @contextlib.asynccontextmanager
    async def served(self) -> AsyncIterator[Served]:
        self.lives += 1
        paths = Paths(self.root / "home")
        on = Dependencies(settings=self.settings, paths=paths, env={}, clock=self.clock, random=random.Random(7), serving=True)
        house = await Gateway.open(on)
        house.model_registry.put("scripted/model", self.model)
        phone = Phone(first=1000 * self.lives)
        house.channel_supervisor.keep(phone, OPEN)
        running = asyncio.ensure_future(house.run())
        lock = paths.state / "gateway.lock"
        await until(lambda: running.done() or bool((found := describe(lock)) and found.http_port))
        if running.done():
            running.result()
        holder = describe(lock)
        assert holder is not None
        served = Served(house, phone, holder.http_port or 0, paths.state)
        try:
            yield served
        finally:
            for one in served.clients:
                await one.close()
            house.stop()
            await running
            await house.close()


async def until(done: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not done():  # noqa: ASYNC110  (nobody announces it)
            await asyncio.sleep(0.01)
