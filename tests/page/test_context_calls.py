"""What fills a window: past calls, the prompt of each, and what the next flush would keep."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from agent.context.past_prompt import message_text
from agent.messages import ToolCall
from gateway.base.errors import UsageError
from gateway.cli.click_commands import homebody
from tests.gateway.conftest import street

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent.models.protocol import Request
    from gateway.app.gateway import Gateway
    from tests.gateway.conftest import Street

__all__ = ["street"]
SUMMARY = (
    "## Exact details\nMy locker number 0 is 007, number 1 is 117, number 2 is 227; some more words were said.\n"
    "## Decisions\nPlease remember the locker numbers, some more words and no others."
)


async def call(house: Gateway, name: str, **arguments: Any) -> dict[str, Any]:
    found: dict[str, Any] = await house.calls()[name](**arguments)
    return found


def calls_of(history: dict[str, Any]) -> list[dict[str, Any]]:
    return [point for point in history["points"] if point["kind"] == "call"]


def answer(request: Request) -> str:
    if not request.background:
        return f"Answer {len(request.messages)}."
    asked = message_text(request.messages[-1])
    return "NO_REPLY" if "[Memory flush]" in asked else SUMMARY


async def whole(house: Gateway, name: str) -> dict[str, Any]:
    """Read a prompt page by page, and every cut part whole."""
    found = await call(house, "context.prompt", call=name)
    while len(found["parts"]) < found["count"]:
        found["parts"] += (await call(house, "context.prompt", call=name, offset=len(found["parts"])))["parts"]
    for part in found["parts"]:
        if part["chars"] > len(part["text"]):
            part["text"] = (await call(house, "context.prompt", call=name, part=part["n"]))["parts"][0]["text"]
    return found


async def test_each_past_prompt_is_what_the_model_was_sent(street: Callable[..., Street]) -> None:
    here = street()
    (here.root / "workspace").mkdir()
    (here.root / "workspace" / "long.txt").write_text("a line\n" * 5000)
    async with here.house() as (house, talk):
        here.model.then("Hello!", ToolCall(id="c1", name="read", arguments={"path": "long.txt"}), "It has many lines.", "Bye.")
        for text in ("hello", "read long.txt", "thanks"):
            await talk.ask(text)
        await talk.ask("/pin never before nine")
        here.model.then("Noted.")
        await talk.ask("and now?")
        points = calls_of(await call(house, "context.history"))
        assert len(points) == len(here.model.requests) == 5
        for point, request in zip(points, here.model.requests, strict=True):
            found = await whole(house, point["call"])
            assert found["exact"] == "yes"
            assert not found["gone"]
            shown = [part["text"] for part in found["parts"] if part["kind"] not in {"tools", "instructions"}]
            assert shown == [message_text(message) for message in request.messages]
            system = [part["text"] for part in found["parts"] if part["kind"] == "instructions"]
            assert system == [segment.text for segment in request.system]
            assert sum(part["tokens"] for part in found["parts"]) == pytest.approx(point["tokens"], abs=len(found["parts"]))
            assert sum(point["parts"].values()) == point["tokens"]


async def test_a_prompt_says_which_instructions_have_changed_since(street: Callable[..., Street]) -> None:
    here = street()
    async with here.house() as (house, talk):
        here.model.then("One.", "Two.")
        await talk.ask("first")
        agents = here.workspace / "AGENTS.md"
        agents.write_text(agents.read_text() + "\nSpeak briefly.\n")
        here.clock.move(3601)  # what the provider keeps for an hour is gone, so the prompt is made anew
        await talk.ask("second")
        first, second = calls_of(await call(house, "context.history"))
        old, new = await whole(house, first["call"]), await whole(house, second["call"])
        assert (old["exact"], new["exact"]) == ("changed", "yes")
        assert [part["name"] for part in old["parts"] if part["exact"] == "changed"] == ["AGENTS.md"]
        assert [part["exact"] for part in old["parts"] if part["kind"] == "people"] == ["yes"]


async def test_a_prompt_is_the_same_after_a_restart_and_in_the_former_session(street: Callable[..., Street]) -> None:
    here = street()
    async with here.house() as (house, talk):
        here.model.then("One.", "Two.")
        await talk.ask("first")
        await talk.ask("second")
        before = [await whole(house, point["call"]) for point in calls_of(await call(house, "context.history"))]
    async with here.house() as (house, talk):
        after = [await whole(house, point["call"]) for point in calls_of(await call(house, "context.history"))]
        assert [[part["text"] for part in one["parts"]] for one in after] == [
            [part["text"] for part in one["parts"]] for one in before
        ]
        here.model.then("NO_REPLY", "Fresh.")
        await talk.ask("/new")
        await talk.ask("third")
        history = await call(house, "context.history")
        assert [one["kind"] for one in history["points"]].count("reset") == 2
        former = (await whole(house, before[1]["call"]))["parts"]
        assert [part["text"] for part in former if part["kind"] == "people"] == [
            part["text"] for part in before[1]["parts"] if part["kind"] == "people"
        ]


async def test_compactions_and_flushes_are_marked_and_the_prompts_around_them_are_right(street: Callable[..., Street]) -> None:
    here = street()
    async with here.house() as (house, talk):
        here.model.reply_with(answer)
        for n in range(6):
            await talk.ask(f"My locker number {n} is {n}{n}7, remember it please. " + "Some more words. " * 150)
        assert "complete" in (await talk.ask("/compact"))["reply"]
        asked = len(here.model.requests)
        await talk.ask("what did I say?")
        history = await call(house, "context.history")
        kinds = [one["kind"] for one in history["points"]]
        assert kinds.index("flush") < kinds.index("compaction") < len(kinds) - 1
        (mark,) = (one for one in history["points"] if one["kind"] == "compaction")
        assert mark["before"] > mark["after"] > 0
        last = calls_of(history)[-1]
        assert "summary" in last["parts"]
        found = await whole(house, last["call"])
        shown = [part["text"] for part in found["parts"] if part["kind"] not in {"tools", "instructions"}]
        assert shown == [message_text(message) for message in here.model.requests[asked].messages]


async def test_what_the_next_flush_would_keep_is_what_it_then_keeps(street: Callable[..., Street]) -> None:
    here = street()
    async with here.house() as (house, talk):
        here.model.then("Good to know.", "Fine.")
        await talk.ask("My sister Ada lives in Lisbon since 2019.")
        before = await call(house, "context.flush")
        assert before["obstacle"] == ""
        (group,) = before["byRule"]
        assert list(group["sentences"]) == ["My sister Ada lives in Lisbon since 2019."]
        assert before["note"] == group["note"] == "memory/2026-03-01.md"
        assert here.notes() == "", "a preview writes nothing"
        here.model.then("NO_REPLY")
        await talk.ask("/new")
        assert group["sentences"][0] in here.notes()
        here.model.then("Hi.")
        await talk.ask("hi")
        assert (
            "said anything" in (await call(house, "context.flush"))["obstacle"]
            or "too little" in (await call(house, "context.flush"))["obstacle"]
        )


async def test_what_is_not_there_is_said(street: Callable[..., Street]) -> None:
    here = street()
    async with here.house() as (house, talk):
        with pytest.raises(UsageError, match="no session"):
            await call(house, "context.history")
        here.model.then("Hello.")
        await talk.ask("hello")
        with pytest.raises(UsageError, match="no call of this session"):
            await call(house, "context.prompt", call="nothing:7")
        with pytest.raises(UsageError, match="agent"):
            await call(house, "context.history", agent="nobody")


def test_the_command_shows_the_same_without_a_gateway(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "homebody.yaml").write_text(f"agents: {{defaults: {{workspace: {tmp_path / 'ws'}}}}}\n")

    def ran(*arguments: str) -> str:
        result = CliRunner().invoke(homebody, ["--home", str(home), *arguments], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    ran("agent", "-m", "My locker number is 4711.")
    points = json.loads(ran("context", "--history", "--json"))["points"]
    (name,) = [point["call"] for point in points if point["kind"] == "call"][-1:]
    assert name in ran("context", "--history")
    told = ran("context", "--prompt", name)
    assert "This is what was sent." in told
    assert "My locker number is 4711." in told
    assert json.loads(ran("context", "--prompt", name, "--json"))["exact"] == "yes"
    assert "[Memory flush]" in ran("context", "--flush")
    assert "budgets.day.usd" in ran("usage", "--budgets")
    assert "No model" in ran("usage", "--longer-cache")
    both = CliRunner().invoke(homebody, ["--home", str(home), "context", "--flush", "--history"])
    assert both.exit_code != 0
