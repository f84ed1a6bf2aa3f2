"""The tool ``cron``: what models set up, and what guests and groups may see and change."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from agent.messages import Text, ToolCall, UserMessage
from agent.models.notebook.notebook_model import NotebookModel
from agent.models.token_estimate import Calibration, weight_of_tools
from agent.tools.cron_tool import MAX_TEXT, Cron
from agent.tools.file_tool_context import FileToolContext
from agent.tools.files import file_tools
from agent.tools.protocol import Act, Outcome, ToolContext
from agent.tools.toolbox import Toolbox
from agent.tools.workspace_sandbox import WorkspaceSandbox
from channels.messages import ChatAddress
from gateway.jobs.agent_jobs import AgentJobs
from gateway.jobs.job_checks import LONGEST_NAME
from gateway.jobs.job_words import name_for
from memory.audience import Audience
from tests.jobs.bench import BERLIN, Bench
from tests.models.conversation import ask, hear

if TYPE_CHECKING:
    from pathlib import Path

    from agent.messages import Message

GROUP = ChatAddress(channel="telegram", kind="group", id="-100")
GUEST = ChatAddress(channel="telegram", kind="direct", id="77")
PLACES = {"agent:main:telegram:group:-100": GROUP, "agent:main:telegram:dm:77": GUEST}


class Table:
    """An agent's tool on the bench, in conversations of the owner, a guest and a group."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.tool = Cron(AgentJobs("main", bench.jobs, place=PLACES.get))
        self.calls = 0

    def context(self, who: str = "owner", **more: Any) -> ToolContext:
        self.calls += 1
        now = self.bench.clock.now().astimezone(BERLIN)
        owner = ToolContext(now=now, session="s", turn="t1", key="agent:main:main", call=f"1/{self.calls}")
        if who == "guest":
            owner = structs.replace(
                owner, key="agent:main:telegram:dm:77", audience=Audience("peer", "telegram-77"), origin="guest"
            )
        elif who == "group":
            owner = structs.replace(
                owner, key="agent:main:telegram:group:-100", audience=Audience("group", "telegram--100"[:8]), origin="group"
            )
        return structs.replace(owner, **more)

    async def call(self, action: str, who: str = "owner", **arguments: Any) -> Outcome:
        return await self.tool.run({"action": action, **arguments}, self.context(who))

    async def done(self, action: str, who: str = "owner", **arguments: Any) -> str:
        outcome = await self.call(action, who, **arguments)
        assert not outcome.is_error, outcome.text
        return outcome.text

    async def refused(self, action: str, who: str = "owner", **arguments: Any) -> str:
        outcome = await self.call(action, who, **arguments)
        assert outcome.is_error, outcome.text
        return outcome.text

    async def act(self, who: str = "owner", taint: frozenset[str] = frozenset(), **arguments: Any) -> Act | None:
        return await asyncio.to_thread(self.tool.act_of, arguments, self.context(who, taint=taint))


@pytest.fixture
async def table(bench: Bench) -> Table:
    return Table(bench)


async def test_it_confirms_in_words_with_the_next_three_instants(table: Table) -> None:
    said = await table.done("add", when="0 9 * * 1-5", text="Take the pills", name="pills")
    (job,) = await table.bench.jobs.list()
    assert said == (
        f"Reminder “pills” ({job.id}): At 09:00 on Monday through Friday (Europe/Berlin). Next: Tue 24 Nov, 09:00 · "
        "Wed 25 Nov, 09:00 · Thu 26 Nov, 09:00. It goes to the owner's latest chat."
    )
    once = await table.done("add", when="2026-11-24T09:00", text="Water the plants")
    assert "“Water the plants”" in once
    assert "Once, on Tue 24 Nov, 09:00 (Europe/Berlin)." in once


async def test_a_reminder_at_one_time_is_urgent_and_a_repeated_one_is_not(table: Table) -> None:
    await table.done("add", when="in 20 minutes", text="Bread")
    await table.done("add", when="every 2h", text="Water")
    await table.done("add", when="tomorrow at 9", text="Report", kind="task")
    assert {job.name: job.urgent for job in await table.bench.jobs.list()} == {"Bread": True, "Water": False, "Report": False}


async def test_the_same_call_adds_one_job_however_often_it_is_made(table: Table) -> None:
    context = table.context()
    call = {"action": "add", "when": "in 20 minutes", "text": "Bread"}
    first = await table.tool.run(call, context)
    again = await table.tool.run(call, structs.replace(context, now=context.now + timedelta(minutes=3)))
    other = await table.tool.run(call, structs.replace(context, call="1/other"))
    assert first.details == again.details
    assert other.details != first.details
    assert len(await table.bench.jobs.list()) == 2


async def test_jobs_are_listed_changed_paused_resumed_run_and_removed(table: Table) -> None:
    assert await table.done("list") == "There are no jobs."
    await table.done("add", when="every weekday at 7:30", text="What is on today?", kind="task", name="morning")
    (job,) = await table.bench.jobs.list()
    assert (job.kind, job.session) == ("prompt", "isolated")
    listed = (await table.done("list")).splitlines()
    assert listed[0] == "1 job, times in Europe/Berlin:"
    assert listed[1].startswith(f"1. {job.id} “morning” (task): At 07:30 on Monday through Friday, next Tue 24 Nov, 07:30")
    changed = await table.done(
        "change", job="morning", when="every day at 8", text="Anything today?", session="main", to="none"
    )
    assert "At 08:00 every day" in changed
    assert changed.endswith("The answer is sent nowhere.")
    assert "It is paused." in await table.done("pause", job=job.id)
    assert "It is paused." not in await table.done("resume", job="MORNING")
    assert "is started now" in await table.done("run", job="morning")
    assert "less than a minute ago" in await table.refused("run", job="morning")
    table.bench.clock.set(table.bench.clock.now() + timedelta(minutes=2))
    assert "is started now" in await table.done("run", job="morning")
    assert "by hand" in await table.done("log", job="morning")
    assert "is removed" in await table.done("remove", job="morning")
    assert "There are no jobs yet" in await table.refused("remove", job="morning")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"action": "add", "when": "in 20 minutes"}, "add needs text"),
        ({"action": "add", "text": "x"}, "add needs when"),
        ({"action": "add", "when": " ", "text": " "}, "add needs when and text"),
        (
            {"action": "add", "when": "2026-11-20T09:00", "text": "x"},
            r"2026-11-20 09:00 is in the past; it is 2026-11-23 12:00 now",
        ),
        ({"action": "add", "when": "0 0 31 2 *", "text": "x"}, "is never due"),
        ({"action": "add", "when": "*/7", "text": "x"}, r"Every 7 minutes is `\*/7 \* \* \* \*`"),
        ({"action": "add", "when": "soon", "text": "x"}, "is not a schedule.*`tomorrow at 9:00`"),
        ({"action": "add", "when": "in 20 minutes", "text": "x", "to": "none"}, "has to be sent somewhere"),
        (
            {"action": "add", "when": "in 20 minutes", "text": "x" * (MAX_TEXT + 1)},
            "text: is 8,001 characters long; at most 8,000",
        ),
        ({"action": "add", "when": "in 20 minutes", "text": "x", "zone": "UTC"}, "zone: no such argument"),
        ({"action": "change"}, "change needs job"),
        ({"action": "change", "job": "abcde"}, "change needs what is to be different"),
        ({"action": "remove", "job": "nosuch"}, "there is no job 'nosuch' here.*There are no jobs yet"),
        ({"action": "delete", "job": "x"}, "action"),
    ],
)
async def test_an_error_says_what_would_do(table: Table, arguments: dict[str, Any], told: str) -> None:
    outcome = await table.tool.run(arguments, table.context())
    assert outcome.is_error
    assert re.search(told, outcome.text, re.DOTALL), outcome.text
    assert await asyncio.to_thread(table.tool.act_of, arguments, table.context()) is None
    assert await table.bench.jobs.list() == []


async def test_guests_and_groups_see_their_own_jobs_and_nothing_else(table: Table) -> None:
    await table.done("add", when="in 1 hour", text="the secret present")
    await table.done("add", "guest", when="in 1 hour", text="guest's tea")
    await table.done("add", "group", when="in 1 hour", text="group's meeting")
    assert "1 job" in await table.done("list", "guest")
    assert "tea" in await table.done("list", "guest")
    (secret,) = [job for job in await table.bench.jobs.list() if "secret" in job.text]
    for action in ("remove", "run", "log", "pause", "resume"):
        for name in (secret.id, secret.name):
            told = await table.refused(action, "guest", job=name)
            assert "secret" not in told.replace(name, "")
    assert "there is no job" in await table.refused("change", "group", job=secret.id, text="x")
    assert "3 jobs" in await table.done("list")
    jobs = {job.text: job for job in await table.bench.jobs.list()}
    assert jobs["guest's tea"].deliver == GUEST
    assert jobs["group's meeting"].deliver == GROUP
    assert not jobs["guest's tea"].owner
    assert jobs["the secret present"].owner


async def test_a_guest_reaches_neither_the_owner_nor_the_main_conversation(table: Table) -> None:
    assert "not open to this conversation" in await table.refused("add", "guest", when="in 1 hour", text="x", to="owner")
    assert "is the owner's" in await table.refused("add", "guest", when="in 1 hour", text="x", kind="task", session="main")
    await table.done("add", "guest", when="in 1 hour", text="x")
    (job,) = await table.bench.jobs.list()
    assert "not open" in await table.refused("change", "guest", job=job.id, to="owner")


async def test_the_owner_may_have_it_sent_to_the_chat_at_hand(table: Table) -> None:
    PLACES["agent:main:main"] = ChatAddress(channel="telegram", kind="direct", id="42")
    try:
        await table.done("add", when="in 1 hour", text="x", to="here")
        PLACES["agent:main:main"] = ChatAddress(channel="terminal", kind="direct", id="local")
        await table.done("add", when="in 2 hours", text="y", to="here")
    finally:
        del PLACES["agent:main:main"]
    first, second = await table.bench.jobs.list()
    assert first.deliver == ChatAddress(channel="telegram", kind="direct", id="42")
    assert second.deliver is None


async def test_the_question_to_the_owner_shows_the_whole_job(table: Table) -> None:
    text = "line one\n" + "x" * 500
    act = await table.act(action="add", when="every day at 9", text=text, kind="task", name="daily")
    assert act is not None
    assert (act.kind, act.summary) == ("schedule", "set up the task “daily”")
    assert text in act.details
    assert "When: At 09:00 every day (Europe/Berlin)\nNext: Tue 24 Nov, 09:00 · " in act.details
    await table.done("add", when="every day at 9", text="old text", name="daily")
    (job,) = await table.bench.jobs.list()
    changed = await table.act(action="change", job="daily", text="new text", when="every day at 10")
    assert changed is not None
    assert changed.summary == f"change the reminder “daily” ({job.id})"
    for part in ("new text", "old text", "At 09:00", "At 10:00"):
        assert part in changed.details
    removed = await table.act(action="remove", job=job.id)
    assert removed is not None
    assert "old text" in removed.details


async def test_looking_is_never_asked_about_and_taking_away_ones_own_only_with_untrusted_text(table: Table) -> None:
    await table.done("add", "group", when="in 1 hour", text="meeting", name="m")
    assert await table.act(action="list") is None
    assert await table.act("group", action="log", job="m") is None
    assert await table.act("group", action="remove", job="m") is None
    assert await table.act("group", frozenset({"web:evil.example"}), action="remove", job="m") is not None
    assert await table.act("group", action="run", job="m") is not None
    assert await table.act(action="remove", job="m") is not None
    assert await table.act(action="remove", job="nosuch") is None


async def test_whatever_an_answer_repeats_of_a_job_of_others_is_fenced_and_taints(table: Table) -> None:
    taint = frozenset({"web:evil.example"})
    for text in ("EVIL one", "EVIL two"):
        add = {"action": "add", "when": "every 2h", "text": text, "kind": "task", "name": text}
        await table.tool.run(add, table.context(taint=taint))
    await table.done("add", when="every 2h", text="Water", name="water")
    one = next(job.id for job in await table.bench.jobs.list() if job.name == "EVIL one")
    for action in ("pause", "resume", "log", "run", "run", "nothing", "remove"):
        wanted = {"action": "remove", "job": "nosuch"} if action == "nothing" else {"action": action, "job": one}
        outcome = await table.tool.run(wanted, table.context())
        assert outcome.sources == ("web:evil.example",), outcome.text
    assert (await table.call("run", job="water")).sources == ()

    renamed = {"action": "change", "job": "water", "name": "EVIL name"}
    await table.tool.run(renamed, table.context(taint=taint))
    assert (await table.call("log", job="EVIL name")).sources == ("web:evil.example",)


async def test_text_that_was_written_with_untrusted_text_in_view_says_so_until_the_owner_approved_it(table: Table) -> None:
    taint = frozenset({"web:evil.example"})
    call = {"action": "add", "when": "every day at 9", "kind": "task"}
    await table.tool.run({**call, "text": "not shown"}, table.context(taint=taint))
    await table.tool.run({**call, "text": "shown"}, table.context(taint=taint, approved=True))
    await table.tool.run({**call, "text": "a guest's"}, table.context("guest", taint=taint, approved=True))
    sources = {job.text: job.sources for job in await table.bench.jobs.list()}
    assert sources == {"not shown": ("web:evil.example",), "shown": (), "a guest's": ("web:evil.example",)}
    listed = await table.call("list")
    assert listed.sources == ("web:evil.example",)


def test_the_tool_costs_at_most_260_tokens(bench: Bench) -> None:
    del bench
    assert Calibration().apply(weight_of_tools((Cron(None).spec,))) <= 260  # type: ignore[arg-type]


class Notebook:
    """A talk with the notebook, which has the tool."""

    def __init__(self, table: Table, who: str = "owner") -> None:
        self.table = table
        self.who = who
        self.box = Toolbox((table.tool,))
        self.messages: list[Message] = []

    async def say(self, text: str) -> str:
        now = self.table.bench.clock.now().astimezone(BERLIN)
        stamp = Text(text=f"[{now:%a %Y-%m-%d %H:%M %Z}]")
        self.messages.append(UserMessage(content=(stamp, Text(text=text)), at=now))
        for _ in range(4):
            _, reply = await hear(NotebookModel(chosen=True), ask(*self.messages, tools=self.box.specs))
            self.messages.append(reply)
            if not reply.calls:
                return reply.text
            self.messages += [await self.box.run(call, self.table.context(self.who)) for call in reply.calls]
        raise AssertionError("the notebook went on calling tools")


async def test_the_notebook_sets_lists_and_removes_reminders(table: Table) -> None:
    talk = Notebook(table)
    assert await talk.say("what reminders do I have?") == (
        "You have no reminders. “remind me tomorrow at 9 to water the plants” sets one."
    )
    said = await talk.say("remind me tomorrow at 9 to water the plants")
    (job,) = await table.bench.jobs.list()
    assert said == (
        f"⏰ Reminder “Water the plants” ({job.id}): Once, on Tue 24 Nov, 09:00 (Europe/Berlin). It goes to your latest chat."
    )
    assert "At 08:00 on Monday through Friday" in await talk.say("every weekday at 8 remind me to take the pills")
    assert (await talk.say("remind me at 9 to call Anna")).endswith(
        "09:00 is past for today, so I took tomorrow. If you meant 21:00 today, say so."
    )
    assert (await talk.say("my reminders")).splitlines() == [
        "Your reminders:",
        "",
        "1. “Take the pills” (reminder): At 08:00 on Monday through Friday, next Tue 24 Nov, 08:00",
        "2. “Water the plants” (reminder): Once, on Tue 24 Nov, 09:00",
        "3. “Call Anna” (reminder): Once, on Tue 24 Nov, 09:00",
        "",
        "“delete reminder 1” removes the first.",
    ]
    (pills,) = [one for one in await table.bench.jobs.list() if one.name == "Take the pills"]
    assert await talk.say("delete reminder 1") == f"Reminder “Take the pills” ({pills.id}) is removed."
    assert "is removed" in await talk.say("cancel the reminder to call Anna")
    assert (await talk.say("delete the reminder about the dentist")).startswith("There is no such reminder. There are:")
    assert (await talk.say("delete reminder")).startswith("Which one?")
    assert [one.name for one in await table.bench.jobs.list()] == ["Water the plants"]


async def test_the_notebook_keeps_as_a_note_what_has_no_time(table: Table, tmp_path: Path) -> None:
    (tmp_path / "home" / "memory").mkdir(parents=True)
    talk = Notebook(table)
    talk.box = Toolbox((table.tool, *file_tools(FileToolContext(sandbox=WorkspaceSandbox(tmp_path / "home"), memory=None))))
    assert await talk.say("remind me to buy milk") == (
        "Noted in `memory/2026-11-23.md`: “To buy milk”. "
        "Say when to remind you of it, too, such as “tomorrow at 9” or “every first Monday at 9”."
    )
    assert (await talk.say("remind me at 25 to leave")).endswith(
        "I do not understand when that is. Say it like “tomorrow at 9”, “on 24 December at 18:00” or “every weekday at 8”."
    )
    assert await table.bench.jobs.list() == []


async def test_a_reminder_of_the_notebook_is_sent_without_a_model(table: Table) -> None:
    await Notebook(table).say("remind me in 20 minutes to take the bread out")
    await table.bench.until(timedelta(minutes=21))
    assert await table.bench.sent() == ["⏰ Take the bread out"]


async def test_a_wish_that_waits_for_the_owner_is_answered_when_it_is_decided(table: Table) -> None:
    for decision, said in (
        (
            "the owner approved it. Result of cron (set up the reminder “Tea”):]\nReminder “Tea” (abcde): Once.",
            "⏰ Reminder “Tea” (abcde): Once.",
        ),
        (
            "the owner denied it. It was not run: set up the reminder “Tea”]",
            "I could not set the reminder: the owner denied it.",
        ),
    ):
        talk = Notebook(table, "guest")
        now = table.bench.clock.now().astimezone(BERLIN)
        talk.messages.append(
            UserMessage(content=(Text(text=f"[{now:%a %Y-%m-%d %H:%M %Z}]"), Text(text="remind me in 1 hour of tea")), at=now)
        )
        _, reply = await hear(NotebookModel(chosen=True), ask(*talk.messages, tools=talk.box.specs))
        (call,) = reply.calls
        waiting = structs.replace(
            await talk.box.run(structs.replace(call, name="x"), table.context("guest")),
            name="cron",
            is_error=False,
            details={"approval": "k7"},
        )
        outcome = UserMessage(content=(Text(text=f"[Approval #k7: {decision}"),), at=now, runtime=True)
        _, answered = await hear(NotebookModel(chosen=True), ask(*talk.messages, reply, waiting, outcome, tools=talk.box.specs))
        assert answered.text == said
        _, meanwhile = await hear(NotebookModel(chosen=True), ask(*talk.messages, reply, waiting, tools=talk.box.specs))
        assert "owner's approval" in meanwhile.text
        _, later = await hear(
            NotebookModel(chosen=True), ask(*talk.messages, reply, waiting, meanwhile, outcome, tools=talk.box.specs)
        )
        assert later.text in {"Reminder “Tea” (abcde): Once.", "the owner denied it."}


@given(st.text(min_size=1, max_size=300))
def test_any_text_gives_a_name_that_a_job_may_have(text: str) -> None:
    name = name_for(text)
    assert name.strip()
    assert name.isprintable()
    assert len(name) <= LONGEST_NAME


def test_a_call_of_the_notebook_is_one_that_the_tool_takes() -> None:
    """The notebook writes the arguments by hand, so that a renamed one would be refused."""
    call = ToolCall(id="", name="cron", arguments={"action": "add", "kind": "reminder", "when": "in 1 hour", "text": "x"})
    assert Cron(None).checked(json.loads(json.dumps(call.arguments))) is not None  # type: ignore[arg-type]
