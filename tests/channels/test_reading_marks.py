"""Reading marks, whatever ids a platform gives and whatever a cursor holds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.common.read_marks import MOST, ReadMarks
from channels.discord.inbound import snowflake
from channels.slack.inbound import newer, order, stamped

if TYPE_CHECKING:
    from collections.abc import Callable

ODD = st.one_of(
    st.sampled_from(
        ["", "NaN", "Infinity", "-Infinity", "sNaN", "1e400", "-1.5", "1_0.000001", "١٧.٠٠٠٠٠١", " 17.000001", "17.000001\n"]
    ),
    st.sampled_from(["13345224609.738474920.8088930838d88f008e0", "None", "null", "0x10", "+5", "-7", "1" * 5000]),
    st.text(max_size=20),
)
STAMPS = st.builds("{}.{:06d}".format, st.integers(0, 10**11), st.integers(0, 999_999))
SNOWFLAKES = st.integers(0, 2**63 - 1).map(str)
PLACES = st.sampled_from(["C1", "C2", "C1/17.000001", ""])
ORDERS: dict[str, tuple[Callable[[str], Any], Any]] = {"slack": (order, STAMPS), "discord": (snowflake, SNOWFLAKES)}


@pytest.mark.parametrize("platform", ORDERS)
@given(data=st.data())
def test_a_mark_is_the_newest_message_however_odd_the_ids_between_are(platform: str, data: st.DataObject) -> None:
    ordered, ids = ORDERS[platform]
    taken = data.draw(st.lists(st.tuples(PLACES, st.one_of(ids, ODD))))
    marks = ReadMarks(ordered)
    told = [marks.note(place, message) for place, message in taken]
    sound = {place: [one for where, one in taken if where == place and _orders(ordered, one)] for place, _ in taken}
    newest = {place: max(found, key=ordered) for place, found in sound.items() if found}
    assert {place: ordered(mark) for place, mark in marks.all().items()} == {
        place: ordered(one) for place, one in newest.items()
    }
    assert not any(moved for moved, (_, message) in zip(told, taken, strict=True) if not _orders(ordered, message))


@pytest.mark.parametrize("platform", ORDERS)
@given(data=st.data())
def test_a_cursor_is_read_without_what_is_no_mark(platform: str, data: st.DataObject) -> None:
    ordered, ids = ORDERS[platform]
    values = st.one_of(ids, ODD, st.none(), st.integers(), st.floats(), st.booleans(), st.lists(st.integers(), max_size=2))
    stored = data.draw(st.dictionaries(st.text(max_size=8), values, max_size=8))
    marks = ReadMarks(ordered, json.dumps(stored))
    assert marks.all() == {place: str(one) for place, one in stored.items() if _orders(ordered, str(one))}
    again = ReadMarks(ordered, marks.written())
    assert again.all() == marks.all()
    for place in stored:
        assert marks.note(place, data.draw(ids)) in {True, False}


@given(st.one_of(st.text(max_size=40), st.sampled_from(["[", "[" * 100_000, "null", "7", '"x"', '{"C1": {"C1": "1.000001"}}'])))
def test_a_cursor_that_is_none_counts_as_empty(stored: str) -> None:
    marks = ReadMarks(order, stored)
    assert marks.note("C9", "17.000001")


def test_what_was_silent_for_longest_is_forgotten_first() -> None:
    marks = ReadMarks(order)
    for place in range(MOST + 2):
        marks.note(str(place), "17.000001")
    assert not {"0", "1"} & marks.all().keys()
    assert len(marks.all()) == MOST


@given(st.lists(st.one_of(STAMPS, ODD, st.none(), st.integers())), STAMPS)
def test_messages_of_a_page_are_put_in_order_and_those_without_a_stamp_left_out(stamps: list[Any], mark: str) -> None:
    found = stamped([{"ts": one} for one in stamps] + [{}, 7, None], "C1")
    ordered = [order(one["ts"]) for one in found]
    assert ordered == sorted(ordered)
    assert len(found) == sum(isinstance(one, str) and _orders(order, one) for one in stamps)
    assert {one["channel"] for one in found} <= {"C1"}
    assert [one for one in found if newer(one["ts"], mark)] == found[len(found) - sum(at > order(mark) for at in ordered) :]


def _orders(ordered: Callable[[str], Any], message: str) -> bool:
    try:
        ordered(message)
    except ValueError:
        return False
    return True
