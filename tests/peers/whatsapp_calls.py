"""How Meta calls a webhook: signed, one call after the other for each chat, and again and again until it is answered with 200."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import aiohttp

AGAIN = 0.03
"""Seconds before a call is repeated; Meta waits longer and longer, for seven days."""
AT_ONCE = 16
_OK = 200
Hook = Callable[[str, str, dict[str, str], bytes], Awaitable[tuple[int, bytes]]]
"""What takes a call: method, query, headers and raw body. Returns the status and the body of the answer."""


def signed(payload: dict[str, Any], secret: str) -> tuple[bytes, dict[str, str]]:
    """Return a call's raw body and headers."""
    body = json.dumps(payload).encode()
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return body, {"content-type": "application/json", "x-hub-signature-256": f"sha256={digest}"}


@dataclass
class Calls:
    """``hook``: an address or a function. While ``paused`` nothing is called, and what happens waits."""

    secret: str
    changed: Callable[[], Awaitable[None]]
    hook: str | Hook | None = None
    answers: list[int] = field(default_factory=list)
    paused: bool = False
    lose_answers: int = 0
    """How many answers of the house are lost on their way, so that a call is repeated which was taken."""

    def __post_init__(self) -> None:
        self._lines: dict[str, deque[dict[str, Any]]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(AT_ONCE)
        self._session: aiohttp.ClientSession | None = None

    @property
    def waiting(self) -> int:
        return sum(map(len, self._lines.values()))

    def put(self, line: str, payload: dict[str, Any]) -> None:
        """Tell the house of something, after what is told on the same line before."""
        self._lines.setdefault(line, deque()).append(payload)
        if line not in self._tasks or self._tasks[line].done():
            self._tasks[line] = asyncio.ensure_future(self._tell(line))

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def challenge(self, address: str, token: str, word: str) -> str:
        """Ask whether an address is right; return what it answers, "" for a refusal. ``hook`` stands for any public address."""
        query = urlencode({"hub.mode": "subscribe", "hub.challenge": word, "hub.verify_token": token})
        try:
            status, body = await self._called("GET", query, {}, b"", self.hook if isinstance(self.hook, str) else address)
        except (aiohttp.ClientError, OSError, TimeoutError):
            return ""
        return body.decode() if status == _OK else ""

    async def _tell(self, line: str) -> None:
        waiting = self._lines[line]
        while waiting:
            if self.paused or self.hook is None or not await self._taken(waiting[0]):
                await asyncio.sleep(AGAIN)
                continue
            waiting.popleft()
            await self.changed()

    async def _taken(self, payload: dict[str, Any]) -> bool:
        async with self._places:
            try:
                status, _ = await self._called("POST", "", *reversed(signed(payload, self.secret)))
            except (aiohttp.ClientError, OSError, TimeoutError):
                return False
        self.answers.append(status)
        if status == _OK and self.lose_answers:
            self.lose_answers -= 1
            return False
        return status == _OK

    async def _called(
        self, method: str, query: str, headers: dict[str, str], body: bytes, address: str | None = None
    ) -> tuple[int, bytes]:
        if callable(self.hook):
            return await self.hook(method, query, headers, body)
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20))
        url = f"{address or self.hook}{f'?{query}' if query else ''}"
        async with self._session.request(method, url, data=body or None, headers=headers) as answer:
            return answer.status, await answer.read()
