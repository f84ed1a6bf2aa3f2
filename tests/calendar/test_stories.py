"""What an owner asks for, end to end: a scripted model, the whole gateway, and a real radicale."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from agent.messages import ToolCall, ToolMessage
from tests.calendar.conftest import calendar, event
from tests.gateway.conftest import street

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.models.protocol import Request
    from tests.calendar.conftest import Radicale
    from tests.gateway.conftest import Street

    Make = Callable[..., Street]

__all__ = ["street"]

NAME = re.compile(r"/approve (\S+) once")
DENTIST = calendar(
    event("SUMMARY:Dentist", "DTSTART;TZID=Europe/Berlin:20260304T100000", "DTEND;TZID=Europe/Berlin:20260304T110000", uid="d1")
)


def settings(radicale: Radicale, **account: Any) -> dict[str, Any]:
    one = {"url": radicale.url, "user": "anna", "password": "s3cret-word", "timeoutSeconds": 240} | account
    return {"calendar": {"accounts": {"personal": one}}}


def result_of(request: Request) -> ToolMessage | None:
    last = request.messages[-1]
    return last if isinstance(last, ToolMessage) else None


def call(number: int, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"c{number}", name="calendar", arguments=arguments)


async def test_am_i_free_on_friday_afternoon(street: Make, radicale: Radicale) -> None:
    await radicale.put(
        "personal/talk.ics", calendar(event("SUMMARY:Talk", "DTSTART:20260306T140000Z", "DTEND:20260306T150000Z"))
    )
    s = street(**settings(radicale))

    def answer(request: Request) -> Any:
        found = result_of(request)
        if found is None:
            return call(1, action="free", **{"from": "2026-03-06T12:00", "to": "2026-03-06T18:00"})
        free = re.search(r"- Fri 6 Mar: (.*)", found.text)
        busy = re.search(r"15:00–16:00 (\w+)", found.text)
        return f"Free {free and free[1]}; then there is {busy and busy[1]}."

    s.model.reply_with(answer)
    async with s.house() as (_, talk):
        await talk.ask("am I free on Friday afternoon?")
        assert talk.replies() == ["Free 12:00–15:00, 16:00–18:00; then there is Talk."]
    fenced = next(one for one in s.model.requests[-1].messages if isinstance(one, ToolMessage))
    assert 'from="calendar:personal"' in fenced.text


async def test_move_the_dentist_to_next_week_with_one_question(street: Make, radicale: Radicale) -> None:
    await radicale.put("personal/dentist.ics", DENTIST)
    s = street(**settings(radicale))

    def answer(request: Request) -> Any:
        said = request.messages[-1].text
        if "Changed" in said:  # what came of a call that was asked about is told by a message
            return "Moved."
        found = result_of(request)
        if found is None:
            return call(1, action="search", text="dentist")
        event_id = re.search(r"Dentist \| personal \| (\S+)", found.text)
        return call(2, action="change", event=event_id[1], **{"from": "2026-03-11"}) if event_id else "Not moved."

    s.model.reply_with(answer)
    async with s.house() as (house, talk):
        facts = await talk.ask("move the dentist to next week")
        assert "wants to move “Dentist” from Wed 4 Mar 10:00 to Wed 11 Mar 10:00 in personal" in facts["reply"]
        assert "text from others" in facts["reply"]
        assert "20260304T100000" in "".join(radicale.objects()), "nothing happens before the answer"
        name = NAME.search(facts["reply"])
        assert name is not None
        await talk.ask(f"/approve {name[1]} once")
        await talk.until(lambda: talk.replies()[-1] == "Moved.")
        await house.lanes.quiet()
    (moved,) = radicale.objects()
    assert "DTSTART;TZID=Europe/Berlin:20260311T100000" in moved


async def test_guests_have_no_calendar_and_the_password_is_in_no_request(street: Make, radicale: Radicale) -> None:
    s = street(**settings(radicale))
    s.model.reply_with(lambda _: "Hello.")
    async with s.house() as (house, talk):
        await talk.ask("hello")
        rack = house.agents["main"].conversations.rack
        assert "calendar" in {one.name for one in rack.box().specs}
        assert "calendar" not in {one.name for one in rack.box(private=False).specs}
        assert "s3cret-word" not in str(s.model.requests)
        facts = await house.status.status()
        assert facts["calendars"] == {"personal": {"alarms": False}}


async def test_the_tool_comes_and_goes_with_the_settings(street: Make, radicale: Radicale) -> None:
    s = street()
    s.model.reply_with(lambda _: "Hello.")
    async with s.house() as (house, _):
        rack = house.agents["main"].conversations.rack
        assert "calendar" not in {one.name for one in rack.box().specs}
        given = {**s.settings.model_dump(by_alias=True, exclude_unset=True), **settings(radicale)}
        house.settings.replace(type(s.settings).model_validate(given))
        assert "calendar" in {one.name for one in rack.box().specs}
        assert rack.box() is rack.box(), "the same while nothing changes"


async def test_alarms_become_reminders_that_fire_once_and_follow_the_event(street: Make, radicale: Radicale) -> None:
    alarm = "BEGIN:VALARM\r\nACTION:DISPLAY\r\nDESCRIPTION:x\r\nTRIGGER:-PT30M\r\nEND:VALARM"
    text = calendar(event("SUMMARY:Train", "LOCATION:Gleis 4", "DTSTART:20260301T120000Z", "DTEND:20260301T130000Z", alarm))
    await radicale.put("personal/train.ics", text)
    s = street(**settings(radicale, alarms=True))
    async with s.house() as (house, talk):
        parts, jobs = house.automation.calendar, house.automation.jobs

        async def look() -> list[tuple[str, str]]:
            parts.look_soon()
            await parts.tick()
            await parts.synced()
            return [(job.text, job.state) for job in await jobs.list()]

        assert await look() == [("Train: Sun 1 Mar 13:00–14:00, Gleis 4 (calendar personal)", "active")]
        assert len(await look()) == 1, "once, however often it is looked at"
        (job,) = await jobs.list()
        assert f"{job.next_at:%H:%M}" == "11:30"
        assert job.sources == ("calendar:personal",)
        await radicale.put("personal/train.ics", text.replace("T120000Z", "T110000Z").replace("Gleis 4", "Gleis 5"))
        assert await look() == [("Train: Sun 1 Mar 12:00–14:00, Gleis 5 (calendar personal)", "active")]
        s.clock.move(60 * 60 + 10)
        await house.schedule.tick()
        await talk.until(lambda: talk.replies() == ["⏰ Train: Sun 1 Mar 12:00–14:00, Gleis 5 (calendar personal)"])
        assert (await look())[0][1] == "done"
        assert len(await look()) == 1, "it is not sent again"
        await radicale.put("personal/train.ics", text.replace("T120000Z", "T123000Z"))
        assert [state for _, state in await look()] == ["active", "done"], "at another time it is another alarm"
        await jobs.remove((await jobs.list())[0].id)
        assert [state for _, state in await look()] == ["done"], "what a person removed stays removed"
        await radicale.put("personal/train.ics", text.replace("T120000Z", "T123000Z").replace("Gleis 4", "Gleis 6"))
        assert [state for _, state in await look()] == ["active", "done"], "until the event changes"
        assert await radicale.ask("DELETE", "/anna/personal/train.ics") == 200
        assert [state for _, state in await look()] == ["done"]
        assert (await house.status.status())["calendars"]["personal"]["open"] == 0
        await radicale.stop()
        await look()
        assert "cannot be connected" in (await house.status.status())["calendars"]["personal"]["problem"]
    assert s.model.requests == []
