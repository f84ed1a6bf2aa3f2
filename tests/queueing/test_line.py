"""Which messages belong together, how long a free lane waits for more, and what people may say about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from channels.messages import ChatAddress
from gateway.queue.message_queue import InvalidQueueChoice, QueueChoice, QueuedMessage, Rule, read_choice, to_coalesce
from gateway.settings.message_settings import MessagesSettings
from tests.peers.wire import picture
from tests.queueing.conftest import Slow

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.settings.message_settings import QueueMode
    from tests.queueing.conftest import Town

    Make = Callable[..., Town]

PLACE = ChatAddress(channel="wire", kind="group", id="g")
ITEMS = st.lists(
    st.builds(
        QueuedMessage,
        row=st.just(0),
        place=st.just(PLACE),
        message_id=st.just(""),
        group_key=st.sampled_from(["k", "k", "k", "other", ""]),
        sender=st.sampled_from(["anna", "ben"]),
        part_of=st.sampled_from([None, None, "album"]),
        plain=st.booleans(),
        at=st.integers(0, 5).map(float),
    ),
    min_size=1,
    max_size=12,
).map(lambda items: [replace(item, row=n, at=sum(i.at for i in items[: n + 1])) for n, item in enumerate(items)])
RULES = st.builds(
    Rule,
    mode=st.sampled_from(["collect", "steer", "followup", "interrupt"]),
    quiet=st.just(0.5),
    within=st.sampled_from([0.0, 2.0]),
    cap=st.integers(1, 6),
)


def parts(one: QueuedMessage, other: QueuedMessage) -> bool:
    return one.part_of is not None and (one.sender, one.part_of) == (other.sender, other.part_of)


@given(items=ITEMS, rule=RULES)
def test_only_messages_of_one_group_key_are_together_in_order_and_parts_always_are(
    items: list[QueuedMessage], rule: Rule
) -> None:
    turns: list[list[QueuedMessage]] = []
    waiting = list(items)
    while waiting:
        head = waiting.pop(0)
        group = [head, *to_coalesce(head, waiting, rule)]
        assert {item.group_key for item in group} == {head.group_key}
        assert [item.row for item in group] == sorted(item.row for item in group)
        if not head.group_key:
            assert group == [head]
        alone = [item for item in group if not any(parts(item, other) for other in group if other is not item)]
        assert len(alone) <= rule.cap
        waiting = [item for item in waiting if item not in group]
        turns.append(group)
    assert sorted(item.row for turn in turns for item in turn) == [item.row for item in items], "none is lost or doubled"
    for turn in turns:
        for one in turn:
            if one.group_key:
                assert all(other in turn for other in items if other.group_key == one.group_key and parts(one, other))
    whole = [item for item in items if item.group_key and item.part_of is None]
    order = [next(n for n, turn in enumerate(turns) if item in turn) for item in whole]
    assert order == sorted(order), "what is whole is answered in the order in which it came"


@pytest.mark.parametrize("mode", ["collect", "steer", "interrupt"])
def test_what_has_one_group_key_is_answered_together_but_for_what_stands_between(mode: QueueMode) -> None:
    def item(row: int, group_key: str = "k") -> QueuedMessage:
        return QueuedMessage(row, PLACE, "", group_key=group_key, sender="anna")

    rule = Rule(mode, 0.5, 0.0, 20)
    assert [one.row for one in to_coalesce(item(0), [item(1), item(2, ""), item(3)], rule)] == [1]
    assert [one.row for one in to_coalesce(item(0), [item(1), object(), item(3)], rule)] == [1]


def test_quick_texts_of_one_person_are_one_in_every_mode() -> None:
    def item(row: int, at: float, sender: str = "anna", *, plain: bool = True) -> QueuedMessage:
        return QueuedMessage(row, PLACE, "", group_key="k", sender=sender, at=at, plain=plain)

    rule = Rule("followup", 0.0, 1.5, 20)
    rows = [one.row for one in to_coalesce(item(0, 0.0), [item(1, 1.0), item(2, 2.4), item(3, 4.5)], rule)]
    assert rows == [1, 2]
    assert to_coalesce(item(0, 0.0), [item(1, 0.1, "ben")], rule) == []
    assert to_coalesce(item(0, 0.0), [item(1, 0.1, plain=False)], rule) == []
    assert to_coalesce(item(0, 0.0), [item(1, 0.1)], Rule("followup", 0.0, 0.0, 20)) == []


@given(
    st.builds(
        QueueChoice,
        mode=st.none() | st.sampled_from(["collect", "steer", "followup", "interrupt"]),
        quiet=st.none() | st.integers(0, 600).map(lambda tenth: tenth / 10),
        cap=st.none() | st.integers(1, 1000),
    )
)
def test_a_choice_reads_back_as_it_was_written(choice: QueueChoice) -> None:
    assert read_choice(choice.written()) == choice


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("Steer", QueueChoice("steer")),
        ("collect debounce:2s cap:25 drop:summarize", QueueChoice("collect", 2.0, 25)),
        ("debounce:1500", QueueChoice(None, 1.5)),
        ("steer-backlog", QueueChoice("steer")),
        ("queue", QueueChoice("steer")),
    ],
)
def test_what_the_documents_say_is_understood(text: str, choice: QueueChoice) -> None:
    assert read_choice(text) == choice


@pytest.mark.parametrize("text", ["sideways", "cap:0", "cap:x", "debounce:99999s", "drop:everything", "collect please"])
def test_what_makes_no_sense_is_told(text: str) -> None:
    with pytest.raises(InvalidQueueChoice):
        read_choice(text)


def test_settings_of_the_documents_paste_in() -> None:
    given = {
        "queue": {
            "mode": "steer-backlog",
            "byChannel": {"discord": "collect"},
            "debounceMs": 1000,
            "cap": 20,
            "drop": "summarize",
        }
    }
    settings = MessagesSettings.model_validate(given)
    assert (settings.queue.mode_on("telegram"), settings.queue.mode_on("discord")) == ("steer", "collect")
    assert settings.queue.quiet_on("slack") == 1.0


async def test_quick_texts_are_answered_as_one_when_it_is_quiet(town: Make) -> None:
    t = town(messages={"queue": {"mode": "followup"}, "inbound": {"debounceMs": 1500}})
    wire = t.wire()
    async with t.house(wire) as house:
        await wire.say("what is")
        await t.steps()
        t.clock.move(1.0)
        await wire.say("the weather")
        await t.steps()
        t.clock.move(1.0)
        await t.steps()
        assert t.model.requests == []
        assert house.lanes.queued("agent:main:main") == 2
        t.clock.move(0.6)
        await wire.until(lambda: wire.sent)
    assert wire.said() == ["re: what is | the weather"]


@pytest.mark.parametrize("hurry", ["command", "picture", "somebody else"])
async def test_what_cannot_be_joined_ends_the_wait(town: Make, hurry: str) -> None:
    t = town(messages={"queue": {"mode": "followup"}, "inbound": {"debounceMs": 1500}})
    wire = t.wire()
    async with t.house(wire):
        await wire.say("what is", group="g", mentioned=True)
        await t.steps()
        if hurry == "command":
            await wire.say("/whoami", group="g", mentioned=True)
        elif hurry == "picture":
            await wire.deliver(wire.message("this", group="g", mentioned=True, attachments=(picture(),)))
        else:
            await wire.say("hello", group="g", by="ben", mentioned=True)
            await t.steps()
            t.clock.move(1.5)
        await wire.until(lambda: len(wire.sent) == 2)
    assert wire.said()[0] == "re: what is"


async def test_a_picture_is_not_waited_for(town: Make) -> None:
    t = town(messages={"inbound": {"byChannel": {"wire": 1500}}})
    wire = t.wire()
    async with t.house(wire):
        await wire.deliver(wire.message("look", attachments=(picture(),)))
        await wire.until(lambda: wire.sent)


async def test_what_waits_for_more_survives_a_restart(town: Make) -> None:
    t = town(messages={"queue": {"mode": "followup"}, "inbound": {"debounceMs": 1500}})
    wire = t.wire()
    async with t.house(wire):
        await wire.say("what is", "the weather")
        await t.steps()
    assert (wire.sent, t.model.requests) == ([], [])
    again = t.wire()
    async with t.house(again):
        await t.steps(400)
        t.clock.move(1.5)
        await again.until(lambda: again.sent)
    assert again.said() == ["re: what is | the weather"]


async def test_a_lane_is_not_held_for_ever(town: Make) -> None:
    t = town(messages={"queue": {"mode": "collect", "cap": 1000}, "inbound": {"debounceMs": 1500}})
    wire = t.wire()
    async with t.house(wire):
        for number in range(14):
            await wire.say(str(number))
            await t.steps(20)
            t.clock.move(1.0)
        await wire.until(lambda: wire.sent)
    assert wire.said()[0].startswith("re: 0 | 1 | 2"), "although it was never quiet for as long as the settings say"


async def test_after_a_turn_what_waited_is_answered_when_it_is_quiet(town: Make) -> None:
    t = town(messages={"queue": {"mode": "collect", "debounceMs": 500}})
    wire, slow = t.wire(), Slow(t)
    async with t.house(wire):
        await wire.say("one")
        await slow.began.wait()
        await wire.say("two")
        slow.gate.set()
        await wire.until(lambda: wire.sent)
        await wire.say("three")
        await t.steps()
        assert len(t.model.requests) == 1
        t.clock.move(0.6)
        await wire.until(lambda: len(wire.sent) == 2)
    assert wire.said() == ["re: one", "re: two | three"]
