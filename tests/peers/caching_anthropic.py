"""An Anthropic Messages API on loopback that keeps a prompt cache as the real one does, and writes the bill.

After the published rules (prompt caching, read 2026-11-20): a prefix is tools, system, messages in this order; what is kept is
what ends at a mark, from 1,024 tokens on (or ``least``: newer models want 4,096); a request finds what was kept at its own
marks or up to twenty blocks before one of them; each use renews the five minutes or the hour. Prices are multiples of the
input price: reading 0.1, writing 1.25 (five minutes) or 2 (an hour), output 5; the input price is that of Claude Opus 4.5 as
published, 5 dollars for a million tokens.
"""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.peers.anthropic import Refuse, Say, error_answer, events, fault, frame, words_of
from tests.peers.counting import count
from tests.peers.failing import begin, failing, tell
from tests.peers.mood import today

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from gateway.base.clock import ManualClock

INPUT_PRICE = 5.0 / 1_000_000
READ, WRITE_5M, WRITE_1H, OUTPUT = 0.1, 1.25, 2.0, 5.0
LEAST_TOKENS = 1024
LOOK_BACK = 20
LIVES = {"5m": timedelta(minutes=5), "1h": timedelta(hours=1)}


@dataclass
class Bill:
    """What was used, in tokens, and what it costs."""

    calls: int = 0
    fresh: int = 0
    read: int = 0
    written_5m: int = 0
    written_1h: int = 0
    output: int = 0

    @property
    def prompt(self) -> int:
        return self.fresh + self.read + self.written_5m + self.written_1h

    @property
    def dollars(self) -> float:
        weighed = self.fresh + self.read * READ + self.written_5m * WRITE_5M + self.written_1h * WRITE_1H + self.output * OUTPUT
        return weighed * INPUT_PRICE

    def add(self, other: Bill) -> None:
        for name in ("calls", "fresh", "read", "written_5m", "written_1h", "output"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass
class PromptCache:
    """The kept prefixes, by the hash of all that is in them."""

    on: bool = True
    least: int = LEAST_TOKENS
    _kept: dict[str, tuple[datetime, str]] = field(default_factory=dict)

    def take(self, body: dict[str, Any], now: datetime) -> Bill:
        """Count one request, and keep what it marks."""
        digest, size, hashes, sizes, marks = hashlib.sha256(), 0, [], [], {}
        for index, block in enumerate(_blocks(body)):
            control = block.pop("cache_control", None)
            written = json.dumps(block, sort_keys=True, ensure_ascii=False)
            digest.update(written.encode())
            size += _tokens(block)
            hashes.append(digest.copy().hexdigest())
            sizes.append(size)
            if control and self.on:
                marks[index] = control.get("ttl", "5m")
        found = self._found(hashes, marks, now)
        read = sizes[found] if found is not None else 0
        bill = Bill(calls=1, read=read)
        at = read
        for index, ttl in sorted(marks.items()):
            if sizes[index] < self.least:
                continue
            if sizes[index] > at:
                bill.written_5m += (sizes[index] - at) * (ttl == "5m")
                bill.written_1h += (sizes[index] - at) * (ttl == "1h")
                at = sizes[index]
            self._kept[hashes[index]] = (now + LIVES[ttl], ttl)
        if found is not None:
            ttl = self._kept[hashes[found]][1]
            self._kept[hashes[found]] = (now + LIVES[ttl], ttl)
        bill.fresh = size - at
        return bill

    def _found(self, hashes: list[str], marks: dict[int, str], now: datetime) -> int | None:
        candidates = {back for mark in marks for back in range(max(0, mark - LOOK_BACK), mark + 1)}
        for index in sorted(candidates, reverse=True):
            kept = self._kept.get(hashes[index])
            if kept is not None and kept[0] > now:
                return index
        return None


class CachingPeer:
    """The server. ``answer`` makes an answer of a request's body; ``label`` says what a request is for, and the bills go by that."""

    def __init__(
        self,
        clock: ManualClock,
        answer: Callable[[dict[str, Any]], Say],
        *,
        window: int = 200_000,
        caching: bool = True,
        label: Callable[[dict[str, Any]], str] = lambda _: "all",
        least: int = LEAST_TOKENS,
    ) -> None:
        self.cache = PromptCache(on=caching, least=least)
        self.bills: dict[str, Bill] = {}
        self.each: list[tuple[datetime, str, Bill]] = []
        self.overflows = 0
        self.url = ""
        self.mood = today()
        self._clock = clock
        self._answer = answer
        self._window = window
        self._label = label

    @property
    def bill(self) -> Bill:
        """All of it."""
        total = Bill()
        for one in self.bills.values():
            total.add(one)
        return total

    async def start(self) -> web.AppRunner:
        """Serve on a free port."""
        app = web.Application(client_max_size=64_000_000, middlewares=[failing(lambda _: self.mood, words_of)])
        app.router.add_post("/v1/messages", self._messages)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if wrong := fault(body):
            return error_answer(400, "invalid_request_error", wrong)
        size = sum(map(_tokens, _blocks(body)))
        if size > self._window:
            self.overflows += 1
            return error_answer(400, "invalid_request_error", f"prompt is too long: {size} tokens > {self._window} maximum")
        label = self._label(body)
        answer = self._answer(body)
        if isinstance(answer, Refuse):
            return error_answer(answer.status, answer.type, answer.message, answer.headers, answer.details)
        bill = self.cache.take(body, self._clock.now())
        bill.output = sum(count(block.get("text") or json.dumps(block.get("input", ""))) for block in answer.blocks)
        self.bills.setdefault(label, Bill()).add(bill)
        self.each.append((self._clock.now(), label, bill))
        usage = {
            "input_tokens": bill.fresh,
            "cache_read_input_tokens": bill.read,
            "cache_creation_input_tokens": bill.written_5m + bill.written_1h,
            "cache_creation": {
                "ephemeral_5m_input_tokens": bill.written_5m,
                "ephemeral_1h_input_tokens": bill.written_1h,
            },
            "output_tokens": bill.output,
        }
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "request-id": "req_1"})
        await begin(request, response)
        for event in events(Say(answer.blocks, answer.stop, usage=usage), usage, body["model"]):
            await tell(request, response, frame(self.mood.more(event)))
        return response


def _blocks(body: dict[str, Any]) -> list[dict[str, Any]]:
    body = copy.deepcopy(body)
    said = [{**block, "_role": message["role"]} for message in body["messages"] for block in message["content"]]
    return [*body.get("tools", []), *body.get("system", []), *said]


def _tokens(block: dict[str, Any]) -> int:
    """What a block costs; its role and its kind cost three."""
    return 3 + count(_text(block))


def _text(block: dict[str, Any]) -> str:
    if block.get("type") == "text":
        return str(block["text"])
    if block.get("type") == "tool_result":
        return "\n".join(_text(part) for part in block["content"])
    bare = {key: value for key, value in block.items() if key not in {"_role", "cache_control", "type", "id"}}
    return json.dumps(bare, ensure_ascii=False)
