"""Any messages, in any mode, with restarts anywhere: each is in one turn, is heard once, and is answered once.

The same by real kills takes a scenario in ``tests/fire``: ``settings={"queue": {"mode": "steer"}}``, a first message that makes the
model use a tool, and the second one said from the model's watcher while the first request is under way. Judged as ever: each text
is in the transcript once, and the one answer names both.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.messages import ToolCall, ToolMessage, UserMessage
from agent.transcript.entries import Said, decode
from tests.patience import PATIENCE
from tests.properties import examples
from tests.queueing.conftest import Town, newest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.models.protocol import Request

SAY, TOOL, COMMAND, STEPS, RESTART = "say", "tool", "command", "steps", "restart"
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([SAY, TOOL, TOOL, COMMAND]), st.sampled_from(["anna", "ben"])),
        st.tuples(st.just(STEPS), st.integers(1, 120)),
        st.tuples(st.just(RESTART), st.integers(0, 60)),
    ),
    min_size=4,
    max_size=14,
)


def answer(request: Request) -> Any:
    """Use a tool for every message that asks for one, then answer with all that was said since the last answer."""
    asked = [text for text in newest(request) if text.startswith(TOOL)]
    used = sum(isinstance(m, ToolMessage) for m in request.messages)
    if asked and not isinstance(request.messages[-1], ToolMessage):
        effect = len(asked) % 2
        name, arguments = ("write", {"path": f"f{used}.md", "content": "x", "mode": "overwrite"}) if effect else ("list", {})
        return ToolCall(id=f"c{used}", name=name, arguments=arguments)
    return "re: " + " | ".join(newest(request))


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.too_slow])
@given(actions=ACTIONS, mode=st.sampled_from(["collect", "steer", "steer", "followup"]))
def test_each_message_is_in_one_turn_and_is_answered_once(actions: list[tuple[str, Any]], mode: str) -> None:
    asyncio.run(lives(actions, mode))


async def lives(actions: Sequence[tuple[str, Any]], mode: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        town = Town(Path(folder), {"messages": {"queue": {"mode": mode}}})
        town.answer = answer
        said: list[str] = []
        heard: list[str] = []
        rest, over = list(actions), False
        while not over:
            wire = town.wire()
            async with town.house(wire) as house:
                over = await one_life(town, wire, house, rest, said)
                if over:
                    await house.lanes.quiet()
                    await until_delivered(house)
                    rows = await house.ledger.inbox.latest(["waiting", "claimed", "answered", "failed"], limit=1000)
            heard += wire.said()
        judge(town, said, heard, [row.state for row in rows])


async def until_delivered(house: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            outbox = (await house.ledger.tally()).outbox
            if not outbox.get("ready") and not outbox.get("sending"):
                return
            await asyncio.sleep(0.005)


async def one_life(town: Town, wire: Any, house: Any, rest: list[tuple[str, Any]], said: list[str]) -> bool:
    while rest:
        what, how = rest.pop(0)
        if what == STEPS:
            await town.steps(how * 4)
        elif what == RESTART:
            await town.steps(how * 4)
            await house.lanes.drain(0)
            return False
        elif what == COMMAND:
            await wire.say("/whoami", by=how)
        else:
            said.append(f"{what}-{len(said)}")
            await wire.say(said[-1], by=how)
    return True


def judge(town: Town, said: list[str], heard: list[str], states: list[str]) -> None:
    assert set(states) <= {"answered"}, states
    answered = Counter(word for text in heard if text.startswith("re: ") for word in text[4:].split(" | "))
    assert answered == Counter(said), "each message is in one answer, once"
    kept: Counter[str] = Counter()
    for path in (town.root / "home" / "agents").rglob("*.jsonl"):
        entries = [decode(line) for line in path.read_bytes().splitlines()]
        messages = [entry.body.message for entry in entries if isinstance(entry.body, Said)]
        kept.update(message.text for message in messages if isinstance(message, UserMessage))
    assert kept == Counter(said), "each message is in one transcript, once"
