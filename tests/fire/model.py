"""A language model that can be predicted: an OpenAI-compatible server whose answers follow from the request alone.

It keeps no state between calls, so that a gateway which was killed and asks again is treated as a real provider would treat it.

``do <name>`` in a message           reads DEEDS.md, adds ``- <name>`` there by ``edit`` (not repeatable), and says ``done <name>``,
                                     or ``could not do <name>`` with what the tool answered
``change <name>``                    the same with TOOLS.md, which needs its owner's approval; says ``denied <name>`` where that was refused
``run <name>``                       the same by the command ``echo "- <name>" >> TOOLS.md``
``spawn <name>``                     starts a sub-agent that is to ``do <name>``, and says ``spawned <name>``
a sub-agent's result                 says ``heard from <name>``
``[Memory flush]``                   appends the facts that it was told to the day's note, then NO_REPLY
a summary is asked for               writes one
``tell me <word>``                   says ``heard <word>``; so it does of the last word where nothing is asked

What came since its last answer it answers together, but for what a note says was given up.
"""

from __future__ import annotations

import contextlib
import json
import re
from typing import TYPE_CHECKING, Any, Self

from aiohttp import web

from agent.transcript.history_view import UNANSWERED, UNKNOWN_OUTCOME
from tests.peers.mood import today

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

DEEDS, CHANGES = "DEEDS.md", "TOOLS.md"
MOST_CALLS = 12
"""Tool calls after which a deed that is refused again and again is given up."""
FACT = re.compile(r"fact-\w+")
_NOTE = re.compile(rf"{re.escape(UNANSWERED)}.*?below\.\]", re.DOTALL)
"""What a transcript says of messages that were given up; it may stand in one message with others."""
_ASKED = re.compile(r"\b(do|change|run|spawn|tell me) (\w+)")
_RESULT = re.compile(r"from sub-agent “(\w+)”")
_EARLIER = re.compile(r"\[(?:job|webhook) “\w+” said here.*?(?=\[The message\])", re.DOTALL)
"""What a chat is told of runs elsewhere: it asks for nothing."""
_APPROVAL = re.compile(r"\[Approval #(\w+): (.*)", re.DOTALL)
_WAITS = re.compile(r"approval #(\w+)\.")


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
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
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
        with contextlib.suppress(ConnectionResetError):  # it was killed before it had the answer
            await response.prepare(request)
            usage = {"prompt_tokens": len(raw) // 4, "completion_tokens": 20, "total_tokens": len(raw) // 4 + 20}
            frame = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
            for choices, used in (
                ([{"index": 0, "delta": delta, "finish_reason": None}], None),
                ([{"index": 0, "delta": {}, "finish_reason": reason}], None),
                ([], usage),
            ):
                told = today().more({**frame, "choices": choices, "usage": used})
                await response.write(f"data: {json.dumps(told)}\n\n".encode())
            await response.write(b"data: [DONE]\n\n")
        return response


def predicted(body: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the one delta of the answer, and why it ends."""
    messages = body["messages"]
    last_said = max(index for index, message in enumerate(messages) if message["role"] == "user")
    said = _text(messages[last_said])
    if "[Memory flush]" in said:
        return _flushed(messages[:last_said], [message for message in messages[last_said:] if message["role"] == "tool"])
    if not body.get("tools") or "summar" in said.casefold():
        return _words("## Exact details\nFacts so far: " + " ".join(sorted(set(FACT.findall(json.dumps(messages))))))
    unanswered = messages[_after_last_answer(messages) :]
    notes = [note for message in messages for note in _NOTE.findall(_text(message))]
    asked = [one for one in _all_asked(unanswered, messages) if not any(" ".join(one) in note for note in notes)]
    answers = []
    for verb, name in asked:
        told = (
            _done(name, unanswered)
            if verb == "do"
            else _changed(verb, name, messages)
            if verb in {"change", "run"}
            else f"heard from {name}"
            if verb == "result"
            else _spawned(name, messages)
            if verb == "spawn"
            else f"heard {name}"
        )
        if not isinstance(told, str):
            return told
        answers.append(told)
    return _words("\n".join(filter(None, answers)))


def _all_asked(unanswered: list[dict[str, Any]], messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return what is asked for since the last answer, as verb and name; a decision asks for the change that it is about."""
    found: list[tuple[str, str]] = []
    for message in unanswered:
        text = _NOTE.sub("", _text(message))
        if message["role"] != "user" or not text.strip():
            continue
        decided = _APPROVAL.search(text)
        found += [_of_approval(decided[1], messages)] if decided is not None else _asked(text)
    changes = [one for one in found if one[0] in {"change", "run"}]
    return [*(one for one in found if one not in changes), *dict.fromkeys(changes)]


def _done(name: str, unanswered: list[dict[str, Any]]) -> tuple[dict[str, Any], str] | str:
    """Return the call that a deed needs next, or what came of it."""
    return _next_call(name, unanswered) or _outcome(name, unanswered)


def _changed(verb: str, name: str, messages: list[dict[str, Any]]) -> tuple[dict[str, Any], str] | str:
    """Return the call that a change needs next, or what came of it; nothing while it waits for its owner."""
    mine = [call for message in messages for call in message.get("tool_calls") or () if call["id"].endswith(f"-{name}")]
    last = _last_result(name, messages)
    if (waits := _WAITS.search(last)) is not None:
        outcomes = [found[2] for message in messages if (found := _APPROVAL.search(_text(message))) and found[1] == waits[1]]
        if not outcomes:
            return ""
        last = outcomes[-1].partition("\n")[2] or outcomes[-1]
    if told := _came_of(verb, name, last):
        return told
    if len(mine) >= MOST_CALLS:
        return f"could not do {name}: {last}"
    if verb == "run":
        return _call(f"x{len(mine)}-{name}", "exec", {"command": f'echo "- {name}" >> {CHANGES}'})
    if mine and mine[-1]["function"]["name"] == "read":
        return _call(f"e{len(mine)}-{name}", "edit", {"path": CHANGES, "old": "<end>", "new": f"- {name}\n<end>"})
    return _call(f"r{len(mine)}-{name}", "read", {"path": CHANGES})


def _came_of(verb: str, name: str, last: str) -> str:
    """Return what to say of a change by its last result; nothing while it is not over."""
    if _is_over(last) or (verb == "run" and "exit code 0" in last):
        return f"done {name}"
    return f"denied {name}" if "It was not run" in last else ""


def _of_approval(approval: str, messages: list[dict[str, Any]]) -> tuple[str, str]:
    """Return what an approval is about, as verb and name: by the call that waits for it."""
    found = [
        message["tool_call_id"]
        for message in messages
        if f"approval #{approval}." in _text(message) and "tool_call_id" in message
    ]
    if not found:
        return "tell me", "nothing"
    return "run" if found[-1].startswith("x") else "change", found[-1].partition("-")[2]


def _after_last_answer(messages: list[dict[str, Any]]) -> int:
    """Return where that begins which was said since the last answer in words."""
    ends = [i for i, message in enumerate(messages) if message["role"] == "assistant" and not message.get("tool_calls")]
    return ends[-1] + 1 if ends else 0


def _spawned(name: str, messages: list[dict[str, Any]]) -> tuple[dict[str, Any], str] | str:
    """Return the call that starts a sub-agent, or what to say once it was started."""
    last = _last_result(name, messages)
    if last and "Not run" not in last:
        return f"spawned {name}"
    count = sum(call["id"].endswith(f"-{name}") for message in messages for call in message.get("tool_calls") or ())
    return _call(f"s{count}-{name}", "spawn", {"task": f"please do {name}", "label": name})


def _asked(text: str) -> list[tuple[str, str]]:
    """Return what a message asks for, as verb and name; one that asks for nothing is heard by its last word."""
    if (result := _RESULT.search(text)) is not None:
        return [("result", result[1])]
    text = _EARLIER.sub("", text)
    words = text.split()
    return _ASKED.findall(text) or [("tell me", words[-1] if words else "nothing")]


def _next_call(name: str, messages: list[dict[str, Any]]) -> tuple[dict[str, Any], str] | None:
    """Return the call that a deed needs next; None when it is done, may be done, or cannot be done.

    An edit that is refused, whatever the reason, is tried again after another look at the file.
    """
    mine = [call for message in messages for call in message.get("tool_calls") or () if call["id"].endswith(f"-{name}")]
    last = _last_result(name, messages)
    was_read = bool(mine) and mine[-1]["function"]["name"] == "read"
    if mine and not was_read and (_is_over(last) or len(mine) >= MOST_CALLS):
        return None
    overtaken = "Not run" in last  # something new was said meanwhile: it is still wanted
    if mine and was_read != overtaken:
        return _call(f"e{len(mine)}-{name}", "edit", {"path": DEEDS, "old": "<end>", "new": f"- {name}\n<end>"})
    return _call(f"r{len(mine)}-{name}", "read", {"path": DEEDS})


def _outcome(name: str, messages: list[dict[str, Any]]) -> str:
    """Say what came of a deed for which nothing is left to be called."""
    last = _last_result(name, messages)
    return f"done {name}" if _is_over(last) else f"could not do {name}: {last}"


def _last_result(name: str, messages: list[dict[str, Any]]) -> str:
    results = [_text(message) for message in messages if message.get("tool_call_id", "").endswith(f"-{name}")]
    return results[-1] if results else ""


def _is_over(result: str) -> bool:
    """Whether an edit was made, or may have been."""
    return result.startswith("edited ") or UNKNOWN_OUTCOME in result


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
