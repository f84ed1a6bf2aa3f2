"""A task or a webhook whose answer others read knows only what they may know, whoever set it up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from channels.messages import ChatAddress
from gateway.base.errors import UsageError
from gateway.hooks.refusal import HookRefused
from tests.patience import PATIENCE
from tests.peers.phone import Village

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent.models.protocol import Request
    from gateway.app.gateway import Gateway

ANNA = ChatAddress(channel="phone", kind="direct", id="anna")
BEN = ChatAddress(channel="phone", kind="direct", id="ben")
CLUB = ChatAddress(channel="phone", kind="group", id="club")
STRANGER = ChatAddress(channel="phone", kind="direct", id="anan")
NOTE, TALK = "CANARY-NOTE", "CANARY-TALK"


def known(request: Request) -> str:
    whole = " ".join([*(one.text for one in request.system), *(one.text for one in request.messages)])
    return "knows: " + " ".join(canary for canary in (NOTE, TALK) if canary in whole)


async def settled(house: Gateway) -> None:
    await house.lanes.quiet()
    await house.delivery.settled()


async def until(done: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not done():  # noqa: ASYNC110  (nobody announces it)
            await asyncio.sleep(0.01)


def village(tmp_path: Path) -> Village:
    found = Village(tmp_path)
    found.model.reply_with(known)
    return found


async def begin(house: Gateway, phone: Any) -> None:
    """The owner, a guest and a group write; the owner's notes and conversation hold something private."""
    agent = house.agents["main"]
    await asyncio.to_thread((agent.workspace.root / "MEMORY.md").write_text, f"{NOTE}\n")
    await phone.say(f"my private talk: {TALK}")
    await phone.say("hello", by="ben")
    await phone.say("hello", by="ben", group="club")
    await settled(house)
    phone.sent.clear()


async def job(house: Gateway, **given: Any) -> str:
    made = await house.automation.calls()["jobs.add"](when="in 20 minutes", text="What is new?", kind="task", **given)
    return str(made["job"]["id"])


async def later(house: Gateway, town: Village) -> None:
    town.clock.move(21 * 60)
    await house.schedule.tick()
    await settled(house)


@pytest.mark.parametrize("place", [BEN, CLUB])
async def test_a_task_for_others_has_nothing_of_the_owners_in_view(tmp_path: Path, place: ChatAddress) -> None:
    town = village(tmp_path)
    async with town.house() as (house, phone):
        await begin(house, phone)
        await job(house, to=place.address)
        await later(house, town)
        await until(lambda: phone.sent)
        assert [(one.conversation.id, one.text) for one in phone.sent] == [(place.id, "knows: ")]
        with pytest.raises(UsageError, match="main conversation cannot be answered to others"):
            await job(house, to=place.address, session="main")


async def test_a_task_for_the_owner_knows_what_the_owner_knows(tmp_path: Path) -> None:
    town = village(tmp_path)
    async with town.house() as (house, phone):
        await begin(house, phone)
        await job(house, to=ANNA.address, session="main")
        await later(house, town)
        await until(lambda: phone.sent)
        assert [(one.conversation.id, one.text) for one in phone.sent] == [("anna", f"knows: {NOTE} {TALK}")]


async def test_a_task_that_was_stored_earlier_for_others_in_the_main_conversation_is_paused_and_told(tmp_path: Path) -> None:
    town = village(tmp_path)
    async with town.house() as (house, phone):
        await begin(house, phone)
        name = await job(house)
        stored = await house.automation.jobs.find(name)
        await house.ledger.jobs.change(replace(stored, deliver=CLUB, session="main"))
        with pytest.raises(UsageError, match="cannot be answered to others"):
            await house.automation.jobs.run_now(name)
        await later(house, town)
        await until(lambda: phone.sent)
        (told,) = phone.sent
        assert told.conversation.id == "anna"
        assert "is paused: your main conversation cannot be answered to others" in told.text
        assert f"homebody cron change {name} --session isolated" in told.text
        assert (await house.automation.jobs.find(name)).state == "paused"


async def test_nobody_is_written_to_by_a_mistyped_address(tmp_path: Path) -> None:
    town = village(tmp_path)
    async with town.house() as (house, phone):
        await begin(house, phone)
        calls = house.automation.calls()
        for kind in ("task", "reminder"):
            with pytest.raises(UsageError, match="nobody who may speak to your agent"):
                await calls["jobs.add"](when="in 20 minutes", text="x", kind=kind, to=STRANGER.address)
        made = await calls["jobs.add"](when="in 20 minutes", text="x", to=BEN.address)
        with pytest.raises(UsageError, match="nobody who may speak to your agent"):
            await calls["jobs.change"](made["job"]["id"], to=STRANGER.address)
        with pytest.raises(UsageError, match="nobody who may speak to your agent"):
            await calls["hooks.add"]("bell", message="ding", deliver=STRANGER.address)
        await calls["hooks.add"]("bell", message="ding", deliver=BEN.address)


async def test_a_webhook_does_not_answer_a_guest_in_the_main_conversation(tmp_path: Path) -> None:
    town = village(tmp_path)
    async with town.house() as (house, phone):
        await begin(house, phone)
        calls, receiver = house.automation.calls(), house.automation.hooks.receiver
        with pytest.raises(UsageError, match="main conversation cannot be answered to others"):
            await calls["hooks.add"]("mg", instruction="Say it.", session="main", deliver=BEN.address)
        made = await calls["hooks.add"]("mg", instruction="Say it.", session="main", deliver=ANNA.address)
        with pytest.raises(UsageError, match="main conversation cannot be answered to others"):
            await calls["hooks.change"]("mg", deliver=BEN.address)
        (hook,) = await house.ledger.hooks.all()  # as an earlier version stored it
        await house.ledger.hooks.change(replace(hook, rules=replace(hook.rules, deliver=BEN.address)))
        receiver.changed()
        for _ in range(2):
            given = [(b"authorization", f"Bearer {made['token']}".encode()), (b"content-type", b"text/plain")]
            with pytest.raises(HookRefused, match="cannot be answered to others") as refused:
                await receiver.take(await receiver.admit("mg", given, "127.0.0.1"), b"ring")
            assert refused.value.status == 409
        await until(lambda: phone.sent)
        await settled(house)
        (told,) = phone.sent
        assert told.conversation.id == "anna"
        assert "homebody hooks change mg --session isolated" in told.text
        await calls["hooks.change"]("mg", session="isolated")
        await receiver.take(await receiver.admit("mg", given, "127.0.0.1"), b"ring")
        await until(lambda: len(phone.sent) == 2)
        assert (phone.sent[1].conversation.id, phone.sent[1].text) == ("ben", "knows: ")
