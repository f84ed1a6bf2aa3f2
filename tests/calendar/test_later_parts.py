"""Series with changes from one instance on (RECURRENCE-ID;RANGE=THISANDFUTURE), as other programs write them: what a change changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.calendar.ical_worker import listed
from tests.calendar.conftest import calendar, event
from tests.calendar.test_changes import YEAR, cancel, change, spans
from tests.calendar.test_tool import Fixture
from tests.calendar.test_tool import listed as ids_of
from tests.properties import examples

if TYPE_CHECKING:
    from tests.calendar.conftest import Radicale

LATER = calendar(
    event("SUMMARY:Run", "DTSTART:20260324T050000Z", "DTEND:20260324T060000Z", "RRULE:FREQ=DAILY;COUNT=5"),
    event(
        "SUMMARY:Run later", "X-COLOUR:green", "RECURRENCE-ID;RANGE=THISANDFUTURE:20260326T050000Z",
        "DTSTART:20260326T070000Z", "DTEND:20260326T090000Z",
    ),
)  # fmt: skip
"""24 and 25 March at 6, and from 26 to 28 March from 8 to 10, in Berlin."""
BEFORE = [("03-24 06:00", "03-24 07:00", "Run"), ("03-25 06:00", "03-25 07:00", "Run")]
AFTER = [(f"03-{day} 08:00", f"03-{day} 10:00", "Run later") for day in (26, 27, 28)]


def test_each_instance_of_a_later_part_is_one_of_its_own() -> None:
    assert spans(LATER) == [*BEFORE, *AFTER]
    told = listed({"objects": [LATER], "zone": "Europe/Berlin", **YEAR})["instances"]
    assert [one["rid"] for one in told] == [f"202603{day}T050000Z" for day in (24, 25, 26, 27, 28)]
    small = listed({"objects": [LATER.replace("THISANDFUTURE", "thisandfuture")], "zone": "Europe/Berlin", **YEAR})["instances"]
    assert small == told, "names of parameters and their values may be written small"


@pytest.mark.parametrize("index", [0, 1, 2, 3, 4])
def test_one_cancelled_instance_takes_no_other_with_it(index: int) -> None:
    before = [*BEFORE, *AFTER]
    text = cancel(LATER, index, "one")["text"]
    assert spans(text) == [one for one in before if one != before[index]]


@pytest.mark.parametrize("index", [1, 2, 3, 4])
def test_cancelling_an_instance_and_all_later_ones_leaves_the_former(index: int) -> None:
    assert spans(cancel(LATER, index, "following")["text"]) == [*BEFORE, *AFTER][:index]


@pytest.mark.parametrize("index", [0, 1, 2, 3, 4])
@pytest.mark.parametrize(
    "wish", [{"start": "2026-04-03T20:00"}, {"title": "Swim"}, {"title": "Swim", "start": "2026-04-03T20:00"}]
)
def test_one_changed_instance_takes_no_other_with_it(index: int, wish: dict[str, str]) -> None:
    before = [*BEFORE, *AFTER]
    start, end, title = before[index]
    if "start" in wish:
        start, end = "04-03 20:00", "04-03 21:00" if index < 2 else "04-03 22:00"
    told = change(LATER, index, "one", **wish)
    assert spans(told["text"]) == sorted([*before[:index], *before[index + 1 :], (start, end, wish.get("title", title))])
    again = spans(told["text"]).index((start, end, wish.get("title", title)))
    assert change(told["text"], again, "one", **wish)["same"]
    assert told["text"].count("X-COLOUR:green") >= 1 + (2 <= index < 4)


def test_a_later_part_whose_first_instance_is_taken_out_begins_with_its_next_one() -> None:
    """So that programs which read one that is left out and changed at once in another way see the same."""
    text = cancel(cancel(LATER, 2, "one")["text"], 2, "one")["text"]
    assert "RECURRENCE-ID;RANGE=THISANDFUTURE:20260328T050000Z" in text
    assert "20260326T050000Z" in text.partition("EXDATE")[2]
    assert spans(text) == [*BEFORE, AFTER[2]]
    rest = cancel(text, 2, "one")["text"]
    assert "RANGE" not in rest
    assert spans(rest) == BEFORE


def test_from_one_of_a_later_part_on_a_series_of_its_own_begins_that_is_like_it() -> None:
    told = change(LATER, 3, "following", start="2026-03-27T09:30")
    assert spans(told["text"]) == [*BEFORE, AFTER[0]]
    assert spans(told["new"]["text"]) == [(f"03-{day} 09:30", f"03-{day} 11:30", "Run later") for day in (27, 28)]
    assert "RECURRENCE-ID" not in told["new"]["text"]
    assert "X-COLOUR:green" in told["new"]["text"]
    named = change(LATER, 2, "following", title="Swim")
    assert spans(named["text"]) == BEFORE
    assert spans(named["new"]["text"]) == [(start, end, "Swim") for start, end, _ in AFTER]
    earlier = change(LATER, 1, "following", start="2026-03-25T07:00")
    assert spans(earlier["new"]["text"]) == [
        ("03-25 07:00", "03-25 08:00", "Run"),
        *((f"03-{day} 09:00", f"03-{day} 11:00", "Run later") for day in (26, 27, 28)),
    ]


@pytest.mark.parametrize("index", [0, 1, 2, 4])
def test_all_of_a_series_are_moved_by_the_same_with_its_later_part(index: int) -> None:
    starts = ["2026-03-24T06:45", "2026-03-25T06:45", "2026-03-26T08:45", "2026-03-27T08:45", "2026-03-28T08:45"]
    told = change(LATER, index, "all", start=starts[index], title="Swim")
    assert spans(told["text"]) == [
        (start.replace(":00", ":45"), end.replace(":00", ":45"), "Swim") for start, end, _ in [*BEFORE, *AFTER]
    ]
    assert change(told["text"], index, "all", start=starts[index], title="Swim")["same"]
    until = change(LATER, 2, "all", end="2026-03-26T08:30")
    assert spans(until["text"]) == [
        *((start, start.replace(":00", ":30"), title) for start, _, title in [*BEFORE, *AFTER]),
    ]


def test_a_title_of_all_is_that_of_all_even_where_the_one_that_is_named_has_it_already() -> None:
    told = change(LATER, 2, "all", title="Run later")
    assert not told["same"]
    assert {title for *_, title in spans(told["text"])} == {"Run later"}


def test_an_instance_that_was_moved_by_itself_goes_where_it_is_asked_to_with_all_of_its_series() -> None:
    weekly = calendar(
        event(
            "SUMMARY:Choir", "DTSTART;TZID=Europe/Berlin:20260303T190000", "DURATION:PT2H", "RRULE:FREQ=WEEKLY;COUNT=3;BYDAY=TU"
        ),
        event("SUMMARY:Choir", "RECURRENCE-ID:20260310T180000Z", "DTSTART;TZID=Europe/Berlin:20260310T233000", "DURATION:PT1H"),
    )
    told = change(weekly, 1, "all", start="2026-03-11T00:30")
    assert spans(told["text"]) == [
        ("03-03 20:00", "03-03 22:00", "Choir"), ("03-11 00:30", "03-11 01:30", "Choir"), ("03-17 20:00", "03-17 22:00", "Choir"),
    ]  # fmt: skip


def test_a_rule_is_written_to_the_series_and_to_no_instance_alone() -> None:
    told = change(LATER, 0, "all", repeat="FREQ=DAILY;COUNT=4")
    assert told["text"].count("RRULE:") == 1
    assert spans(told["text"]) == [*BEFORE, *AFTER[:2]]
    assert "cannot be repeated by itself" in change(LATER, 3, "one", repeat="FREQ=DAILY")["refused"]


def test_of_a_later_part_whose_rule_is_not_known_no_instance_is_changed_alone() -> None:
    part = calendar(
        event("SUMMARY:Run", "RECURRENCE-ID;RANGE=THISANDFUTURE:20260326T050000Z", "DTSTART:20260326T070000Z", "DURATION:PT1H")
    )
    for told in (change(part, 0, "one", title="Swim"), cancel(part, 0, "one")):
        assert "do it with this and all later ones" in told["refused"]
    assert spans(change(part, 0, "following", title="Swim")["text"])[0][2] == "Swim"


def test_a_later_part_with_times_in_a_series_of_whole_days_is_refused_but_for_cancelling_all() -> None:
    mixed = calendar(
        event("SUMMARY:Fair", "DTSTART;VALUE=DATE:20260324", "DTEND;VALUE=DATE:20260325", "RRULE:FREQ=DAILY;COUNT=5"),
        event(
            "SUMMARY:Fair", "RECURRENCE-ID;RANGE=THISANDFUTURE;VALUE=DATE:20260326", "DTSTART:20260326T070000Z", "DURATION:PT1H"
        ),
    )
    for told in (change(mixed, 0, "one", title="Swim"), cancel(mixed, 2, "one"), cancel(mixed, 3, "following")):
        assert "cancel all of it and create it anew" in told["refused"]
    assert cancel(mixed, 2, "all") == {"text": None}


def test_later_parts_of_whole_days_are_moved_and_cancelled_like_those_with_times() -> None:
    days = calendar(
        event("SUMMARY:Fair", "DTSTART;VALUE=DATE:20260324", "DTEND;VALUE=DATE:20260325", "RRULE:FREQ=WEEKLY;COUNT=4"),
        event(
            "SUMMARY:Fair", "RECURRENCE-ID;RANGE=THISANDFUTURE;VALUE=DATE:20260331",
            "DTSTART;VALUE=DATE:20260402", "DTEND;VALUE=DATE:20260404",
        ),
    )  # fmt: skip
    all_days = [("03-24", "03-25", "Fair"), ("04-02", "04-04", "Fair"), ("04-09", "04-11", "Fair"), ("04-16", "04-18", "Fair")]
    assert spans(days) == all_days
    assert spans(cancel(days, 1, "one")["text"]) == [all_days[0], *all_days[2:]]
    assert spans(change(days, 2, "one", start="2026-04-10")["text"]) == [*all_days[:2], ("04-10", "04-12", "Fair"), all_days[3]]
    told = change(days, 2, "following", start="2026-04-10")
    assert spans(told["text"], told["new"]["text"]) == [*all_days[:2], ("04-10", "04-12", "Fair"), ("04-17", "04-19", "Fair")]


async def test_what_cannot_be_cancelled_alone_is_refused_before_anybody_is_asked(radicale: Radicale) -> None:
    line = "RECURRENCE-ID;RANGE=THISANDFUTURE:20260203T090000Z"
    part = event(
        "SUMMARY:Run", line, "DTSTART:20260203T100000Z", "DTEND:20260203T110000Z", "ORGANIZER:mailto:a@example.org", uid="p"
    )
    await radicale.put("personal/part.ics", calendar(part))
    tool = Fixture(radicale.account())
    (run,) = await ids_of(tool, "Run", **{"from": "2026-02-03"})
    before = radicale.objects()
    assert await tool.act("cancel", event=run) is None
    assert "do it with this and all later ones" in (await tool.do("cancel", event=run)).text
    assert radicale.objects() == before


async def test_an_instance_of_a_later_part_is_cancelled_and_moved_as_it_is_told(radicale: Radicale) -> None:
    lines = ["DTSTART;TZID=Europe/Berlin:20260202T070000", "DURATION:PT1H", "RRULE:FREQ=DAILY;COUNT=6"]
    later = [
        "RECURRENCE-ID;RANGE=THISANDFUTURE:20260204T060000Z",
        "DTSTART;TZID=Europe/Berlin:20260204T080000",
        "DURATION:PT1H",
    ]
    await radicale.put("personal/r.ics", calendar(event("SUMMARY:Run", *lines, uid="r"), event("SUMMARY:Run", *later, uid="r")))
    tool = Fixture(radicale.account())
    week = {"from": "2026-02-02", "to": "2026-02-08"}
    run = await ids_of(tool, "Run", **week)
    told = await tool.do("cancel", event=run[3], scope="one")
    assert "Cancelled, this one alone: “Run”, Thu 5 Feb 08:00–09:00" in told.text
    assert "is now Wed 4 Feb 20:00–21:00" in (await tool.do("change", event=run[2], **{"from": "2026-02-04T20:00"})).text
    left = [one.partition("-")[2] for one in await ids_of(tool, "Run", **week)]
    assert left == ["20260202T0700", "20260203T0700", "20260204T2000", "20260206T0800", "20260207T0800"]


@dataclass(frozen=True)
class Kept:
    """An instance as it is to be: its number, and whether it was changed by itself."""

    number: int
    start: datetime
    length: timedelta
    title: str
    alone: bool = False


FIRST = datetime(2026, 4, 6, 12)  # noqa: DTZ001 -- local
HOUR = timedelta(hours=1)


def written(at: datetime) -> str:
    return f";TZID=Europe/Berlin:{at:%Y%m%dT%H%M%S}"


@st.composite
def series(draw: st.DrawFn) -> tuple[str, list[Kept]]:
    """A series with later parts, changed and left out instances, and what its instances are."""
    days, count = draw(st.sampled_from([1, 7])), 7
    rids = [FIRST + timedelta(days=days) * number for number in range(count)]
    kept = [Kept(number, rid, HOUR, "M") for number, rid in enumerate(rids)]
    lines = [f"RRULE:FREQ={'DAILY' if days == 1 else 'WEEKLY'};COUNT={count}"]
    gone = draw(st.sets(st.integers(1, count - 1), max_size=2))
    lines += [f"EXDATE{written(rids[number])}" for number in sorted(gone)]
    parts = draw(st.sets(st.sampled_from([one for one in range(count) if one not in gone]), max_size=3))
    alone = draw(st.sets(st.sampled_from([one for one in range(count) if one not in gone]), max_size=2)) - parts
    events = []
    for part in sorted(parts):
        by, length = draw(st.integers(-9, 9)) * HOUR, draw(st.integers(1, 3)) * HOUR
        start = rids[part] + by
        kept[part:] = [replace(one, start=rids[one.number] + by, length=length, title=f"R{part}") for one in kept[part:]]
        events.append((f"RECURRENCE-ID;RANGE=THISANDFUTURE{written(rids[part])}", start, length, f"R{part}"))
    for number in sorted(alone):
        by = draw(st.sampled_from([-3, 0, 3])) * HOUR
        kept[number] = replace(kept[number], start=kept[number].start + by, title=f"S{number}", alone=bool(by))
        events.append((f"RECURRENCE-ID{written(rids[number])}", kept[number].start, kept[number].length, f"S{number}"))
    texts = [
        event(f"SUMMARY:{title}", name, f"DTSTART{written(start)}", f"DTEND{written(start + length)}")
        for name, start, length, title in draw(st.permutations(events))
    ]
    main = event("SUMMARY:M", f"DTSTART{written(FIRST)}", f"DTEND{written(FIRST + HOUR)}", *lines)
    return calendar(main, *texts), [one for one in kept if one.number not in gone]


def told_of(kept: list[Kept]) -> list[tuple[str, str, str]]:
    return sorted((f"{one.start:%m-%d %H:%M}", f"{one.start + one.length:%m-%d %H:%M}", one.title) for one in kept)


@settings(max_examples=examples(300))
@given(series(), st.integers(0, 6), st.sampled_from(["one", "following", "all"]), st.integers(-8, 8), st.booleans())
def test_a_change_changes_what_it_says_and_nothing_else(
    case: tuple[str, list[Kept]], index: int, scope: str, hours: int, named: bool
) -> None:
    text, kept = case
    assert sorted(spans(text)) == told_of(kept), "the series is read as it was written"
    meant = sorted(kept, key=lambda one: (one.start, one.title))[index % len(kept)]
    place = spans(text).index(told_of([meant])[0])
    within = [one for one in kept if {"one": one == meant, "following": one.number >= meant.number, "all": True}[scope]]
    others = [one for one in kept if one not in within]
    left = cancel(text, place, scope)["text"]
    assert (sorted(spans(left)) if left is not None else []) == told_of(others)
    wish: dict[str, Any] = {"title": "New"} if named else {}
    if hours or not named:
        wish["start"] = (meant.start + hours * HOUR).isoformat()
    told = change(text, place, scope, **wish)
    expected = others + [
        replace(
            one,
            start=one.start if one.alone and one != meant else one.start + hours * HOUR,
            title="New" if named and (one == meant or one.title[0] != "S" or "start" not in wish) else one.title,
        )
        for one in within
    ]
    if "refused" in told:
        assert "bound to its days" in told["refused"]
        return
    after = sorted(spans(told["text"], (told["new"] or {}).get("text", "")))
    assert after == told_of(expected)
