"""A language model that can be predicted: an OpenAI-compatible server whose answers follow from the request alone.

It keeps no state between calls, so that a gateway which was killed and asks again is treated as a real provider would treat it.

``do <name>`` in the latest message  reads DEEDS.md, adds ``- <name>`` there by ``edit`` (not repeatable), and says ``done <name>``
``[Memory flush]``                   appends the facts that it was told to the day's note, then NO_REPLY
a summary is asked for               writes one
otherwise                            says ``heard <word>``, the last word of the message
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Self

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

DEEDS = "DEEDS.md"
FACT = re.compile(r"fact-\w+")
_DO = re.compile(r"\bdo (\w+)")


class PredictableModel:
    """The server. Start it with ``async with``."""

    def __init__(self) -> None:
        self.calls = 0
        self.url = ""
        self.watcher: Callable[[str, int], Awaitable[None]] | None = None
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=256 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.calls += 1
        count = self.calls
        try:
            raw = await request.read()
        except ConnectionResetError:  # the gateway was killed while it asked
            return web.StreamResponse()
        if self.watcher is not None:
            await self.watcher("model", count)
        body = json.loads(raw)
        delta, reason = predicted(body)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        usage = {"prompt_tokens": len(raw) // 4, "completion_tokens": 20, "total_tokens": len(raw) // 4 + 20}
        frame = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        for choices, used in (
            ([{"index": 0, "delta": delta, "finish_reason": None}], None),
            ([{"index": 0, "delta": {}, "finish_reason": reason}], None),
            ([], usage),
        ):
            await response.write(f"data: {json.dumps({**frame, 'choices': choices, 'usage': used})}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response


def predicted(body: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the one delta of the answer, and why it ends."""
    messages = body["messages"]
    last_said = max(index for index, message in enumerate(messages) if message["role"] == "user")
    said = _text(messages[last_said])
    results = [message for message in messages[last_said:] if message["role"] == "tool"]
    if "[Memory flush]" in said:
        return _flushed(messages[:last_said], results)
    if not body.get("tools") or "summar" in said.casefold():
        return _words("A summary: " + " ".join(sorted(set(FACT.findall(json.dumps(messages))))))
    if wanted := _DO.search(said):
        return _deed(wanted[1], messages[last_said:], results)
    return _words(f"heard {said.split()[-1] if said.split() else 'nothing'}")


def _deed(name: str, messages: list[dict[str, Any]], results: list[dict[str, Any]]) -> tuple[dict[str, Any], str]:
    calls = [call["function"]["name"] for message in messages for call in message.get("tool_calls") or ()]
    last = _text(results[-1]) if results else ""
    if not calls or "have read" in last or "read it" in last:
        return _call(f"r{len(calls)}-{name}", "read", {"path": DEEDS})
    if calls[-1] == "read":
        return _call(f"e{len(calls)}-{name}", "edit", {"path": DEEDS, "old": "<end>", "new": f"- {name}\n<end>"})
    return _words(f"done {name}")


def _flushed(before: list[dict[str, Any]], results: list[dict[str, Any]]) -> tuple[dict[str, Any], str]:
    if results:
        return _words("NO_REPLY")
    facts = sorted(set(FACT.findall(json.dumps([one for one in before if one["role"] == "user"]))))
    return _call(
        "f1", "write", {"path": "memory/today.md", "content": "\n".join(f"- {fact}" for fact in facts), "mode": "append"}
    )


def _words(text: str) -> tuple[dict[str, Any], str]:
    return {"content": text}, "stop"


def _call(call_id: str, name: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], str]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": 0, "id": call_id, "type": "function", "function": function}]}, "tool_calls"


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
