"""Making, changing and cancelling events: what changes, and that nothing else does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gateway.calendar.ical_worker import changed, listed
from tests.calendar.conftest import calendar, event

BERLIN = ZoneInfo("Europe/Berlin")
ORDER = {"zone": "Europe/Berlin", "now": "2026-02-01T12:00:00+00:00"}
YEAR = {"start": "2026-01-01T00:00:00+00:00", "end": "2027-01-01T00:00:00+00:00"}


def spans(*texts: str) -> list[tuple[str, str, str]]:
    """When all instances of this year are, in local time, with their titles."""
    told = listed({"objects": [one for one in texts if one], "zone": "Europe/Berlin", **YEAR})
    assert not told["broken"]
    return [(local(one["start"]), local(one["end"]), one["title"]) for one in told["instances"]]


def local(text: str) -> str:
    return f"{datetime.fromisoformat(text).astimezone(BERLIN):%m-%d %H:%M}" if "T" in text else text[5:]


def instance(text: str, index: int = 0) -> dict[str, Any]:
    return listed({"objects": [text], "zone": "Europe/Berlin", **YEAR})["instances"][index]


def change(text: str, index: int, scope: str, **wish: Any) -> dict[str, Any]:
    order = {"do": "change", "text": text, "instance": instance(text, index), "scope": scope, "wish": wish, "new_uid": "two"}
    return changed({**ORDER, **order})


def cancel(text: str, index: int, scope: str) -> dict[str, Any]:
    return changed({**ORDER, "do": "cancel", "text": text, "instance": instance(text, index), "scope": scope})


WEEKLY = calendar(
    event(
        "SUMMARY:Choir", "X-COLOUR:green", "DTSTART;TZID=Europe/Berlin:20260303T190000", "DTEND;TZID=Europe/Berlin:20260303T210000",
        "RRULE:FREQ=WEEKLY;COUNT=8;BYDAY=TU", "EXDATE;TZID=Europe/Berlin:20260317T190000",
    ),
    event("SUMMARY:Choir in the hall", "RECURRENCE-ID:20260331T170000Z", "DTSTART;TZID=Europe/Berlin:20260401T180000", "DURATION:PT1H"),
)  # fmt: skip
"""3, 10, 24 March, 31 March on the day after, 7, 14, 21 April."""


def test_a_new_event_has_its_zone_and_its_rule() -> None:
    told = changed({**ORDER, "do": "create", "uid": "new", "wish": {
        "start": "2026-03-24T10:00", "title": "Dentist; ask, then go", "place": "Main St", "repeat": "FREQ=WEEKLY;COUNT=2", "alarm": 30,
    }})["text"]  # fmt: skip
    assert spans(told) == [
        ("03-24 10:00", "03-24 11:00", "Dentist; ask, then go"),
        ("03-31 10:00", "03-31 11:00", "Dentist; ask, then go"),
    ]
    assert "SEQUENCE:0" in told
    assert "BEGIN:VTIMEZONE" in told
    assert "DTSTART;TZID=Europe/Berlin:20260324T100000" in told
    assert instance(told)["alarms"] == ["2026-03-24T08:30:00Z"]


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        ({"title": "x"}, "needs from"),
        ({"start": "2026-03-29T02:30", "title": "x"}, "there is no 02:30 on 2026-03-29"),
        ({"start": "2026-03-01T10:00", "end": "2026-03-01T09:00"}, "end before"),
        ({"start": "2026-03-01", "end": "2026-03-01T09:00"}, "both"),
        ({"start": "2026-03-01", "repeat": "every week"}, "no rule"),
        ({"start": "2026-03-01", "repeat": "FREQ=SOMETIMES"}, "no rule"),
    ],
)
def test_what_cannot_be_made_is_refused_with_the_reason(wish: dict[str, Any], why: str) -> None:
    assert why in changed({**ORDER, "do": "create", "uid": "new", "wish": wish})["refused"]


def test_a_day_alone_keeps_the_time_and_a_time_keeps_the_length() -> None:
    single = calendar(
        event("SUMMARY:Dentist", "DTSTART:20260324T090000Z", "DTEND:20260324T094500Z", "ATTACH:https://example.org/")
    )
    moved = change(single, 0, "one", start="2026-03-31")["text"]
    assert spans(moved) == [("03-31 10:00", "03-31 10:45", "Dentist")]
    assert "ATTACH:https://example.org/" in moved
    assert "SEQUENCE:1" in moved
    assert spans(change(moved, 0, "one", start="2026-04-01T08:15")["text"]) == [("04-01 08:15", "04-01 09:00", "Dentist")]
    whole = calendar(event("SUMMARY:Fair", "DTSTART;VALUE=DATE:20260328", "DTEND;VALUE=DATE:20260330"))
    assert spans(change(whole, 0, "one", start="2026-03-29")["text"]) == [("03-29", "03-31", "Fair")]
    assert spans(change(whole, 0, "one", start="2026-03-29", end="2026-03-29")["text"]) == [("03-29", "03-30", "Fair")]


@pytest.mark.parametrize("scope", ["one", "all"])
def test_a_day_alone_keeps_the_time_of_day_in_the_zone_in_which_the_event_is_written(scope: str) -> None:
    """From 8 to 28 March New York is five hours behind Berlin, and six before and after."""
    series = calendar(
        event("SUMMARY:Call", "DTSTART;TZID=America/New_York:20260303T090000", "DURATION:PT1H", "RRULE:FREQ=WEEKLY;COUNT=6")
    )
    assert spans(series)[:2] == [("03-03 15:00", "03-03 16:00", "Call"), ("03-10 14:00", "03-10 15:00", "Call")]
    moved = spans(change(series, 0, scope, start="2026-03-11")["text"])
    assert ("03-11 14:00", "03-11 15:00", "Call") in moved
    last = ("04-07 15:00", "04-07 16:00", "Call") if scope == "one" else ("04-15 15:00", "04-15 16:00", "Call")
    assert moved[-1] == last
    single = calendar(event("SUMMARY:Late", "DTSTART;TZID=America/New_York:20260310T200000", "DURATION:PT1H"))
    assert spans(single) == [("03-11 01:00", "03-11 02:00", "Late")]
    assert spans(change(single, 0, "one", start="2026-04-02")["text"]) == [("04-02 02:00", "04-02 03:00", "Late")]


def test_one_instance_is_moved_and_the_others_stay() -> None:
    told = change(WEEKLY, 1, "one", start="2026-03-12T20:00")
    before = spans(WEEKLY)
    assert spans(told["text"]) == sorted([*before[:1], ("03-12 20:00", "03-12 22:00", "Choir"), *before[2:]])
    again = change(told["text"], 1, "one", start="2026-03-12T20:00")
    assert again["same"], "a repeat changes nothing"
    back = change(told["text"], 1, "one", start="2026-03-10T19:00", title="Choir")
    assert spans(back["text"]) == before


def test_all_instances_are_moved_with_what_is_left_out_and_what_was_changed() -> None:
    told = change(WEEKLY, 1, "all", start="2026-03-11T18:30", place="Hall")
    assert spans(told["text"]) == [
        ("03-04 18:30", "03-04 20:30", "Choir"), ("03-11 18:30", "03-11 20:30", "Choir"), ("03-25 18:30", "03-25 20:30", "Choir"),
        ("04-01 18:00", "04-01 19:00", "Choir in the hall"),
        ("04-08 18:30", "04-08 20:30", "Choir"), ("04-15 18:30", "04-15 20:30", "Choir"), ("04-22 18:30", "04-22 20:30", "Choir"),
    ]  # fmt: skip
    assert "X-COLOUR:green" in told["text"]


def test_this_and_the_following_become_a_series_of_their_own() -> None:
    told = change(WEEKLY, 2, "following", start="2026-03-24T17:00")
    before = spans(WEEKLY)
    assert spans(told["text"]) == before[:2]
    assert spans(told["new"]["text"]) == [
        ("03-24 17:00", "03-24 19:00", "Choir"), ("04-01 18:00", "04-01 19:00", "Choir in the hall"),
        ("04-07 17:00", "04-07 19:00", "Choir"), ("04-14 17:00", "04-14 19:00", "Choir"), ("04-21 17:00", "04-21 19:00", "Choir"),
    ]  # fmt: skip
    assert "UID:two" in told["new"]["text"]
    assert "UID:one" not in told["new"]["text"]


@pytest.mark.parametrize(
    ("index", "scope", "left"), [(1, "one", [0, 2, 3, 4, 5, 6]), (2, "following", [0, 1]), (3, "one", [0, 1, 2, 4, 5, 6])]
)
def test_cancelled_instances_are_gone_and_the_others_stay(index: int, scope: str, left: list[int]) -> None:
    before = spans(WEEKLY)
    assert spans(cancel(WEEKLY, index, scope)["text"]) == [before[one] for one in left]


def test_cancelling_all_or_the_rest_from_the_first_on_deletes_the_object() -> None:
    assert cancel(WEEKLY, 3, "all") == {"text": None}
    assert cancel(WEEKLY, 0, "following") == {"text": None}


def test_a_rule_that_fixes_the_days_cannot_be_moved_to_others() -> None:
    first_monday = calendar(
        event("DTSTART;TZID=Europe/Berlin:20260302T190000", "DURATION:PT1H", "RRULE:FREQ=MONTHLY;BYDAY=1MO")
    )
    assert "bound to its days" in change(first_monday, 1, "all", start="2026-04-07")["refused"]
    assert [one[0] for one in spans(change(first_monday, 1, "all", start="2026-04-06T20:00")["text"])][:2] == [
        "03-02 20:00",
        "04-06 20:00",
    ]


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, int, timedelta]:
    first = datetime(2026, 2, 1) + timedelta(days=draw(st.integers(0, 80)), minutes=30 * draw(st.integers(0, 47)))  # noqa: DTZ001
    freq = draw(st.sampled_from(["DAILY", "WEEKLY"]))
    bound = draw(st.sampled_from(["COUNT=9", "UNTIL"]))
    bound = (
        bound
        if bound != "UNTIL"
        else f"UNTIL={(first + timedelta(days=40)).replace(tzinfo=BERLIN).astimezone(UTC):%Y%m%dT%H%M%SZ}"
    )
    left_out = draw(st.lists(st.integers(1, 5), max_size=2, unique=True))
    step = timedelta(days=1 if freq == "DAILY" else 7)
    lines = [f"EXDATE;TZID=Europe/Berlin:{first + step * one:%Y%m%dT%H%M%S}" for one in left_out]
    text = calendar(
        event(f"DTSTART;TZID=Europe/Berlin:{first:%Y%m%dT%H%M%S}", "DURATION:PT30M", f"RRULE:FREQ={freq};{bound}", *lines)
    )
    return text, draw(st.integers(0, 3)), timedelta(minutes=30 * draw(st.integers(-20, 20)))


def begun(*texts: str) -> list[datetime]:
    return [datetime.strptime(f"2026-{one[0]}", "%Y-%m-%d %H:%M") for one in spans(*texts)]  # noqa: DTZ007


@given(cases(), st.sampled_from(["one", "following", "all"]))
def test_a_move_moves_what_it_says_and_nothing_else(case: tuple[str, int, timedelta], scope: str) -> None:
    text, index, by = case
    before = begun(text)
    assume(index < len(before))
    target = before[index] + by
    told = change(text, index, scope, start=target.isoformat())
    assume("refused" not in told)  # a time that the clock leaves out
    moved = {"one": [index], "following": range(index, len(before)), "all": range(len(before))}[scope]
    expected = [one + by if number in moved else one for number, one in enumerate(before)]
    after = begun(told["text"], (told["new"] or {}).get("text", ""))
    gap = datetime(2026, 3, 29, 2), datetime(2026, 3, 29, 3)  # noqa: DTZ001
    assume(not any(gap[0] <= one < gap[1] for one in [*before, *expected]))  # shown an hour later
    assume(not any(one.date() == gap[0].date() and one.hour == 3 for one in before))  # may be such a one
    assert sorted(after) == sorted(expected)
