"""The tool on a real radicale: looking, finding time, and changing once, however often a call is made."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from agent.errors import FetchFailed
from agent.tools.calendar_tool import CalendarTool
from agent.tools.protocol import ToolContext
from gateway.base.clock import TickingClock
from gateway.calendar.accounts import Account
from gateway.calendar.agent_calendars import AgentCalendars
from gateway.calendar.calendar_source import CalendarSource
from gateway.calendar.edits import CalendarEdits
from gateway.calendar.ical_process import CalendarProcess
from gateway.calendar.references import event_key
from gateway.net.fetcher import GuardedFetcher
from gateway.settings.calendar_settings import CalendarSettings
from tests import programs
from tests.calendar.conftest import calendar, event
from tests.peers.web import page, web_peer
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from agent.tools.protocol import Act, Outcome
    from agent.tools.web.fetch_protocol import Fetched, FetchRequest
    from tests.calendar.conftest import Radicale

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 2, 1, 12, tzinfo=BERLIN)
TEN, ELEVEN = "DTSTART;TZID=Europe/Berlin:20260203T100000", "DTEND;TZID=Europe/Berlin:20260203T110000"
DENTIST = calendar(event("SUMMARY:Dentist", "LOCATION:Main St", TEN, ELEVEN, uid="d1"))
CHOIR = calendar(
    event("SUMMARY:Choir", "DTSTART;TZID=Europe/Berlin:20260202T190000", "DURATION:PT2H", "RRULE:FREQ=WEEKLY", uid="c1")
)


class Fixture:
    def __init__(self, *accounts: Account, fetcher: Any = None) -> None:
        clock, process = TickingClock(NOW), CalendarProcess(spawn=programs.spawn)
        self.fetcher = fetcher or GuardedFetcher()
        sources = [CalendarSource(account, self.fetcher, process, clock) for account in accounts]
        edits = CalendarEdits(sources, process, BERLIN, "main")
        self.changes = 0
        hours = CalendarSettings().free_hours
        self.tool = CalendarTool(AgentCalendars(sources, edits, BERLIN, hours, changed=self._changed))

    def _changed(self) -> None:
        self.changes += 1

    async def do(self, action: str, *, call: str = "call-1", **arguments: Any) -> Outcome:
        return await self.tool.run({"action": action, **arguments}, context(call))

    async def act(self, action: str, **arguments: Any) -> Act | None:
        return await asyncio.to_thread(self.tool.act_of, {"action": action, **arguments}, context("call-1"))


def context(call: str) -> ToolContext:
    return ToolContext(now=NOW, session="s", turn="t", call=call)


async def listed(tool: Fixture, title: str, **arguments: Any) -> list[str]:
    """The ids of the events with a title."""
    text = (await tool.do("list", **arguments)).text
    return [line.rpartition("| ")[2] for line in text.splitlines() if f" {title} |" in line]


@pytest.fixture
async def tool(radicale: Radicale) -> Fixture:
    await radicale.put("personal/dentist.ics", DENTIST)
    await radicale.put("personal/choir.ics", CHOIR)
    return Fixture(radicale.account())


async def test_events_are_listed_in_the_owners_time_with_ids(tool: Fixture) -> None:
    told = await tool.do("list", **{"from": "2026-02-01", "to": "2026-02-03"})
    assert told.sources == ("calendar:personal",)
    lines = told.text.splitlines()
    assert lines[0] == "Mon 2 Feb:"
    assert lines[1].startswith("- 19:00–21:00 Choir | personal | repeated | ")
    assert lines[1].endswith("-20260202T1900")
    assert lines[2:3] == ["Tue 3 Feb:"]
    assert lines[3].startswith("- 10:00–11:00 Dentist | Main St | personal | ")
    assert "Nothing from Sun 8 Feb to Sun 8 Feb" in (await tool.do("list", **{"from": "2026-02-08"})).text
    assert "when: Tue 3 Feb 10:00–11:00 (Europe/Berlin)" in (await tool.do("show", event=lines[3].rpartition("| ")[2])).text
    assert "Dentist" in (await tool.do("search", text="main st")).text
    assert "Choir" not in (await tool.do("search", text="main st")).text
    assert (await tool.do("calendars")).text == "personal: personal"


async def test_free_time_is_what_events_leave_of_the_hours(tool: Fixture, radicale: Radicale) -> None:
    fair = event("SUMMARY:Fair", "DTSTART;VALUE=DATE:20260203", "DTEND;VALUE=DATE:20260204", uid="f")
    seen = event("SUMMARY:Seen", "DTSTART:20260203T130000Z", "DTEND:20260203T140000Z", "TRANSP:TRANSPARENT", uid="t")
    await radicale.put("personal/fair.ics", calendar(fair))
    await radicale.put("personal/seen.ics", calendar(seen))
    text = (await tool.do("free", **{"from": "2026-02-03", "to": "2026-02-03", "minutes": 60})).text
    assert "- Tue 3 Feb: 09:00–10:00, 11:00–18:00" in text
    assert "All day, not counted:\nTue 3 Feb:\n- all day Fair" in text
    text = (await tool.do("free", **{"from": "2026-02-02T18:00", "to": "2026-02-02T23:00"})).text
    assert "- Mon 2 Feb: 18:00–19:00, 21:00–23:00" in text, "times that were named are not cut by the hours"


async def test_a_new_event_is_made_once_however_often_the_call_is_made(tool: Fixture, radicale: Radicale) -> None:
    wish = {"title": "Lunch", "from": "2026-02-05T12:30", "to": "2026-02-05T13:15", "minutes": 10}
    act = await tool.act("create", **wish)
    assert act is not None
    assert act.kind == "call"
    assert act.summary == "create “Lunch” on Thu 5 Feb 12:30 to 13:15 in personal"
    assert act.ask == ""
    first = await tool.do("create", **wish)
    again = await tool.do("create", **wish)
    assert "is in personal" in first.text
    assert "is already in personal" in again.text
    assert first.sources == (), "it says what the call said"
    assert await tool.act("create", **wish) == act
    assert sum("SUMMARY:Lunch" in text for text in radicale.objects()) == 1
    assert len(await listed(tool, "Lunch", **{"from": "2026-02-05"})) == 1
    await tool.do("create", call="call-2", **wish)
    assert sum("SUMMARY:Lunch" in text for text in radicale.objects()) == 2, "another call is another event"
    assert tool.changes == 3


@pytest.mark.parametrize(
    ("wish", "told", "key"),
    [
        ({"from": "2026-02-05T10:00Z"}, "Thu 5 Feb 11:00", "20260205T1100"),
        ({"from": "2026-02-05T10:00Z", "to": "2026-02-05T11:30Z"}, "Thu 5 Feb 11:00 to 12:30", "20260205T1100"),
        ({"from": "2026-02-05T02:00+05:00", "to": "2026-02-05T02:00"}, "Wed 4 Feb 22:00 to Thu 5 Feb 02:00", "20260204T2200"),
        ({"from": "2026-02-05T22:30-03:00"}, "Fri 6 Feb 02:30", "20260206T0230"),
        ({"from": "2026-10-25T01:30Z"}, "Sun 25 Oct 02:30", "20261025T0230"),
    ],
)
async def test_a_time_with_an_offset_is_told_as_it_is_in_the_calendar(
    tool: Fixture, wish: dict[str, str], told: str, key: str
) -> None:
    act = await tool.act("create", title="Call", **wish)
    assert act is not None
    assert act.summary == f"create “Call” on {told} in personal"
    made = await tool.do("create", title="Call", **wish)
    assert f": {told}, Europe/Berlin (" in made.text, made.text
    days = {"from": f"{key[:4]}-{key[4:6]}-{key[6:8]}"}
    (stored,) = await listed(tool, "Call", **days)
    assert stored.endswith(f"-{key}")
    assert f"({stored})" in made.text, "it is the id of the event"


async def test_a_move_to_a_time_with_an_offset_is_told_in_the_owners_time_and_recognised_again(tool: Fixture) -> None:
    (dentist,) = await listed(tool, "Dentist", **{"from": "2026-02-03"})
    wish = {"event": dentist, "from": "2026-02-10T23:30-05:00", "to": "2026-02-11T00:15-05:00"}
    act = await tool.act("change", **wish)
    assert act is not None
    assert act.summary == "move “Dentist” from Tue 3 Feb 10:00 to Wed 11 Feb 05:30 to 06:15 in personal"
    assert "is now Wed 11 Feb 05:30–06:15" in (await tool.do("change", **wish)).text
    assert await tool.act("change", **wish) is None
    assert "is so already: Wed 11 Feb 05:30–06:15" in (await tool.do("change", **wish)).text


async def test_an_event_is_moved_once_and_the_question_stays_the_same(tool: Fixture, radicale: Radicale) -> None:
    (dentist,) = await listed(tool, "Dentist", **{"from": "2026-02-03"})
    wish = {"event": dentist, "from": "2026-02-10"}
    act = await tool.act("change", **wish)
    assert act is not None
    assert act.summary == "move “Dentist” from Tue 3 Feb 10:00 to Tue 10 Feb 10:00 in personal"
    told = await tool.do("change", **wish)
    assert "is now Tue 10 Feb 10:00–11:00" in told.text, told.text
    assert await tool.act("change", **wish) is None, "nothing is asked about a repeat after a crash, which does nothing"
    again = await tool.do("change", **wish)
    assert not again.is_error
    assert "is so already: Tue 10 Feb 10:00–11:00" in again.text
    (moved,) = await listed(tool, "Dentist", **{"from": "2026-02-10"})
    assert moved in told.text
    assert await listed(tool, "Dentist", **{"from": "2026-02-03"}) == []
    assert len(radicale.objects()) == 2


async def test_instances_of_a_series_are_changed_and_cancelled_by_themselves(tool: Fixture, radicale: Radicale) -> None:
    choir = await listed(tool, "Choir", **{"from": "2026-02-01", "to": "2026-03-01"})
    assert len(choir) == 4
    await tool.do("change", event=choir[1], **{"from": "2026-02-10T20:00"})
    cancelled = await tool.do("cancel", event=choir[2])
    assert "Cancelled, this one alone" in cancelled.text
    assert "Nothing was done" in (await tool.do("cancel", event=choir[2])).text
    left = await listed(tool, "Choir", **{"from": "2026-02-01", "to": "2026-03-01"})
    assert [one.partition("-")[2] for one in left] == ["20260202T1900", "20260210T2000", "20260223T1900"]
    following = await tool.do("change", call="call-9", event=left[2], scope="following", **{"from": "2026-02-24T18:00"})
    assert "this and all later ones" in following.text, following.text
    again = await tool.do("change", call="call-9", event=left[2], scope="following", **{"from": "2026-02-24T18:00"})
    assert "is so already" in again.text, again.text
    left = await listed(tool, "Choir", **{"from": "2026-02-01", "to": "2026-03-10"})
    assert [one.partition("-")[2] for one in left] == [
        "20260202T1900", "20260210T2000", "20260224T1800", "20260303T1800", "20260310T1800",
    ]  # fmt: skip
    assert len(radicale.objects()) == 3


async def test_what_somebody_else_changed_meanwhile_is_not_overwritten(tool: Fixture, radicale: Radicale) -> None:
    (dentist,) = await listed(tool, "Dentist", **{"from": "2026-02-03"})

    class Between:
        """Another program changes the event just before each PUT."""

        def refuses(self, *_: Any) -> bool:
            return False

        async def fetch(self, request: FetchRequest) -> Fetched:
            if request.method == "PUT":
                await radicale.put("personal/dentist.ics", DENTIST.replace("Dentist", "Dentist (Dr Low)"))
            return await GuardedFetcher().fetch(request)

    racing = Fixture(radicale.account(), fetcher=Between())
    told = await racing.do("change", event=dentist, title="Tooth")
    assert told.is_error
    assert "changed by another program" in told.text
    assert "it is now “Dentist (Dr Low)”" in told.text
    assert told.sources == ("calendar:personal",), "it quotes the event"
    assert "Tooth" not in "".join(radicale.objects())


async def test_events_with_others_are_asked_about_each_time(tool: Fixture, radicale: Radicale) -> None:
    people = ["ORGANIZER:mailto:boss@example.org", "ATTENDEE:mailto:anna@example.org"]
    text = calendar(event("SUMMARY:Meeting", "DTSTART:20260204T090000Z", "DTEND:20260204T100000Z", *people, uid="m"))
    await radicale.put("personal/meeting.ics", text)
    (meeting,) = await listed(tool, "Meeting", **{"from": "2026-02-04"})
    act = await tool.act("cancel", event=meeting)
    assert act is not None
    assert act.others
    assert "others take part" in act.ask
    assert act.quotes, "its title is not the agent's own"
    assert "boss@example.org" in act.details


@parametrize_some(
    4,
    ("action", "arguments", "told"),
    [
        ("change", {"event": "nonsense", "title": "x"}, "no id of an event"),
        ("change", {"event": "abcdefg-20260203T1000", "title": "x"}, "there is no event"),
        ("change", {"event": "abcdefg-20260203T1000"}, "needs what is to be different"),
        ("create", {"title": "x", "from": "2026-03-29T02:30"}, "the clock goes forward"),
        ("create", {"title": "x", "from": "2026-02-30"}, "does not exist"),
        ("create", {"title": "x", "from": "tomorrow"}, "no day or time"),
        ("create", {"title": "x", "from": "2026-02-05", "calendar": "work"}, "there is: personal"),
        ("list", {"from": "2026-02-05", "to": "2026-02-01"}, "before from"),
        ("list", {"from": "2020-01-01", "to": "2026-02-01"}, "more than 400 days"),
        ("contacts", {"text": "anna"}, "no account has contacts"),
        ("show", {}, "show needs event"),
    ],
)
async def test_what_cannot_be_done_is_told_with_what_would_help(
    tool: Fixture, action: str, arguments: dict[str, Any], told: str
) -> None:
    outcome = await tool.do(action, **arguments)
    assert outcome.is_error
    assert told in outcome.text


async def test_nobody_is_asked_about_what_cannot_be_looked_up_and_it_is_not_done_either(radicale: Radicale) -> None:
    gone = Fixture(Account(name="gone", url="http://127.0.0.1:1/", user="anna"))
    assert await gone.act("cancel", event="abcdefg-20260203T1000") is None
    assert (await gone.do("cancel", event="abcdefg-20260203T1000")).is_error
    tool = Fixture(radicale.account())
    late = f"{event_key('personal', 'd1')}-20260203T1000"
    assert await tool.act("cancel", event=late) is None
    await radicale.put("personal/dentist.ics", DENTIST)  # it comes after it was looked up, so nobody judged the act
    told = await tool.do("cancel", event=late)
    assert told.is_error
    assert "nothing with the id" in told.text
    assert radicale.objects(), "it stays"
    assert await tool.act("cancel", event=late) is not None


@parametrize_some(
    3,
    ("action", "wish", "told"),
    [
        ("create", {"title": "x", "from": "2026-03-29T02:30"}, "there is no 02:30 on 2026-03-29 in Europe/Berlin"),
        ("create", {"title": "x", "from": "2026-03-29T01:30", "to": "2026-03-29T02:30"}, "there is no 02:30"),
        ("change", {"event": "abcdefg-20260203T1000", "from": "2026-03-29T02:30"}, "there is no 02:30"),
        ("cancel", {"event": "Dentist"}, "'Dentist' is no id of an event"),
        ("create", {"title": "x", "from": "2026-02-03T10:00", "repeat": "FREQ=SECONDLY"}, "86,400 times a day"),
        ("create", {"title": "x", "from": "2026-02-03T10:00", "repeat": "FREQ=MINUTELY;INTERVAL=5"}, "288 times a day"),
        (
            "create",
            {"title": "x", "from": "2026-02-03T10:00", "repeat": "FREQ=DAILY;BYHOUR=1,2,3;BYMINUTE=1,2,3,4,5,6,7,8,9"},
            "27 times",
        ),
        (
            "create",
            {"title": "x", "from": "2026-02-03T10:00", "repeat": "FREQ=DAILY;INTERVAL=0"},
            "INTERVAL of a rule is at least 1",
        ),
        ("create", {"title": "x", "from": "2026-02-03T10:00", "repeat": "FREQ=SOMETIMES"}, "rule"),
    ],
)
async def test_what_no_calendar_can_take_is_refused_before_anybody_is_asked(
    tool: Fixture, radicale: Radicale, action: str, wish: dict[str, Any], told: str
) -> None:
    before = radicale.objects()
    assert await tool.act(action, **wish) is None
    outcome = await tool.do(action, **wish)
    assert outcome.is_error
    assert told in outcome.text
    assert radicale.objects() == before


async def test_an_approved_rename_is_not_asked_about_again_after_a_crash(tool: Fixture, radicale: Radicale) -> None:
    (dentist,) = await listed(tool, "Dentist", **{"from": "2026-02-03"})
    wish = {"event": dentist, "title": "Dr. Meier"}
    assert await tool.act("change", **wish) is not None
    assert "is now" in (await tool.do("change", **wish)).text
    assert await tool.act("change", **wish) is None
    assert "is so already" in (await tool.do("change", **wish)).text
    assert await tool.act("change", **wish) is None
    text = next(one for one in radicale.objects() if "Dr. Meier" in one)
    await radicale.put("personal/dentist.ics", text.replace("Dr. Meier", "Dentist"))  # changed back after it was looked at
    told = await tool.do("change", **wish)
    assert told.is_error
    assert "not so any more" in told.text
    assert any("SUMMARY:Dentist" in one for one in radicale.objects())


async def test_a_new_series_is_told_with_its_rule(tool: Fixture) -> None:
    told = await tool.do("create", title="Yoga", repeat="FREQ=WEEKLY", **{"from": "2026-02-05T18:00"})
    assert "repeated by FREQ=WEEKLY" in told.text


async def test_one_account_that_fails_does_not_hide_the_others(radicale: Radicale) -> None:
    await radicale.put("personal/dentist.ics", DENTIST)
    feed = calendar(
        event("SUMMARY:Holiday", "DTSTART;VALUE=DATE:20260203", uid="h"), event("SUMMARY:Broken", "DTSTART:x", uid="b")
    )
    async with web_peer({"/h.ics": page(feed, "text/calendar")}) as peer:
        tool = Fixture(
            radicale.account(),
            Account(name="gone", url="http://127.0.0.1:1/"),
            Account(name="holidays", url=f"http://127.0.0.1:{peer.port}/h.ics", feed=True),
        )
        told = await tool.do("list", **{"from": "2026-02-03"})
        assert "- all day Holiday | holidays | " in told.text
        assert "- 10:00–11:00 Dentist" in told.text
        assert "“Broken” in holidays cannot be read: DTSTART" in told.text
        assert "Not read: the calendar account gone" in told.text
        assert told.sources == ("calendar:personal", "calendar:gone", "calendar:holidays")
        (holiday,) = await listed(tool, "Holiday", **{"from": "2026-02-03"})
        refused = await tool.do("cancel", event=holiday)
        assert "only read" in refused.text


async def test_what_could_not_be_read_is_said_before_free_time_which_is_not_certain_then(radicale: Radicale) -> None:
    await radicale.put("personal/dentist.ics", DENTIST)
    whole, gone = Fixture(radicale.account()), Account(name="gone", url="http://127.0.0.1:1/", contacts=True)
    day = {"from": "2026-02-03"}
    assert (await whole.do("free", **day)).text.startswith("Free between 09:00 and 18:00, at least 30 minutes")
    tool = Fixture(radicale.account(contacts=True), gone)
    lines = (await tool.do("free", **day)).text.splitlines()
    assert lines[0].startswith("Not read: the calendar account gone")
    assert lines[1:4] == [
        "Some of the time below may be taken by what was not read.",
        "",
        "Free as far as could be read between 09:00 and 18:00, at least 30 minutes (Europe/Berlin):",
    ]
    assert sum("Not read" in line for line in lines) == 1
    empty = (await tool.do("list", **{"from": "2026-02-08"})).text
    assert empty.startswith("Not read: the calendar account gone")
    assert empty.endswith("Nothing from Sun 8 Feb to Sun 8 Feb.")
    people = (await tool.do("contacts", text="Bob")).text
    assert people.startswith("Not read: the calendar account gone")
    assert people.endswith("Nobody that could be read matches 'Bob'.")
    feed = calendar(event("SUMMARY:Often", "DTSTART:20260101T000000Z", "RRULE:FREQ=SECONDLY", uid="o"))
    async with web_peer({"/h.ics": page(feed, "text/calendar")}) as peer:
        tool = Fixture(Account(name="holidays", url=f"http://127.0.0.1:{peer.port}/h.ics", feed=True))
        lines = (await tool.do("free", **day)).text.splitlines()
    assert lines[0].startswith("“Often” in holidays cannot be read")
    assert lines[3].startswith("Free as far as could be read")


@pytest.mark.parametrize("action", ["free", "list", "search"])
async def test_a_calendar_that_does_not_exist_is_not_told_as_an_empty_one(tool: Fixture, action: str) -> None:
    wish = {"from": "2026-02-03", "text": "dentist"}
    told = await tool.do(action, calendar="wrok", **wish)
    assert told.is_error
    assert "there is no calendar 'wrok'" in told.text
    assert "there is: personal" in told.text
    for name in ("personal", "Personal/personal"):
        assert "Dentist" in (await tool.do(action, calendar=name, **wish)).text


async def test_contacts_are_found_by_name_mail_and_phone(radicale: Radicale) -> None:
    await radicale.make("friends", "addressbook")
    lines = ["BEGIN:VCARD", "VERSION:3.0", "UID:1", "FN:Anna Lee", "N:Lee;Anna;;;", "EMAIL;TYPE=HOME:anna@example.org"]
    card = "\r\n".join([*lines, "item1.TEL;TYPE=CELL:+49 170 1234567", "END:VCARD", ""])
    await radicale.put("friends/anna.vcf", card, "text/vcard")
    tool = Fixture(radicale.account(contacts=True))
    for text in ("anna lee", "ANNA@example", "0170 1234567"):
        told = await tool.do("contacts", text=text)
        assert told.text == "Anna Lee: anna@example.org, +49 170 1234567"
        assert told.sources == ("calendar:personal",)
    assert "Nobody matches" in (await tool.do("contacts", text="Bob")).text


async def test_a_put_whose_answer_is_lost_counts_where_it_arrived(tool: Fixture, radicale: Radicale) -> None:
    class Cut:
        def refuses(self, *_: Any) -> bool:
            return False

        async def fetch(self, request: FetchRequest) -> Fetched:
            answer = await GuardedFetcher().fetch(request)
            if request.method == "PUT":
                raise FetchFailed("the connection broke off")
            return answer

    cut = Fixture(radicale.account(), fetcher=Cut())
    told = await cut.do("create", title="Lunch", **{"from": "2026-02-05T12:30"})
    assert "is in personal" in told.text
    assert sum("SUMMARY:Lunch" in text for text in radicale.objects()) == 1
    (dentist,) = await listed(cut, "Dentist", **{"from": "2026-02-03"})
    assert "is now" in (await cut.do("change", event=dentist, title="Tooth")).text


async def test_an_account_without_calendars_says_so(radicale: Radicale) -> None:
    assert await radicale.ask("DELETE", "/anna/personal/") == 200
    tool = Fixture(radicale.account())
    told = await tool.do("list", **{"from": "2026-02-03"})
    assert told.is_error
    assert "the calendar account personal has no calendar yet" in told.text


class Refusing:
    """A server that answers requests of one method with a status, those with a condition of one kind."""

    def __init__(self, status: int, header: str) -> None:
        self.status = status
        self.header = header

    def refuses(self, *_: Any) -> bool:
        return False

    async def fetch(self, request: FetchRequest) -> Fetched:
        refused = request.method == "PUT" and any(name == self.header for name, _ in request.headers)
        sent = replace(request, method="GET", body=b"") if refused else request
        answer = await GuardedFetcher().fetch(sent)
        return replace(answer, status=self.status) if refused else answer


async def test_an_event_that_the_server_refuses_and_does_not_have_is_not_told_as_made(radicale: Radicale) -> None:
    await radicale.put("personal/choir.ics", CHOIR)
    tool = Fixture(radicale.account(), fetcher=Refusing(412, "If-None-Match"))
    told = await tool.do("create", title="Lunch", **{"from": "2026-02-05T12:30"})
    assert told.is_error
    assert "the server refuses the new event (412 Precondition Failed), so nothing was made or changed" in told.text
    before = radicale.objects()
    choir = await listed(tool, "Choir", **{"from": "2026-02-01", "to": "2026-02-12"})
    following = await tool.do("change", event=choir[1], scope="following", title="Band")
    assert following.is_error
    assert radicale.objects() == before, "the former series is not ended where the new one is not there"


@pytest.mark.parametrize("status", [403, 500])
async def test_a_new_series_is_taken_back_where_the_former_one_cannot_be_ended(radicale: Radicale, status: int) -> None:
    await radicale.put("personal/choir.ics", CHOIR)
    before = radicale.objects()
    tool = Fixture(radicale.account(), fetcher=Refusing(status, "If-Match"))
    choir = await listed(tool, "Choir", **{"from": "2026-02-01", "to": "2026-02-12"})
    assert (await tool.do("change", event=choir[1], scope="following", title="Band")).is_error
    assert radicale.objects() == before


async def test_names_that_others_may_have_given_are_untrusted_in_answers_and_not_in_that_of_create(radicale: Radicale) -> None:
    await radicale.make("Theirs")
    tool = Fixture(radicale.account(url=f"{radicale.url}anna/theirs/"))
    made = await tool.do("create", title="Lunch", **{"from": "2026-02-05T12:30"})
    assert (made.text.split(":")[0], made.sources) == ("“Lunch” is in personal", ())
    for name in ("theirs", "personal/Theirs"):
        named = await tool.do("create", call=name, title="Lunch", calendar=name, **{"from": "2026-02-05T12:30"})
        assert (named.text.split(":")[0], named.sources) == ("“Lunch” is in Theirs", ()), "the call has said it"
    settings = Fixture(radicale.account(default="theirs"))
    assert "is in Theirs" in (await settings.do("create", call="call-9", title="Lunch", **{"from": "2026-02-05T12:30"})).text
    for action in ("create", "list"):
        told = await tool.do(action, title="Lunch", calendar="work", **{"from": "2026-02-05T12:30"})
        assert told.is_error
        assert "there is: Theirs" in told.text
        assert told.sources == ("calendar:personal",)
