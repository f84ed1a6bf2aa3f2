"""How a reply is cut, what it is shown as an answer to, and that nobody sees the tags that say so."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from channels.messages import Button, ChatAddress, Inbound, Sender
from gateway.commands.table import COMMANDS, parse
from gateway.ledger.rows import InboxRow
from gateway.outbound.replying import LONGEST_VALUE, MOST, after_command, after_turn, may_end, replies, shown, untagged
from gateway.routing.access import Actor
from gateway.routing.routed_message import Automation, RoutedMessage
from gateway.routing.router import Route
from memory.audience import OWNER

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class Paper:
    """A channel that cuts at blank lines."""

    reply_to_mode: str = "off"

    def chunks(self, markdown: str) -> list[str]:
        return [piece for piece in markdown.split("\n\n") if piece.strip()]


def arrived(kind: Any = "group") -> RoutedMessage:
    place = ChatAddress(channel="telegram", kind=kind, id="7")
    inbound = Inbound(conversation=place, sender=Sender(id="42"), text="hi", at=NOON, key="k", alias="a", message_id="11")
    row = InboxRow(id=1, account="a", alias="a", conversation="c", session="s", sender="42", payload="", received_at=NOON)
    return RoutedMessage(
        row=row,
        inbound=inbound,
        actor=Actor(role="owner", person="anna", sender="42"),
        route=Route(agent="main", session="s", audience=OWNER),
    )


@dataclass
class Torn(Paper):
    """A channel whose cutting fails."""

    name: str = "torn"

    def chunks(self, markdown: str) -> list[str]:
        raise RecursionError(markdown)


@pytest.mark.parametrize("times", [1, 2000])
async def test_what_a_channel_cannot_cut_is_said_as_it_was_written(times: int) -> None:
    text = "- **a word** \n" * times
    rows = await replies(Torn(), arrived(), text)  # type: ignore[arg-type]
    assert "\n".join(row.text for row in rows).split() == text.split()
    assert all(len(row.text) <= 1500 for row in rows)


async def knows(address: str, message: str) -> bool:
    return (address, message) == ("telegram:default:group:7", "5")


@pytest.mark.parametrize(
    ("text", "mode", "kind", "told"),
    [
        ("one\n\ntwo", "off", "group", [("one", None), ("two", None)]),
        ("one\n\ntwo", "first", "group", [("one", "11"), ("two", None)]),
        ("one\n\ntwo", "all", "group", [("one", "11"), ("two", "11")]),
        ("one\n\ntwo", "all", "direct", [("one", None), ("two", None)]),
        ("[[reply_to_current]] one\n\ntwo", "off", "group", [("one", "11"), ("two", None)]),
        ("[[reply_to_current]]one", "off", "direct", [("one", "11")]),
        ("one\n\ntwo [[ Reply_To : 5 ]]", "first", "group", [("one", "5"), ("two ", None)]),
        ("[[reply_to:6]] one", "off", "group", [("one", None)]),
        ("[[reply_to:5]] one", "off", "direct", [("one", None)]),
        ("[[reply_to:6]] one", "first", "group", [("one", "11")]),
        ("[[reply_to_current]]", "all", "group", []),
        ("a[[reply_to_cur[[reply_to:5]]rent]]b", "off", "group", [("ab", "5")]),
        ("[[reply_to_current]] NO_REPLY and more", "all", "group", []),
        ("[[reply_to_current]] Done. NO_REPLY", "off", "group", [("Done.", "11")]),
        ("see [[wiki]] and [[reply_to_me]]", "off", "group", [("see [[wiki]] and [[reply_to_me]]", None)]),
    ],
)
async def test_a_reply_is_shown_as_an_answer_to_what_its_tag_or_its_channel_says(
    text: str, mode: str, kind: str, told: list[tuple[str, str | None]]
) -> None:
    rows = await replies(Paper(mode), arrived(kind), text, knows=knows)  # type: ignore[arg-type]
    assert [(row.text, row.reply_to) for row in rows] == told


@pytest.mark.parametrize("text", ["one\n\ntwo", "[[reply_to_current]] one\n\ntwo"])
async def test_an_answer_to_a_message_that_no_platform_has_refers_to_none(text: str) -> None:
    result = Automation(origin="agent", name="survey", source="subagent:x1")
    rows = await replies(Paper("all"), replace(arrived(), automation=result), text, knows=knows)  # type: ignore[arg-type]
    assert [(row.text, row.reply_to) for row in rows] == [("one", None), ("two", None)]


async def test_buttons_go_under_the_last_piece() -> None:
    press = (Button(label="Undo", value="/undo"),)
    rows = await replies(Paper(), arrived(), "one\n\ntwo", buttons=press)  # type: ignore[arg-type]
    assert [row.buttons for row in rows] == [(), press]
    assert await replies(Paper(), arrived(), "", buttons=press) == []  # type: ignore[arg-type]


PIECES = st.sampled_from(
    [
        "[[reply_to_current]]",
        "[[reply_to: 5]]",
        "[[",
        "]]",
        "[",
        "[[reply",
        "reply_to",
        ":5]]",
        " ",
        "hello",
        "\n",
        "[[wiki]]",
        "_",
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join))
@example("[[reply_to_current]")
def test_however_far_a_reply_has_come_what_is_shown_has_no_part_of_a_tag_and_only_grows(text: str) -> None:
    whole = untagged(text).text
    assert untagged(whole).text == whole
    last = ""
    for end in range(len(text) + 1):
        so_far = shown(text[:end])
        assert "[[reply_to_current" not in so_far.replace(" ", "").casefold()
        assert not so_far.endswith(("[[reply_to", "[[re", "[["))
        last = so_far
    assert whole.startswith(last.rstrip("\n")) or last.strip() in whole


@pytest.mark.parametrize(
    "text", ["[[reply_to_current]] NO_REPLY and more", "[[reply_to_current]]\nNO_REPLY", "[[reply_to: 5]]**NO_REPLY**"]
)
def test_no_part_of_a_word_of_silence_is_shown_behind_a_tag(text: str) -> None:
    for end in range(len(text) + 1):
        assert "N" not in shown(text[:end])


def test_what_may_be_pressed_is_a_command_that_fits_every_platform() -> None:
    models = [f"provider/model-{n}" for n in range(20)] + ["provider/" + "x" * 100]
    for name in COMMANDS:
        for button in after_command(name, "", models):
            assert parse(button.value) is not None, button
            assert len(button.value.encode()) <= LONGEST_VALUE
    assert len(after_command("model", "", models)) == MOST
    assert after_command("verbose", "on") == ()
    assert [button.value for button in after_command("reset", "")] == ["/undo"]


def test_only_the_owner_may_let_one_more_through() -> None:
    owner = Actor(role="owner", person="anna", sender="42")
    held = "Today's budget is used up. Say /budget once"
    assert [button.value for button in after_turn("billing", held, owner)] == ["/budget once"]
    assert after_turn("billing", held, replace(owner, role="peer")) == ()
    assert after_turn("billing", "Your account with the provider is empty.", owner) == ()
    assert after_turn(None, held, owner) == ()


@pytest.mark.parametrize(
    "text",
    ["[[reply_to:" + " " * 20_000 + "x", "[[" + " " * 50_000 + "x", ("[[reply_to:" + " " * 1_000) * 50],
    ids=["in a tag", "behind brackets", "in many"],
)
def test_a_run_of_blanks_in_what_looks_like_a_tag_costs_no_time(text: str) -> None:
    before = time.process_time()
    assert untagged(text).text == text
    shown(text)
    may_end(text)
    assert time.process_time() - before < 1.0
