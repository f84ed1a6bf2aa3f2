"""Free time, cards and alarms, each against a simpler way to the same answer."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import CalendarFailed
from gateway.calendar.accounts import Account
from gateway.calendar.alarms import AHEAD, LATE, MOST, alarms_of
from gateway.calendar.calendar_source import Event
from gateway.calendar.dav_client import Collection, Resource
from gateway.calendar.free_time import free_spans, merged_spans
from gateway.calendar.period import Period, period_of
from gateway.calendar.references import Reference, read_reference, reference_of
from gateway.calendar.vcards import contacts_in
from gateway.settings.root import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

BERLIN = ZoneInfo("Europe/Berlin")
MINUTE = timedelta(minutes=1)
STEP = timedelta(minutes=15)
DAYS = [datetime(2026, 3, 28, 22, tzinfo=UTC), datetime(2026, 10, 24, 20, tzinfo=UTC), datetime(2026, 7, 1, 8, tzinfo=UTC)]
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@given(
    st.sampled_from(DAYS),
    st.integers(1, 200),
    st.lists(st.tuples(st.integers(-20, 220), st.integers(0, 40)), max_size=8),
    st.sampled_from([None, (time(9), time(18)), (time(2), time(3)), (time(20), time(0))]),
    st.integers(0, 8),
)
def test_free_time_is_what_a_look_at_each_quarter_of_an_hour_finds(
    start: datetime, length: int, events: list[tuple[int, int]], hours: tuple[time, time] | None, least: int
) -> None:
    period = Period(start, start + STEP * length)
    busy = [(start + STEP * first, start + STEP * (first + long)) for first, long in events]
    found = free_spans(period, busy, STEP * least, hours, BERLIN)

    def is_free(at: datetime) -> bool:
        local = at.astimezone(BERLIN)
        open_now = hours is None or (hours[0] <= local.time() and (local.time() < hours[1] or hours[1] == time()))
        return open_now and not any(first <= at < last for first, last in busy)

    expected: list[tuple[datetime, datetime]] = []
    for number in range(length):
        at = start + STEP * number
        if not is_free(at):
            continue
        midnight = at.astimezone(BERLIN).time() == time()
        if expected and expected[-1][1] == at and not midnight:
            expected[-1] = expected[-1][0], at + STEP
        else:
            expected.append((at, at + STEP))
    assert found == [(first, last) for first, last in expected if last - first >= STEP * least]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=10))
def test_merged_spans_cover_the_same_and_do_not_touch(spans: list[tuple[int, int]]) -> None:
    given_spans = [(NOW + MINUTE * first, NOW + MINUTE * (first + long)) for first, long in spans]
    merged = merged_spans(given_spans)
    covered = {n for n in range(80) if any(a <= NOW + MINUTE * n < b for a, b in given_spans)}
    assert {n for n in range(80) if any(a <= NOW + MINUTE * n < b for a, b in merged)} == covered
    assert all(one[1] < other[0] for one, other in itertools.pairwise(merged))


@given(st.text(max_size=400))
def test_no_text_is_too_odd_for_a_card(text: str) -> None:
    contacts_in(text)
    contacts_in(f"BEGIN:VCARD\r\nVERSION:3.0\r\n{text}\r\nEND:VCARD")


NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=40).map(str.strip).filter(bool)


@given(NAMES, st.integers(5, 60), st.sampled_from(["3.0", "4.0"]))
def test_names_are_read_back_however_lines_are_folded(name: str, width: int, version: str) -> None:
    written = name.replace("\\", "\\\\").replace(",", "\\,").replace(";", "\\;")
    line = f"FN;CHARSET=UTF-8:{written}"
    folded = "\r\n ".join(line[at : at + width] for at in range(0, len(line), width))
    (card,) = contacts_in(f"BEGIN:VCARD\r\nVERSION:{version}\r\n{folded}\r\nEND:VCARD\r\n")
    assert card.name == " ".join(name.split())


def test_cards_of_all_versions() -> None:
    old = "BEGIN:VCARD\nVERSION:2.1\nN;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:M=C3=BCller;J=\n=C3=B6rg\n"
    old += "TEL;CELL:0171 555 1234\nEND:VCARD\n"
    new = (
        'BEGIN:VCARD\r\nVERSION:4.0\r\nFN:Zoë\r\nTEL;VALUE=uri;TYPE="voice,home":tel:+49-30-1234567\r\nORG:Choir;Alto\r\n'
        'ADR;LABEL="x;y":;;Main St 1;Berlin;;10115;\r\nBDAY:--0203\r\nPHOTO:data:image/jpeg;base64,AAAA\r\nEND:VCARD\r\n'
    )
    first, second = contacts_in(old + new)
    assert (first.name, first.phones) == ("Jörg Müller", ("0171 555 1234",))
    assert second.line() == "Zoë (Choir, Alto): +49-30-1234567, address: Main St 1, Berlin, 10115, birthday: --0203"
    assert second.matches("030 1234567")
    assert second.matches("choir")
    assert not second.matches("7654321")


def event(start: datetime, alarms: Sequence[datetime], **more: Any) -> Event:
    instance = {
        "uid": "u", "rid": "", "start": start.isoformat(), "end": (start + timedelta(hours=1)).isoformat(), "title": "Train", "place": "",
        "status": "", "alarms": [f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in alarms],
    }  # fmt: skip
    return Event(
        account=Account(name="personal", url="http://x/"),
        calendar=Collection(url="http://x/c/", name="c"),
        resource=Resource(url="http://x/c/u.ics", etag="1", text=""),
        instance={**instance, **more},
    )


@given(st.lists(st.integers(-200, 3000), max_size=6))
def test_alarms_are_those_from_just_now_to_a_day_and_a_half(minutes: list[int]) -> None:
    instants = [NOW + MINUTE * one for one in minutes]
    found = alarms_of([event(NOW + timedelta(days=2), instants)], "personal", BERLIN, NOW)
    wanted = {at for at in instants if NOW - LATE < at <= NOW + AHEAD}
    assert {one.key.rpartition(":")[2] for one in found} == {f"{at:%Y%m%dT%H%M%SZ}" for at in wanted}
    assert all(one.at > NOW for one in found)
    assert all(one.at == at for one in found for at in wanted if at > NOW and one.key.endswith(f"{at:%Y%m%dT%H%M%SZ}"))


def test_cancelled_events_have_no_alarms_and_their_number_is_bounded() -> None:
    assert alarms_of([event(NOW, [NOW], status="CANCELLED")], "personal", BERLIN, NOW) == []
    many = [event(NOW + timedelta(hours=1), [NOW + MINUTE * n], uid=f"u{n}") for n in range(300)]
    found = alarms_of(many, "personal", BERLIN, NOW)
    assert [one.at for one in found[1:]] == [NOW + MINUTE * n for n in range(1, MOST)]


@given(st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)), st.booleans())  # noqa: DTZ001
def test_ids_are_read_back(begins: datetime, whole: bool) -> None:
    begins = begins.replace(second=0, microsecond=0)
    one = Reference("abcdefg", begins.date() if whole else begins)
    assert read_reference(f" {str(one).upper()} ") == one


def test_the_id_of_an_event_is_the_same_in_every_process() -> None:
    one = reference_of("personal", {"uid": "d1", "start": "2026-02-03T09:00:00+00:00"}, BERLIN)
    assert str(one) == "3hwr7wx-20260203T1000"
    assert str(reference_of("personal", {"uid": "d1", "start": "2026-02-03"}, BERLIN)) == "3hwr7wx-20260203"
    with pytest.raises(CalendarFailed, match="no id"):
        read_reference("dentist")


def test_periods_are_local_days_over_clock_changes() -> None:
    day = period_of("2026-03-29", None, BERLIN, NOW, days=7)
    assert day.end - day.start == timedelta(hours=23)
    days = period_of("2026-10-25", "2026-10-25", BERLIN, NOW, days=7)
    assert days.end - days.start == timedelta(hours=25)
    week = period_of(None, None, BERLIN, NOW, days=7)
    assert (week.start.astimezone(BERLIN).date(), week.end.astimezone(BERLIN).date()) == (date(2026, 3, 1), date(2026, 3, 8))


@pytest.mark.parametrize(
    ("account", "told"),
    [
        ({}, "either url"),
        ({"url": "https://a.example", "ics": "https://a.example/x.ics"}, "either url"),
        ({"url": "https://anna:secret@a.example"}, "no address of a server"),
        ({"url": "ftp://a.example"}, "no address of a server"),
        ({"ics": "https://a.example/x.ics", "contacts": True}, "for a CalDAV server"),
    ],
)
def test_settings_that_cannot_be_are_refused(account: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Settings.model_validate({"calendar": {"accounts": {"one": account}}})


def test_settings_say_which_agents_have_an_account() -> None:
    one, other = {"url": "https://a.example"}, {"ics": "webcal://a.example/x.ics", "agents": ["*"]}
    found = Settings.model_validate({"calendar": {"accounts": {"one": one, "other": other}, "hours": "08:00-24:00"}}).calendar
    assert list(found.accounts_of("main", "main")) == ["one", "other"]
    assert list(found.accounts_of("work", "main")) == ["other"]
    assert found.accounts["other"].ics == "https://a.example/x.ics"
    assert found.free_hours == (time(8), time(0))
    with pytest.raises(ValueError, match="no hours"):
        Settings.model_validate({"calendar": {"hours": "18:00-09:00"}})
