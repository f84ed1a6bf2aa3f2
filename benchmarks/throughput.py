"""Measures how many messages a second a whole gateway answers, with the platform's peer in a process of its own and an instant model.

    PYTHONPATH=. python benchmarks/throughput.py                     Telegram, Discord, Slack, email, Matrix and WhatsApp
    PYTHONPATH=. python benchmarks/throughput.py --channel slack --messages 2000 --chats 200

Everything is written at once. The peer is the one of the tests, its limits off; it says what was answered, and in which order.
The gateway's CPU is that of its process alone, and so is the peer's: servers that it started are not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import sys
import tempfile
import time
from pathlib import Path

from agent.models.scripted import ScriptedModel
from benchmarks.platforms import FIRST, PATIENCE, PLATFORMS
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.clock import SystemClock
from gateway.base.paths import Paths
from gateway.settings.root import Settings

SETTLED_SECONDS = 6.0
"""What a gateway does once after its start is over."""
BAR = "at least 150/s, none, none"


def free_port() -> int:
    """Return a port at which a platform can call the gateway."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


async def peer(name: str) -> None:
    """Run in the peer's process: tell the settings of the channel, write what is asked for, and tell how it was answered."""
    async with PLATFORMS[name]() as stage:
        print(json.dumps(stage.given), flush=True)
        messages, chats, port = json.loads(await asyncio.to_thread(sys.stdin.readline))
        if hasattr(stage, "call_at"):
            stage.call_at(port)
        while not stage.said(FIRST - 1):  # who is not connected yet is told nothing on some platforms
            await stage.say(FIRST - 1, "warm up")
            await asyncio.sleep(0.5)
        await asyncio.sleep(SETTLED_SECONDS)
        print("warm", flush=True)
        began, worked = time.perf_counter(), time.process_time()
        for number in range(messages):
            await stage.say(FIRST + number % chats, f"message {number}")
        people = range(FIRST, FIRST + chats)

        def answers(person: int) -> list[str]:
            return [said for said in stage.said(person) if not said.startswith("⏳")]  # how many are ahead is told once

        while (  # noqa: ASYNC110 - what is waited for is in the peer's own lists
            sum(len(answers(person)) for person in people) < messages and time.perf_counter() - began < PATIENCE
        ):
            await asyncio.sleep(0.05)
        took, worked = time.perf_counter() - began, 1000 * (time.process_time() - worked) / messages
        given = {person: answers(person) for person in people}
        wrong = sum(
            given[person] != [f"message {number}" for number in range(person - FIRST, messages, chats)] for person in people
        )
        lost = messages - sum(map(len, given.values()))
        print(json.dumps({"took": took, "worked": worked, "lost": lost, "wrong": wrong}), flush=True)


async def measure(name: str, messages: int, chats: int, folder: str) -> None:
    """Run a gateway in this process against a peer in another one."""
    command = (sys.executable, __file__, "--peer", "--channel", name)
    pipe = asyncio.subprocess.PIPE
    other = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, env={**os.environ, "PYTHONPATH": "."})
    assert other.stdin is not None
    assert other.stdout is not None
    given = {
        "agents": {"defaults": {"workspace": f"{folder}/workspace", "model": "scripted/model"}},
        "channels": {name: json.loads(await other.stdout.readline())},
        "messages": {"queue": {"mode": "followup"}},
        "gateway": {"port": (port := free_port())},
        "logging": {"consoleLevel": "error"},
    }
    settings, paths = Settings.model_validate(given), Paths(Path(folder) / "home")
    gateway = await Gateway.open(Dependencies(settings=settings, paths=paths, env={}, clock=SystemClock(), serving=True))
    gateway.model_registry.put("scripted/model", ScriptedModel(lambda request: request.messages[-1].text.splitlines()[-1]))
    running = asyncio.ensure_future(gateway.run())
    try:
        other.stdin.write(f"{json.dumps([messages, chats, port])}\n".encode())
        await other.stdout.readline()
        worked = time.process_time()
        found = json.loads(await other.stdout.readline())
        worked = 1000 * (time.process_time() - worked) / messages
        figures = f"{messages / found['took']:.0f}/s, {found['lost']} lost, {found['wrong']} chats out of order"
        cpu = f"{worked:.1f} ms of CPU each, the peer {found['worked']:.1f} ms"
        print(f"{name}, {messages} messages of {chats} chats: {figures}; {cpu}   ({BAR})")
    finally:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(10):  # it ends the servers that it started
                await other.wait()
        with contextlib.suppress(ProcessLookupError):
            other.kill()
        await other.wait()
        gateway.stop()
        await running
        await gateway.close()


def main() -> None:
    """Read the command line and measure."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--channel", choices=PLATFORMS)
    options.add_argument("--messages", type=int, default=1000)
    options.add_argument("--chats", type=int, default=100)
    options.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.peer:
        asyncio.run(peer(given.channel))
        return
    for name in (given.channel,) if given.channel else ("telegram", "discord", "slack", "email", "matrix", "whatsapp"):
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(measure(name, given.messages, given.chats, folder))


if __name__ == "__main__":
    main()
