"""How much of what mattered is found again after weeks of talk, flushes that fail, summaries that forget, and fresh starts.

    python benchmarks/needles.py           sixty needles in two million tokens, with each mechanism off in turn
    python benchmarks/needles.py --small   the version that the tests run

Facts, decisions and promises are said once each, in short messages between long ones. The model sees only its request: asked to
flush or to summarise, it writes the needles that it sees there, misses one in five, sometimes says NO_REPLY and sometimes fails. At the
end each needle counts as found when the last session's prompt shows it (summary, messages that stayed, pin) or memory search
does, without the transcripts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agent.messages import Failure, ToolCall, ToolMessage
from agent.models.scripted import ScriptedModel
from channels.live import Done
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.clock import ManualClock
from gateway.base.paths import Paths
from gateway.settings.root import Settings

KEY = "agent:main:main"
ADJECTIVES = (
    "amber",
    "broken",
    "crooked",
    "dusty",
    "eastern",
    "frozen",
    "golden",
    "hollow",
    "indigo",
    "jolly",
    "knotted",
    "lonely",
)
NOUNS = ("lantern", "ladder", "kettle", "harbour", "cellar", "violin", "orchard", "bicycle")
PEOPLE = ("Anna", "Boris", "Clara", "Dmitri", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jonas")
COLOURS = ("teal", "crimson", "ochre", "violet", "ivory", "olive")
FILLER = (  # noqa: SIM905  (a list of words reads badly)
    "the letter says that painters need another week because rain came through the window and nobody had closed it so we talk about "
    "kitchens and gardens and about what a neighbour thinks of all this while the afternoon goes by without any news"
).split()
NEEDLE = re.compile(r"(?:The code of|We decided that|You promised to call)[^.\n]+\.")


@dataclass(frozen=True)
class Needle:
    """What was said, what to ask for it later, and the words that an answer must hold."""

    text: str
    query: str
    answer: tuple[str, ...]


def needles(count: int, dice: random.Random) -> list[Needle]:
    things = [f"{adjective} {noun}" for noun in NOUNS for adjective in ADJECTIVES]
    made = []
    for n, thing in enumerate(dice.sample(things, count)):
        if n % 3 == 0:
            code = str(dice.randrange(100_000, 999_999))
            made.append(Needle(f"The code of the {thing} is {code}.", f"code of the {thing}", (thing, code)))
        elif n % 3 == 1:
            colour = dice.choice(COLOURS)
            made.append(Needle(f"We decided that the {thing} becomes {colour}.", f"what becomes the {thing}", (thing, colour)))
        else:
            name = dice.choice(PEOPLE)
            made.append(Needle(f"You promised to call {name} about the {thing}.", f"call about the {thing}", (thing, name)))
    return made


@dataclass
class Forgetful:
    """The model: sees only its request."""

    dice: random.Random
    missed: float = 0.2
    silent: float = 0.1
    failing: float = 0.1
    asked: dict[str, int] = field(default_factory=lambda: {"flush": 0, "summary": 0})

    def __call__(self, request: Any) -> object:
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            return "NO_REPLY"
        if "[Title request]" in last.text:
            return "kitchen and garden"
        for mark, what in (("[Memory flush]", "flush"), ("[Summary request]", "summary")):
            if mark in last.text:
                self.asked[what] += 1
                return self._write(request, what)
        return "I see."

    def _write(self, request: Any, what: str) -> object:
        roll = self.dice.random()
        if roll < self.failing:
            return Failure(kind="overloaded", message="busy")
        if roll < self.failing + self.silent:
            return "NO_REPLY"
        seen = dict.fromkeys(match[0] for message in request.messages for match in NEEDLE.finditer(message.text))
        kept = [needle for needle in seen if self.dice.random() > self.missed]
        if what == "summary":
            return "## Goal\nTalk about kitchens and gardens.\n## Decisions\n" + "\n".join(f"- {one}" for one in kept)
        content = "\n\n".join(f"- {one}" for one in kept)
        if not content:
            return "NO_REPLY"
        return ToolCall(id="w", name="write", arguments={"path": "memory/x.md", "content": content, "mode": "append"})


async def run(
    root: Path, *, count: int, tokens: int, resets: int, seed: int = 1, off: str = "", window: int = 64_000
) -> dict[str, Any]:
    """Talk, and look for the needles at the end. ``off`` names a mechanism to leave out: flush, verbatim, notes, pins."""
    dice = random.Random(seed)
    clock = ManualClock(datetime(2026, 3, 1, 9, tzinfo=UTC))
    flush = {"enabled": off != "flush", "verbatim": off not in {"flush", "verbatim"}}
    defaults = {
        "model": "scripted/model",
        "workspace": str(root / "workspace"),
        "userTimezone": "UTC",
        "compaction": {"memoryFlush": flush, "keepRecentTokens": 8000},
        "memorySearch": {"sources": ["memory"]},  # the transcripts hold whatever the mechanisms lose
    }
    hook = {"internal": {"entries": {"session-memory": {"enabled": off != "notes"}}}}
    settings = Settings.model_validate(
        {"agents": {"defaults": defaults}, "session": {"reset": {"mode": "none"}}, "hooks": hook}
    )
    person = Forgetful(random.Random(seed + 1))
    on = Dependencies(settings=settings, paths=Paths(root / "home"), env={}, clock=clock, random=random.Random(1))
    house = await Gateway.open(on)
    house.model_registry.put("scripted/model", ScriptedModel(person, window=window))
    running = asyncio.ensure_future(house.run())
    link = house.terminal.attach("needles")
    frames = link.frames()
    said = 0

    async def say(text: str) -> None:
        nonlocal said
        said += 1
        clock.move(dice.uniform(60, 1500))
        await link.say(text, key=f"n{said}")
        async for frame in frames:
            if isinstance(frame, Done) and frame.key == f"n{said}":
                return

    wanted = needles(count, dice)
    pasted = 12_000
    turns = max(1, tokens * 4 // pasted)
    hidden: dict[int, list[Needle]] = {}
    for needle in wanted:
        hidden.setdefault(dice.randrange(turns), []).append(needle)
    every = max(1, turns // (resets + 1))
    try:
        for n in range(turns):
            for needle in hidden.get(n, ()):
                pin = off != "pins" and wanted.index(needle) % 20 == 0
                await say(f"/pin {needle.text}" if pin else needle.text)
            words = [dice.choice(FILLER) for _ in range(pasted // 6)]
            await say(" ".join(words))
            if n % every == every - 1:
                await say("/new")
                await house.agents["main"].quiet()
        return await _looked(house, wanted, person)
    finally:
        await link.close()
        house.stop()
        await running
        await house.close()


async def _looked(house: Gateway, wanted: list[Needle], person: Forgetful) -> dict[str, Any]:
    agent = house.agents["main"]
    audience = house.router.audience(KEY)
    record = agent.store.get(KEY)
    assert record is not None
    assert agent.memory is not None
    conversation = await agent.conversations.open(record, audience)
    await conversation.prepare()
    shown = "\n".join(message.text for message in conversation.messages())
    pins = "\n".join(conversation.transcript.pins)
    found = {"prompt": 0, "pin": 0, "search": 0, "any": 0}
    for needle in wanted:
        answer = await agent.memory.search(needle.query, audience=audience)
        hits = [hit.snippet for hit in answer.hits]
        by = {
            "prompt": any(all(word in line for word in needle.answer) for line in shown.splitlines()),
            "pin": needle.text in pins,
            "search": any(all(word in snippet for word in needle.answer) for snippet in hits),
        }
        for name, yes in by.items():
            found[name] += yes
        found["any"] += any(by.values())
    written = sum(path.stat().st_size for path in (agent.workspace.root / "memory").rglob("*.md"))
    compactions = sum(
        b'"kind":"compacted","id"' in line for stored, _ in agent.store.transcripts.all() for line in stored.lines()
    )
    return {**found, "of": len(wanted), "noteBytes": written, "compactions": compactions, **person.asked}


async def measure(*, small: bool) -> dict[str, dict[str, Any]]:
    size = (
        {"count": 30, "tokens": 150_000, "resets": 2, "window": 32_000}
        if small
        else {"count": 60, "tokens": 2_000_000, "resets": 30}
    )
    found = {}
    for off in ("", "verbatim", "flush", "notes", "pins"):
        with tempfile.TemporaryDirectory() as folder:
            found[f"without {off}" if off else "everything on"] = await run(Path(folder), off=off, **size)
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--small", action="store_true", help="the version that the tests run")
    options.add_argument("--json", action="store_true", help="print the result as JSON")
    chosen = options.parse_args()
    found = asyncio.run(measure(small=chosen.small))
    if chosen.json:
        print(json.dumps(found, indent=1))
        return
    print("| run | found | by search | in the prompt | by pin | compactions | flushes | note bytes |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, one in found.items():
        share = f"{one['any']} of {one['of']} ({100 * one['any'] / one['of']:.0f} %)"
        counts = (
            f"{one['search']} | {one['prompt']} | {one['pin']} | {one['compactions']} | {one['flush']} | {one['noteBytes']:,}"
        )
        print(f"| {name} | {share} | {counts} |")


if __name__ == "__main__":
    main()
