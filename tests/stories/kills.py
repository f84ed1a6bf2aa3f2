"""The gateway is killed at random moments while several people write and tools change files."""

from __future__ import annotations

import asyncio
import random
import re
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.stories.botapi import BotApi
from tests.stories.model import TOKEN, Asked, Said, echo, text_of
from tests.stories.stage import Story, calm, settings, together, until
from tests.stories.talk import Script, Seen, Talk, controls, judge

if TYPE_CHECKING:
    from tests.stories.house import House
    from tests.stories.stage import Stage

PEOPLE = [81, 5_300_000_003, 83, 84]
HOUSES = 3
KILLS = 10
"""Of each house."""
AT_WORK = 0.75
"""Share of the kills that wait until the gateway listens; the others may come while it starts."""
DEEDS = "deeds.md"
"""The file to which the tools of the owner's requests append a line each."""


def diligent(asked: Asked) -> Said:
    """Append a line for each deed that is asked for, unless its outcome is known or unknown; answer the rest as ``echo`` does."""
    if asked.is_flush or asked.is_summary:
        return echo(asked)
    wanted = [
        token
        for one in asked.open
        if one["role"] == "user"
        for token in re.findall(r"(?<!“)\bsay-([a-z0-9]{6}) do", text_of(one))
    ]
    tried = [text_of(one) for one in asked.open if one["role"] == "tool"]
    named = " ".join(str(call["function"]["arguments"]) for one in asked.open for call in one.get("tool_calls") or [])
    due = [token for token in dict.fromkeys(wanted) if token not in named]
    if due and len(tried) < 12 and "write" in asked.tools:
        return Said(calls=(("write", {"path": DEEDS, "content": f"- {due[0]}\n", "mode": "append"}),))
    return echo(asked)


async def kills(stage: Stage) -> None:
    """Three houses are killed ten times each; nothing is lost, doubled unmarked or done twice."""
    talks: list[Talk] = []
    figures: list[str] = []
    trouble: Counter[str] = Counter()
    deeds: list[tuple[list[str], str]] = []

    async def one(number: int) -> None:
        await asyncio.sleep(number * 2)
        talk, asked_for, text, wrong = await _killed(stage, number)
        talks.append(talk)
        deeds.append((asked_for, text))
        trouble.update(wrong)

    await together(*(one(number) for number in range(HOUSES)))
    found = [judge(talk) for talk in talks]
    figures = [f"{len(talk.spoken)} said: {each}" for talk, each in zip(talks, found, strict=True)]
    stage.hold(
        f"{HOUSES * KILLS} kills: nothing lost, nothing doubled unmarked, in order",
        not any(one.broken for one in found),
        "; ".join(figures),
    )
    twice = [token for asked_for, text in deeds for token in asked_for if _times(text, token) > 1]
    done = sum(_times(text, token) > 0 for asked_for, text in deeds for token in asked_for)
    stage.hold(
        "no deed is done twice",
        not twice,
        f"{done} of {sum(len(asked_for) for asked_for, _ in deeds)} done, {len(twice)} twice",
    )
    stage.hold(
        "each request to the model is sound, and no message stands in it twice",
        not trouble,
        str(dict(trouble))[:200] if trouble else "",
    )
    stage.control("lost, doubled, led astray and disordered replies", controls(talks))
    stage.control("a deed that is done twice", "" if _times("- abc123\n- abc123\n", "abc123") == 2 else "twice")


def _times(text: str, token: str) -> int:
    return len(re.findall(rf"(?m)^- {token}$", text))


async def _killed(stage: Stage, number: int) -> tuple[Talk, list[str], str, Counter[str]]:
    dice = random.Random(stage.seed * 10 + number)
    bots, script = BotApi(seed=stage.seed + number), Script(stage.seed + 50 + number)
    await bots.port.open()
    deeds: list[str] = []
    try:
        async with stage.model(mind=diligent, delay=0.2) as model, stage.house(f"kills-{number}") as house:
            queue: dict[str, Any] = {"queue": {"mode": ("collect", "steer", "followup")[number % 3]}}
            house.settle(
                settings(
                    model, channels={"telegram": bots.settings(PEOPLE)}, messages=queue, session={"dmScope": "per-channel-peer"}
                )
            )
            for _ in range(KILLS):
                _forget_crashes(house)
                polls = bots.calls["getUpdates"]
                await house.start()
                if dice.random() < AT_WORK:
                    await until(lambda: bots.calls["getUpdates"] > polls, 60)  # noqa: B023  awaited in this round
                for _ in range(dice.randrange(2, 5)):
                    await asyncio.sleep(dice.random())
                    chat = dice.choice(PEOPLE)
                    deed = chat == PEOPLE[0] and dice.random() < 0.7
                    line = script.line(chat, "do" if deed else "please")
                    deeds += TOKEN.findall(line) if deed else []
                    bots.say(chat, line)
                await asyncio.sleep(dice.random() * dice.choice((1.0, 3.0, 5.0)))
                await house.end(signal.SIGKILL)
            _forget_crashes(house)
            await house.start()
            await until(lambda: not judge(_talk(script, bots)).lost, 90)
            await calm(lambda: len(bots.shown), 4, 20)
            await house.end()
            text = (house.workspace / DEEDS).read_text() if (house.workspace / DEEDS).exists() else ""
    finally:
        await bots.port.close()
    wrong = Counter({one[:120]: 1 for one in model.wrong})
    wrong.update(f"{token} is told to the model {times} times" for token, times in model.heard.items() if times > 1)
    return _talk(script, bots), deeds, text, wrong


def _talk(script: Script, bots: BotApi) -> Talk:
    return Talk(tuple(script.spoken), tuple(Seen(str(one.chat), one.text, one.at) for one in bots.shown))


def _forget_crashes(house: House) -> None:
    """Let the house not pause after three crashes in five minutes: that is another story."""
    for file in house.state.rglob("starts.json"):
        file.unlink()


STORIES = {"kills": Story(kills, 300, waits=False)}
