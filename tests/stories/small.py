"""Fifteen turns with a model that has a small window, repeats itself, echoes orders and calls no tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.stories.botapi import BotApi
from tests.stories.moods import ABOUT_THE_ORDER, LOOP, Small
from tests.stories.stage import Story, calm, settings, together, until

if TYPE_CHECKING:
    from tests.stories.stage import Stage

OWNER = 5_800_000_061
TURNS = 15
SAID = {
    1: "Please remember that the plumber is Mr Oduya.",
    3: "My daughter is allergic to hazelnuts, remember that.",
    5: "I live in Graz, remember.",
}
TOLD = 2048
"""The window that stands in the settings; of the others only refusals tell."""
PATIENCE = 2
"""Unanswered messages after which nobody writes any more."""
LONGEST_TURN = 90
"""Seconds to wait for an answer before the next message is written. A dozen gateways of other stories start at the same time, so the
first answer takes a minute on a slow machine. An answer that comes later still counts."""
COMPACTED_AFTER = (8, 12)
WORDS = ("Oduya", "hazelnuts", "Graz")
LONGEST_LOOP = 800
"""Letters of a repetition that a person may be shown at most; the model writes 3,000."""


async def small(stage: Stage) -> None:
    """At windows of 2,048 tokens, as the settings say, and of 4,096 and 8,192, of which only refusals tell."""
    minds: list[Small] = []
    await together(*(_in_window(stage, window, minds) for window in (2048, 4096, 8192)))
    stage.control("summaries are asked for at all", "" if sum(mind.summaries for mind in minds) else "none")
    stage.control("a repetition that is shown whole", "" if len(LOOP * 60) > LONGEST_LOOP else "too short to be seen")


async def _in_window(stage: Stage, window: int, minds: list[Small]) -> None:
    bots, mind = BotApi(seed=stage.seed), Small(window, hangs_up=window == TOLD)
    minds.append(mind)
    await bots.port.open()
    answered = 0
    try:
        async with stage.model(mind=mind) as model, stage.house(f"small-{window}") as house:
            given = settings(model, channels={"telegram": bots.settings([OWNER])}, session={"reset": {"mode": "none"}})
            for one in given["models"]["providers"]["story"]["models"]:
                one["contextWindow"] = window if window == TOLD else None
                one["maxTokens"] = 200
            house.settle(given)
            await house.start()
            for number in range(TURNS):
                bots.say(OWNER, f"{SAID.get(number, 'What do you think of that? ' * 12)} number-{number:02}")
                await until(lambda number=number: _heard(bots, number), LONGEST_TURN)  # type: ignore[misc]
                answered = sum(_heard(bots, earlier) for earlier in range(number + 1))
                if number + 1 - answered > PATIENCE:
                    break
                if number in COMPACTED_AFTER:
                    await _commanded(bots, "/compact")
            refused = mind.refused
            await _commanded(bots, "/new")
            answered = sum(_heard(bots, number) for number in range(TURNS))
            await house.end()
            notes = "\n".join(house.notes().values())
    finally:
        await bots.port.close()
    figures = (
        f"{answered} of {TURNS}; largest request {mind.largest} tokens; {mind.flushes} flushes, {mind.summaries} summaries"
    )
    stage.hold(f"window {window}: every message is answered", answered == TURNS, figures)
    stage.hold(f"window {window}: it is learnt, so that refusals stay rare", refused <= 4, f"{refused} refused")
    longest = max((len(text) for text in bots.texts(OWNER) if text.count(LOOP.strip()[:10]) > 2), default=0)
    stage.hold(
        f"window {window}: a repetition is not shown whole", longest <= LONGEST_LOOP, f"{longest} letters of {len(LOOP) * 60}"
    )
    poisoned = sum(prompt.count(LOOP.strip()) > 20 for prompt in mind.prompts)
    stage.hold(f"window {window}: nor is it shown to the model again", not poisoned, f"in {poisoned} requests")
    believed = sum(any(text[-60:] in prompt for text in (*ABOUT_THE_ORDER, "### Use a word. " * 20)) for prompt in mind.prompts)
    stage.hold(
        f"window {window}: an echo of the order, or talk about it, is no summary", not believed, f"in {believed} requests"
    )
    missing = [word for word in WORDS if word not in notes]
    stage.hold(
        f"window {window}: what was to be remembered is in the notes, though no tool was called",
        not missing,
        f"missing: {missing}" if missing else "",
    )


def _heard(bots: BotApi, number: int) -> bool:
    return f"heard {number:02}" in "\n".join(bots.texts(OWNER))


async def _commanded(bots: BotApi, command: str) -> None:
    before = len(bots.shown)
    bots.say(OWNER, command)
    await until(lambda: len(bots.shown) > before, 60)
    await calm(lambda: len(bots.shown), 1, 10)


STORIES = {"small-model": Story(small, 300)}
