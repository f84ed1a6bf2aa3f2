"""What a provider's prompt cache holds stays as it is from turn to turn, whatever happens in the house between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from agent.context.prefix import parting
from agent.messages import ToolCall
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agent.models.scripted import ScriptedModel
    from gateway.app.gateway import Gateway
    from tests.gateway.conftest import Street, Talk

    Make = Callable[..., Street]
    Between = Callable[[Street, Gateway, Talk], Awaitable[Any]]


def unbroken(model: ScriptedModel) -> None:
    """Fail, and name the segment, where a request does not go on from the one before it."""
    for number, (former, now) in enumerate(zip(model.requests, model.requests[1:], strict=False), 2):
        found = parting(former, now)
        assert found is None, f"request {number} parts from the one before in {found}"


async def nothing(_street: Street, _house: Gateway, _talk: Talk) -> None:
    return


async def commands(_street: Street, _house: Gateway, talk: Talk) -> None:
    for command in ("/status", "/context detail", "/tools", "/whoami", "/why", "/usage", "/help", "/verbose on"):
        await talk.ask(command)


async def midnight(street: Street, _house: Gateway, _talk: Talk) -> None:
    street.clock.move(3600 * 14.9)


async def a_note(street: Street, _house: Gateway, _talk: Talk) -> None:
    (street.workspace / "memory" / "2026-03-01.md").write_text("# By hand\n\nThe shed is red.\n")
    (street.workspace / "letters.md").write_text("To whom it may concern\n")


async def a_prompt_file(street: Street, _house: Gateway, _talk: Talk) -> None:
    (street.workspace / "SOUL.md").write_text((street.workspace / "SOUL.md").read_text() + "Be brief.\n")


async def settings(_street: Street, house: Gateway, _talk: Talk) -> None:
    agent = house.agents["main"]
    agent.adopt(house.settings.current, set())


@parametrize_some(
    3, "between", [nothing, commands, midnight, a_note, a_prompt_file, settings], ids=lambda between: between.__name__
)
async def test_every_request_of_a_session_goes_on_from_the_one_before(street: Make, between: Between) -> None:
    s = street(session={"reset": {"mode": "none"}})
    s.model.reply_with(lambda _: "ok")
    async with s.house() as (house, talk):
        await talk.ask("first")
        await between(s, house, talk)
        s.model.then(ToolCall(id="c1", name="list", arguments={}), "done")
        await talk.ask("look around")
        await between(s, house, talk)
        await talk.ask("third")
    assert len(s.model.requests) == 4
    unbroken(s.model)


async def test_a_restart_is_no_change_either(street: Make) -> None:
    s = street()
    s.model.reply_with(lambda _: "ok")
    for text in ("first", "second"):
        async with s.house() as (_, talk):
            await talk.ask(text)
            await talk.ask(f"{text} again")
    unbroken(s.model)


async def test_a_file_that_all_sessions_are_given_is_named_when_it_changes(street: Make) -> None:
    s = street()
    s.model.reply_with(lambda _: "ok")
    async with s.house() as (_, talk):
        await talk.ask("first")
        (s.workspace / "SOUL.md").write_text("Be brief.\n")
        s.clock.move(3601)  # what the provider keeps for an hour is gone
        await talk.ask("second")
    with pytest.raises(AssertionError, match=r"request 2 parts from the one before in system text: SOUL\.md"):
        unbroken(s.model)


async def test_tools_that_change_are_named_too(street: Make) -> None:
    s = street()
    s.model.reply_with(lambda _: "ok")
    async with s.house() as (house, talk):
        await talk.ask("first")
        house.agents["main"].conversations.rack.adopt([])
        await talk.ask("second")
    with pytest.raises(AssertionError, match="parts from the one before in tools"):
        unbroken(s.model)
