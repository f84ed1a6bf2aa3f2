"""A language model behind the chat completions API, written from https://platform.openai.com/docs/api-reference/chat.

It is strict about what it is asked (each tool call with exactly its results, no id twice, no empty role), and what it answers is the
story's: a mind is handed in, a function of the request. It streams, counts tokens, and can be held back.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.stories.wire import Cut, Port, reply

if TYPE_CHECKING:
    from collections.abc import Callable

    Mind = Callable[["Asked"], "Said"]

TOKEN = re.compile(r"(?<!“)\bsay-([a-z0-9]{6})\b")
"""What a person says by themselves; a quotation by the house stands in quotation marks and is nothing that was said anew."""
FLUSH = "The story asks for a flush."
"""The reminder that the settings of a story give with the flush request, so that a mind knows it whatever the product's own words are."""


@dataclass(frozen=True)
class Said:
    """One answer: text, or calls of tools as (name, arguments). ``why`` is the reason for its end where it is not the usual one."""

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    why: str = ""
    usage: dict[str, int] | None = None
    pause: float = 0.0
    """Seconds between two words."""
    refusal: dict[str, Any] | None = None
    """An error of the server in place of an answer, with its HTTP status under ``code``."""
    hangs_up: bool = False
    """Whether the connection is closed behind the headers, before the first event."""


@dataclass(frozen=True)
class Asked:
    """One request, as a mind looks at it."""

    body: dict[str, Any]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """All of them, the system text first."""
        return list(self.body["messages"])

    @property
    def last_words(self) -> str:
        """Return the last message of a person."""
        return next((text_of(one) for one in reversed(self.messages) if one["role"] == "user"), "")

    @property
    def is_flush(self) -> bool:
        """Whether the silent memory turn is asked for."""
        return FLUSH in self.last_words

    @property
    def is_summary(self) -> bool:
        """Whether a summary is asked for (or a title): an order without a word of a person's."""
        return (
            not self.is_flush
            and re.search(r"(?i)\b(summar|title|slug)", self.last_words) is not None
            and not TOKEN.search(self.last_words)
        )

    @property
    def tools(self) -> frozenset[str]:
        """Names of the tools that may be called."""
        return frozenset(one["function"]["name"] for one in self.body.get("tools") or [])

    @property
    def open(self) -> list[dict[str, Any]]:
        """What came after the last finished answer."""
        ends = [n for n, one in enumerate(self.messages) if one["role"] == "assistant" and not one.get("tool_calls")]
        return self.messages[ends[-1] + 1 if ends else 0 :]

    @property
    def results(self) -> list[str]:
        """What tools have returned since the last person spoke."""
        last = max((n for n, one in enumerate(self.messages) if one["role"] == "user"), default=0)
        return [text_of(one) for one in self.messages[last:] if one["role"] == "tool"]

    @property
    def everything(self) -> str:
        """All that the model is shown, as one text."""
        return "\n".join(text_of(one) for one in self.messages)


def text_of(message: dict[str, Any]) -> str:
    """Return a message's text, whether it is given whole or in parts."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(str(part.get("text", "")) for part in content)


def echo(asked: Asked) -> Said:
    """Answer each token of what is open by itself: the mind of stories about delivery."""
    if asked.is_flush:
        return Said("NO_REPLY")
    found = [token for one in asked.open if one["role"] == "user" for token in TOKEN.findall(text_of(one))]
    if not found:
        return Said("Notes of a quiet day" if asked.is_summary else "answer nothing")
    return Said("answer " + " ".join(dict.fromkeys(found)))


@dataclass
class Model:
    """The server. ``held`` keeps all answers back while it is set."""

    mind: Mind = echo
    names: tuple[str, ...] = ("story-1",)
    key: str = ""
    """The only key that is accepted; any where it is empty."""
    delay: float = 0.0
    asked: list[dict[str, Any]] = field(default_factory=list)
    keep: int = 2000
    """How many requests are kept to be looked at."""
    calls: int = 0
    wrong: list[str] = field(default_factory=list)
    heard: Counter[str] = field(default_factory=Counter)
    """How often the request that was answered last held a token of a person, at most: more than once means said twice to the model."""
    cut_off: int = 0
    """Answers that the asker did not hear to the end."""

    def __post_init__(self) -> None:
        self._ids = itertools.count(1)
        self._free = asyncio.Event()
        self._free.set()
        self.port = Port(self._serve)

    @property
    def address(self) -> str:
        """The base address of the API."""
        return f"{self.port.root}/v1"

    def hold(self) -> None:
        """Answer nobody until ``release``."""
        self._free.clear()

    def release(self) -> None:
        """Answer again."""
        self._free.set()

    def settings(self, window: int = 128_000, longest: int = 1000) -> dict[str, Any]:
        """Return the ``models`` section that knows this server only."""
        models = [{"id": name, "contextWindow": window, "maxTokens": longest} for name in self.names]
        provider = {"baseUrl": self.address, "apiKey": self.key or "none", "api": "openai-completions", "models": models}
        return {"mode": "replace", "providers": {"story": provider}}

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            return _error(
                401, "Incorrect API key provided. You can find your API key at your provider's page.", "invalid_api_key"
            )
        if request.path == "/v1/models":
            return reply(
                {"object": "list", "data": [{"id": name, "object": "model", "owned_by": "story"} for name in self.names]}
            )
        if request.path != "/v1/chat/completions":
            return _error(404, f"Unknown request URL: {request.method} {request.path}.", "unknown_url")
        body = await request.json()
        if body.get("model") not in self.names:
            return _error(
                404, f"The model `{body.get('model')}` does not exist or you do not have access to it.", "model_not_found"
            )
        self.calls += 1
        self.asked = [*self.asked, body][-self.keep :]
        wrong = _judged(body["messages"])
        if wrong:
            self.wrong.append(wrong)
            return _error(400, wrong, "invalid_request_error")
        self._count(body["messages"])
        await asyncio.sleep(self.delay)
        await self._free.wait()
        return await self._stream(request, body, self.mind(Asked(body)))

    def _count(self, messages: list[dict[str, Any]]) -> None:
        found = Counter(token for one in messages if one["role"] == "user" for token in set(TOKEN.findall(text_of(one))))
        for token, times in found.items():
            self.heard[token] = max(self.heard[token], times)

    async def _stream(self, request: web.Request, body: dict[str, Any], said: Said) -> web.StreamResponse:
        if said.refusal is not None:
            return reply({"error": said.refusal}, said.refusal["code"])
        usage = said.usage or {"prompt_tokens": len(json.dumps(body)) // 4, "completion_tokens": len(said.text) // 4 + 8}
        usage = {**usage, "total_tokens": sum(usage.values())}
        calls = [self._call(number, name, given) for number, (name, given) in enumerate(said.calls)]
        why = said.why or ("tool_calls" if calls else "stop")
        whole: dict[str, Any] = {"role": "assistant", "content": said.text or None, **({"tool_calls": calls} if calls else {})}
        frame = {"id": f"chatcmpl-{next(self._ids)}", "created": 1, "model": body["model"]}
        if not body.get("stream"):
            return reply(
                {
                    **frame,
                    "object": "chat.completion",
                    "choices": [{"index": 0, "message": whole, "finish_reason": why}],
                    "usage": usage,
                }
            )
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": part} for part in _parts(said)]
        deltas += [{"tool_calls": [{"index": number, **call}]} for number, call in enumerate(calls)]
        ends = [
            *({"index": 0, "delta": delta, "finish_reason": None} for delta in deltas),
            {"index": 0, "delta": {}, "finish_reason": why},
        ]
        try:
            await answer.prepare(request)
            if said.hangs_up:
                raise Cut
            for choice in ends:
                await answer.write(_event({**frame, "object": "chat.completion.chunk", "choices": [choice]}))
                await asyncio.sleep(said.pause)
            await answer.write(_event({**frame, "object": "chat.completion.chunk", "choices": [], "usage": usage}))
            await answer.write(b"data: [DONE]\n\n")
        except (ConnectionError, asyncio.CancelledError):
            self.cut_off += 1
            raise Cut from None
        return answer

    def _call(self, number: int, name: str, given: dict[str, Any]) -> dict[str, Any]:
        function = {"name": name, "arguments": json.dumps(given)}
        return {"id": f"call_{number}_{next(self._ids)}", "type": "function", "function": function}


def _parts(said: Said) -> list[str]:
    if said.pause:
        return re.findall(r"\S+\s*", said.text)
    middle = len(said.text) // 2
    return [part for part in (said.text[:middle], said.text[middle:]) if part]


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def _error(status: int, message: str, code: str) -> web.Response:
    return reply({"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}, status)


def _judged(messages: list[dict[str, Any]]) -> str:
    """Tell what the API would turn down in a request, or nothing."""
    seen: set[str] = set()
    owed: list[str] = []
    for one in messages:
        if one["role"] == "tool":
            if one.get("tool_call_id") not in owed:
                return f"messages with role 'tool' must be a response to a preceding message with 'tool_calls': {one.get('tool_call_id')}"
            owed.remove(one["tool_call_id"])
            continue
        if owed:
            return f"An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id': {owed}"
        for call in one.get("tool_calls") or []:
            if call["id"] in seen:
                return f"tool call id {call['id']} stands in two messages"
            seen.add(call["id"])
            owed.append(call["id"])
            json.loads(call["function"]["arguments"])
    return f"tool calls without a result at the end: {owed}" if owed else ""
