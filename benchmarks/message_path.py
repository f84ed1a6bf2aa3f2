"""Counts the files and functions that one message passes through on its way in, through a turn, and out again.

    PYTHONPATH=. python benchmarks/message_path.py            prints the counts, with their bars
    PYTHONPATH=. python benchmarks/message_path.py --list     also prints each file with its functions

A whole gateway with a scripted model talks to a Telegram peer on loopback. It is warm: some messages were answered before the one that
is counted. A function counts once, however often it is entered, in whichever thread; comprehensions and lambdas count with the function
they stand in. Only agent, channels, gateway and memory count.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import threading
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from agent.messages import ToolCall
from agent.models.scripted import ScriptedModel
from channels.platform import Policy
from channels.telegram.channel import TelegramChannel
from channels.telegram.settings import TelegramSettings
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.clock import SystemClock
from gateway.base.paths import Paths
from gateway.settings.root import Settings
from tests.peers.telegram import TOKEN, TelegramPeer

if TYPE_CHECKING:
    from types import CodeType, FrameType

ANNA = 4711
ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("agent", "channels", "gateway", "memory")
WARM_UP = 5
QUIET_SECONDS = 1.0
"""Waited after an answer: what is still done for it (its place in the ledger, the index of a note) counts too."""
BARS = {"plain": (75, 330), "one write call": (90, 440)}


class Recorder:
    """Notes every function that is entered between ``start`` and ``functions``, in all threads that begin after it was made."""

    def __init__(self) -> None:
        self._codes: set[CodeType] = set()
        threading.setprofile(self._entered)
        sys.setprofile(self._entered)

    def _entered(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            self._codes.add(frame.f_code)

    def start(self) -> None:
        """Forget what was noted so far."""
        self._codes.clear()

    def functions(self) -> dict[str, set[str]]:
        """Return the functions by file."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for code in tuple(self._codes):
            path = Path(code.co_filename)
            if path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in ROOMS:
                name = code.co_qualname.removesuffix(".<locals>")
                while name.rpartition(".")[2].startswith("<"):
                    name = name.rpartition(".")[0].removesuffix(".<locals>").rstrip(".")
                found[str(path.relative_to(ROOT))].add(name or "<module>")
        return dict(found)


def answer(request: object) -> object:
    """Answer with a word; to "note …" with one call of the write tool before it."""
    last = request.messages[-1]  # type: ignore[attr-defined]
    if last.role == "user" and "note" in last.text:
        name = f"note-{len(request.messages)}.md"  # type: ignore[attr-defined]
        return ToolCall(id=f"w{len(request.messages)}", name="write", arguments={"path": name, "content": "milk\n"})  # type: ignore[attr-defined]
    return "blue"


async def measure(root: Path, *, listed: bool) -> None:
    """Open a gateway, warm it up and count."""
    recorder = Recorder()
    defaults = {"model": "scripted/model", "workspace": str(root / "workspace"), "userTimezone": "UTC"}
    settings = Settings.model_validate({"agents": {"defaults": defaults}, "messages": {"queue": {"debounceMs": 0}}})
    async with TelegramPeer() as peer:
        given = {"botToken": TOKEN, "apiRoot": peer.root, "pacing": False}
        channel = TelegramChannel(TelegramSettings.model_validate(given), "default", clock=SystemClock())
        deps = Dependencies(
            settings=settings, paths=Paths(root / "state"), env={}, clock=SystemClock(), random=random.Random(1)
        )
        gateway = await Gateway.open(deps)
        gateway.model_registry.put("scripted/model", ScriptedModel(answer))
        gateway.channel_supervisor.keep(channel, Policy(allow_from=(str(ANNA),)))
        running = asyncio.ensure_future(gateway.run())

        async def say(text: str) -> None:
            before = len(peer.chats.said(ANNA))
            await peer.say(ANNA, text)
            await peer.until(lambda: len(peer.chats.said(ANNA)) > before)
            await asyncio.sleep(QUIET_SECONDS)

        for number in range(WARM_UP):
            await say(f"hello {number}")
            await say(f"note {number}")
        for label, text in (("plain", "what is the colour of the sky?"), ("one write call", "note that we need milk")):
            recorder.start()
            await say(text)
            report(label, recorder.functions(), listed=listed)
        gateway.stop()
        await running
        await gateway.close()


def report(label: str, functions: dict[str, set[str]], *, listed: bool) -> None:
    """Print the counts of one message."""
    files, entered = len(functions), sum(map(len, functions.values()))
    rooms = ", ".join(f"{room} {sum(path.startswith(room) for path in functions)}" for room in ROOMS)
    print(f"{label:16} {files:4} files  {entered:4} functions   (bars {BARS[label][0]} and {BARS[label][1]}; files: {rooms})")
    for path, names in sorted(functions.items()) if listed else ():
        print(f"    {path} {len(names)}: {', '.join(sorted(names))}")


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description="Count the files and functions that one message passes through.")
    parser.add_argument("--list", action="store_true", help="print each file with its functions")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder), listed=arguments.list))


if __name__ == "__main__":
    main()
