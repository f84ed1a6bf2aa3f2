"""The world of the soak, in processes of their own: people on the peers of five platforms, and a model.

Each line on stdin is ``{"id", "now", "platform", "person", "text"}``: somebody writes. Each line on stdout is the id of one whose answer
was shown, or of one that had none within 20 seconds. The first line tells settings. What the peers stamp on messages is the simulated
time: ``now`` and what has passed since that line.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import sys
import time
from typing import Any

PATIENCE = 20.0
"""Seconds after which an answer counts as late."""
NAMES = ("telegram", "discord", "slack", "whatsapp", "email")
real_time = time.time
told = {"now": real_time(), "at": real_time()}


def simulated() -> float:
    return told["now"] + real_time() - told["at"]


def line_of(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


async def lines() -> Any:
    reader = asyncio.StreamReader(limit=2**24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield json.loads(line)


async def people(names: list[str]) -> None:
    """Run the platforms until stdin ends."""
    time.time = simulated  # type: ignore[assignment]  # before the peers are loaded: their messages carry it
    from benchmarks.platforms import PLATFORMS

    async with contextlib.AsyncExitStack() as stack:
        stages = {name: await stack.enter_async_context(PLATFORMS[name]()) for name in names}
        line_of(settings={name: stage.given for name, stage in stages.items()})
        waiting: set[asyncio.Task[None]] = set()

        async def converse(asked: dict[str, Any]) -> None:
            stage, mark = stages[asked["platform"]], f"#{asked['id']}."
            await stage.say(asked["person"], asked["text"])
            late, began = False, asyncio.get_running_loop().time()
            while not any(mark in said for said in stage.said(asked["person"])[0 if late else -12 :]):
                if not late and asyncio.get_running_loop().time() > began + PATIENCE:
                    late = True
                    line_of(id=asked["id"], missed=asked, shown=stage.said(asked["person"])[-3:])
                await asyncio.sleep(0.5 if late else 0.01)
            line_of(id=asked["id"], late=late)

        async for asked in lines():
            told.update(now=asked["now"], at=real_time())
            if "port" in asked:
                stages["whatsapp"].call_at(asked["port"])
                continue
            task = asyncio.ensure_future(converse(asked))
            waiting.add(task)
            task.add_done_callback(waiting.discard)


def tidied(listing: str) -> str:
    """Propose to merge the first two lines of each file of which there are two."""
    lines: dict[str, list[str]] = {}
    for name, told, _ in (line.partition("\t") for line in listing.splitlines()):
        if told:
            lines.setdefault(name.rpartition(":")[0], []).append(name)
    pairs = [names[:2] for names in lines.values() if len(names) > 1]
    return json.dumps([{"kind": "merge", "lines": pair, "text": "- both", "why": "they say the same"} for pair in pairs[:5]])


class Answerer:
    """Answers by what a request ends with, names the number of the message, and uses tools now and then."""

    def __init__(self) -> None:
        self.dice = random.Random(7)
        self.calls = 0

    def __call__(self, body: dict[str, Any]) -> Any:  # noqa: PLR0911  (one answer for each kind of request)
        from benchmarks.cost import prose
        from tests.peers.anthropic import Say

        last = body["messages"][-1]["content"][-1]
        text = last.get("text", "")
        said = [
            block["text"] for one in body["messages"] for block in one["content"] if one["role"] == "user" and "text" in block
        ]
        if "[Memory flush]" in text:
            return self._call("write", path="memory/today.md", content=f"- {prose(self.dice, 300)}", mode="append")
        if "[Summary request]" in text:
            return Say(({"type": "text", "text": "## Goal\n" + prose(self.dice, 1500)},))
        if "You tidy the notes" in json.dumps(body.get("system", "")):
            return Say(({"type": "text", "text": tidied(text)},))
        if "[Title request]" in text:
            return Say(({"type": "text", "text": prose(self.dice, 20)},))
        if "HEARTBEAT" in text:
            return Say(({"type": "text", "text": "HEARTBEAT_OK"},))
        if "[Cache refresh]" in text or (last["type"] == "tool_result" and "Appended to" in json.dumps(last)):
            return Say(({"type": "text", "text": "NO_REPLY"},))
        if last["type"] == "tool_result":
            pass
        elif "please search" in text:
            return self._call("memory_search", query=prose(self.dice, 20))
        elif "please read" in text:
            return self._call("read", path="AGENTS.md")
        numbers = [number for words in said for number in re.findall(r"#(\d+)\.", words)]
        mark = f" #{numbers[-1]}." if numbers else ""
        return Say(({"type": "text", "text": prose(self.dice, self.dice.randrange(60, 700)) + mark},))

    def _call(self, name: str, **given: Any) -> Any:
        from tests.peers.anthropic import Say

        self.calls += 1
        return Say(({"type": "tool_use", "id": f"toolu_{self.calls}", "name": name, "input": given},), stop="tool_use")


async def model() -> None:
    """Serve the model until stdin ends."""
    from gateway.base.clock import SystemClock
    from tests.peers.caching_anthropic import CachingPeer

    peer = CachingPeer(SystemClock(), Answerer(), window=200_000)  # type: ignore[arg-type]  # it only asks for the time
    runner = await peer.start()
    line_of(url=peer.url)
    async for _ in lines():
        pass
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(model() if sys.argv[1] == "model" else people(sys.argv[1].split(",")))
