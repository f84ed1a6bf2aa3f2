"""Forty things said once to a model that notes nothing and summarises in three lines: search finds them, without transcripts."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from agent.messages import ToolMessage
from benchmarks.needles import FILLER
from tests.gateway.facts import FACTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gateway.conftest import Street

    Make = Callable[..., Street]

LEAST_FOUND = 36
SUMMARY = """## Goal
The person and the agent talked about the house, kitchens and gardens over several days.
## Done
Letters about painters and windows were read; a neighbour came by with news.
## Next steps
Go on talking about kitchens and gardens."""


def lazy(request: Any) -> object:
    last = request.messages[-1]
    if isinstance(last, ToolMessage) or "[Memory flush]" in last.text:
        return "NO_REPLY"
    return SUMMARY if "[Summary request]" in last.text else "I see."


async def test_what_a_lazy_model_does_not_note_is_found_by_search(street: Make) -> None:
    dice = random.Random(3)
    s = street(session={"reset": {"mode": "none"}}, hooks={"internal": {"enabled": False}})
    s.model.reply_with(lazy)
    s.model.window = 32_000
    async with s.house() as (house, talk):
        for fact in FACTS:
            await talk.ask(fact.said)
            await talk.ask(" ".join(dice.choice(FILLER) for _ in range(1500)))
            s.clock.move(3 * 3600)
        await talk.ask("/new")
        agent = house.agents["main"]
        audience = house.router.audience("agent:main:main")
        lost = []
        for fact in FACTS:
            hits = (await agent.memory.search(fact.query, audience=audience)).hits
            if not any(all(word in hit.snippet for word in fact.answer) for hit in hits):
                lost.append(fact.said)
        transcript = b"".join(next(stored for stored, _ in agent.store.transcripts.all()).lines()).decode()
        assert transcript.count('"kind":"compacted","id"') >= 3
        assert len(FACTS) - len(lost) >= LEAST_FOUND, lost
