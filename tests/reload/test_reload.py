"""Settings that are changed while the house runs: what holds at once, what waits, what is refused, and who is told."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from agent.events import TextDelta
from agent.models.scripted import Stall
from channels.messages import ChatAddress, Inbound, Sender
from gateway.app.reload import EMPTY_SECONDS
from gateway.base.clock import SystemClock
from gateway.config.settings_file import copy_of
from gateway.logs.log_setup import configure
from gateway.logs.redaction import Redactor
from gateway.settings.root import LoggingSettings
from tests.patience import PATIENCE
from tests.reload.place import Place, ask, homebody, listening, until

if TYPE_CHECKING:
    from channels.protocol import InboundSink
    from gateway.app.gateway import Gateway


async def test_the_next_turn_has_another_model_other_tools_and_other_limits(place: Place) -> None:
    async with place.open() as house:
        assert await ask(house, "hello") == "scripted/one"
        place.write(
            {"agents": {"defaults": {"model": "scripted/two", "tools": {"profile": "minimal"}, "promptMode": "minimal"}}}
        )
        came = await house.reload.now()
        assert came["waiting"] == []
        assert came["taken"] == ["agents.defaults.model", "agents.defaults.promptMode", "agents.defaults.tools.profile"]
        assert await ask(house, "hello again") == "scripted/two"
    request = place.models["scripted/two"].requests[0]
    assert [tool.name for tool in request.tools] == ["memory_get", "memory_search"]


async def test_a_turn_under_way_keeps_what_it_began_with(place: Place) -> None:
    gate = asyncio.Event()
    place.models["scripted/one"].reply_with(lambda _: [Stall(gate), TextDelta("slow")])
    async with place.open() as house:
        slow = asyncio.ensure_future(ask(house, "take your time"))
        await until(lambda: bool(place.models["scripted/one"].requests))
        [conversation] = house.agents["main"].conversations
        settings, toolbox, model = conversation.settings, conversation.toolbox, conversation.model
        place.write({"agents": {"defaults": {"model": "scripted/two", "tools": {"deny": ["write"]}}}})
        await house.reload.now()
        assert "Context" in await ask(house, "/status")
        assert (conversation.settings, conversation.toolbox, conversation.model) == (settings, toolbox, model)
        gate.set()
        assert await slow == "slow"
        assert await ask(house, "and now?") == "scripted/two"
        assert conversation.settings is not settings


async def test_a_reset_rule_that_was_changed_is_kept_to_by_the_schedule(place: Place) -> None:
    place.write({"session": {"reset": {"mode": "none"}}})
    async with place.open() as house:
        await ask(house, "hello")
        await house.schedule.tick()
        place.write({"session": {"reset": {"mode": "idle", "idleMinutes": 5}}})
        await house.reload.now()
        first = house.agents["main"].store.get("agent:main:main").session
        place.clock.move(3600)
        await house.schedule.tick()
        await house.lanes.quiet()
        assert house.agents["main"].store.get("agent:main:main").session != first


async def test_a_budget_that_is_used_up_withholds_the_next_message(place: Place) -> None:
    async with place.open() as house:
        assert await ask(house, "hello") == "scripted/one"
        place.write({"budgets": {"day": {"tokens": 1}}})
        await house.reload.now()
        assert "budget" in await ask(house, "once more")


async def test_what_waits_for_a_restart_stays_as_it_is_and_is_told_once(place: Place) -> None:
    async with place.open() as house:
        said = listening(house)
        place.write({"gateway": {"port": 4321, "bind": "lan"}, "agents": {"defaults": {"maxConcurrent": 3}}})
        came = await house.reload.now()
        waits = ["agents.defaults.maxConcurrent", "gateway.port", "gateway.bind"]
        assert (came["taken"], came["waiting"]) == ([], waits)
        assert house.settings.current.gateway.port == 0
        assert house.settings.current.agents.defaults.max_concurrent == 32
        assert (await house.status.status())["settings"] == {"waiting": waits, "complaint": None}
        await house.reload.now()
        assert said == [f"⚙️ The settings were changed. These take effect after a restart: {', '.join(waits)}."]
        place.write({})
        assert (await house.reload.now())["waiting"] == []


async def test_a_file_that_cannot_be_used_changes_nothing_and_is_told_once(place: Place) -> None:
    async with place.open() as house:
        said = listening(house)
        former = house.settings.current
        for broken in ("agents: {defaults: {model: [}\n", "session: {reset: {atHour: 99}}\nbudgets: 7\n"):
            place.file.write_text(broken)
            came = await house.reload.now()
            assert came["taken"] == []
            assert house.settings.current is former
        assert "session.reset.atHour" in came["complaint"]
        [told] = said
        assert "is not valid YAML" in told
        assert "`homebody config validate`" in told
        place.write({"agents": {"defaults": {"model": "scripted/two"}}})
        assert (await house.reload.now())["complaint"] is None
        assert await ask(house, "hello") == "scripted/two"
        place.file.write_text("x: [")
        await house.reload.now()
        assert len(said) == 2, "a new mistake is told again"


async def test_a_file_that_is_gone_or_empty_for_a_moment_is_waited_for(place: Place) -> None:
    place.write({"agents": {"defaults": {"model": "scripted/two"}}})
    async with place.open() as house:
        text = place.file.read_text()
        place.file.write_text("")
        reading = asyncio.ensure_future(house.reload.now())
        await until(lambda: place.clock.monotonic() + EMPTY_SECONDS in place.clock.alarms)
        place.file.write_text(text)
        place.clock.move(1)
        assert (await reading)["taken"] == []
        place.file.unlink()
        reading = asyncio.ensure_future(house.reload.now())
        await until(lambda: place.clock.monotonic() + EMPTY_SECONDS in place.clock.alarms)
        place.clock.move(1)
        assert "the settings file is missing" in (await reading)["complaint"]
        assert await ask(house, "hello") == "scripted/two"


@pytest.mark.parametrize("emptied", ["", "\n \n"])
async def test_an_emptied_file_is_a_broken_one_and_the_old_settings_stay(place: Place, emptied: str) -> None:
    place.write({"agents": {"defaults": {"model": "scripted/two"}}})
    async with place.open() as house:
        await house.reload.now()
        kept = copy_of(place.file, place.paths)
        place.file.write_text(emptied)
        reading = asyncio.ensure_future(house.reload.now())
        await until(lambda: place.clock.monotonic() + EMPTY_SECONDS in place.clock.alarms)
        place.clock.move(1)
        complaint = (await reading)["complaint"]
        assert "the settings file is empty" in complaint
        assert f"Restore it from {kept};" in complaint
        assert "scripted/two" in kept.read_text()
        assert await ask(house, "hello") == "scripted/two"
        place.write({"agents": {"defaults": {"model": "scripted/one"}}})
        assert (await house.reload.now())["complaint"] is None


async def test_a_change_of_the_file_is_noticed(place: Place) -> None:
    async with place.open(clock=SystemClock()) as house:
        watching = asyncio.ensure_future(house.reload.watch())
        async with asyncio.timeout(PATIENCE):
            while house.settings.current.agents.defaults.model != "scripted/two":
                place.write({"agents": {"defaults": {"model": "scripted/two"}}})  # until the watch stands
                await asyncio.sleep(0.5)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        assert await ask(house, "hello") == "scripted/two"


async def test_a_change_is_noticed_after_a_file_name_that_is_not_utf8(place: Place) -> None:
    async with place.open(clock=SystemClock()) as house:
        watching = asyncio.ensure_future(house.reload.watch())
        async with asyncio.timeout(PATIENCE):
            for model in ("scripted/two", "scripted/one"):
                while house.settings.current.agents.defaults.model != model:
                    place.write({"agents": {"defaults": {"model": model}}})  # until the watch stands
                    await asyncio.sleep(0.5)
                (place.file.parent / os.fsdecode(b"stra\xdfe.md")).write_text("x")
                await asyncio.sleep(0.5)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def test_a_hang_up_has_the_file_read(place: Place) -> None:
    async with place.open() as house:
        place.write({"agents": {"defaults": {"model": "scripted/two"}}})
        house.reload.soon()
        await until(lambda: house.settings.current.agents.defaults.model == "scripted/two")
        assert await ask(house, "hello") == "scripted/two"


def test_the_level_of_the_logs_and_new_secrets_hold_at_once(place: Place) -> None:
    with configure(LoggingSettings(level="warn"), place.paths, Redactor(), console=False) as logs:
        logging.getLogger("gateway.x").info("before")
        logs.adopt(LoggingSettings(level="debug"))
        logs.learn(["swordfish"])
        logging.getLogger("gateway.x").debug("now with swordfish")
    lines = (place.paths.logs / "homebody.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["now with [secret]"]


async def test_a_platform_is_connected_anew_when_its_section_changes_and_the_others_stay(place: Place, pigeons: Any) -> None:
    async with place.open(serving=True, clock=SystemClock()) as house:
        terminal = house.channel_supervisor["terminal:default"]
        await _write(place, house, {"allowFrom": ["anna"], "settings": {"loft": "north"}})
        await until(lambda: pigeons.running == ["north"])
        north = house.channel_supervisor["pigeon:default"].channel
        await _arrive(north.door, "anna", "hello")
        await until(lambda: pigeons.sent == [("north", "scripted/one")])

        await _write(place, house, {"allowFrom": ["ben"], "dmPolicy": "allowlist", "settings": {"loft": "south"}})
        await until(lambda: pigeons.running == ["south"])
        south = house.channel_supervisor["pigeon:default"].channel
        await _arrive(south.door, "anna", "still here?")
        await _arrive(south.door, "ben", "hello")
        await until(lambda: len(pigeons.sent) == 2)
        assert pigeons.sent[-1] == ("south", "scripted/one"), "Anna is heard no more, Ben is"

        place.write({})
        await house.reload.now()
        await until(lambda: pigeons.running == [])
        assert set(house.channel_supervisor) == {"terminal:default"}
        assert house.channel_supervisor["terminal:default"] is terminal
        assert await ask(house, "hello") == "scripted/one"


async def test_a_channel_that_is_not_installed_is_a_complaint_and_changes_nothing(place: Place, pigeons: Any) -> None:
    async with place.open(serving=True, clock=SystemClock()) as house:
        await _write(place, house, {"settings": {"loft": "north"}})
        await until(lambda: pigeons.running == ["north"])
        place.write({"channels": {"plugins": {"ostrich": {}}}, "budgets": {"day": {"usd": 1}}})
        assert "ostrich" in (await house.reload.now())["complaint"]
        assert pigeons.running == ["north"]
        assert house.settings.current.budgets.day.usd == 5


async def test_a_channel_that_cannot_be_made_or_closed_leaves_the_house_as_it_is(place: Place, pigeons: Any) -> None:
    async with place.open(serving=True, clock=SystemClock()) as house:
        await _write(place, house, {"settings": {"loft": "cursed"}})
        await until(lambda: pigeons.running == ["cursed"])
        place.write({"channels": {"plugins": {"pigeon": {"settings": {"loft": ""}}}}})
        assert "no loft is named" in (await house.reload.now())["complaint"]
        assert pigeons.running == ["cursed"]
        await _write(place, house, {"settings": {"loft": "north"}})
        await until(lambda: pigeons.running == ["north"])
        assert await ask(house, "hello") == "scripted/one"
        await _write(place, house, {"settings": {"loft": "cursed"}})
        await until(lambda: pigeons.running == ["cursed"])
    assert pigeons.running == [], "nor does it keep the house from closing"


async def _write(place: Place, house: Gateway, plugin: dict[str, Any]) -> None:
    place.write({"channels": {"plugins": {"pigeon": plugin}}})
    assert (await house.reload.now())["complaint"] is None


async def _arrive(door: InboundSink, sender: str, text: str) -> None:
    inbound = Inbound(
        conversation=ChatAddress(channel="pigeon", account="default", kind="direct", id=sender),
        sender=Sender(id=sender),
        text=text,
        at=datetime.now(UTC),
        key=f"{sender}-{text}",
        alias=f"{sender}-{text}",
        message_id=text,
    )
    await door.accept([inbound])


async def test_a_command_is_told_what_the_watch_took_over_before_it_asked(place: Place) -> None:
    async with place.open() as house:
        place.write({"agents": {"defaults": {"model": "scripted/two"}}})
        house.reload.soon()
        await until(lambda: house.settings.current.agents.defaults.model == "scripted/two")
        assert (await house.reload.for_command())["taken"] == ["agents.defaults.model"]
        assert (await house.reload.for_command())["taken"] == []


async def test_setting_a_key_says_what_the_running_gateway_made_of_it(place: Place) -> None:
    async with place.open(serving=True, clock=SystemClock()) as house:
        told = await homebody(place, "config", "set", "agents.defaults.model", "scripted/two")
        assert told == "agents.defaults.model was set. Applied in the running gateway: agents.defaults.model.\n"
        assert await ask(house, "hello") == "scripted/two"
        told = await homebody(place, "config", "set", "gateway.port", "4321")
        assert told == "gateway.port was set. Takes effect when the gateway restarts: gateway.port.\n"
        assert "settings that take effect after a restart: gateway.port" in await homebody(place, "status")


async def test_a_model_that_may_not_be_chosen_cannot_be_had_by_a_hint_either(place: Place) -> None:
    place.write({"agents": {"defaults": {"models": {"scripted/one": {"alias": "first"}}}}})
    async with place.open() as house:
        told = await ask(house, "hello", model="scripted/two")
        assert "scripted/two is not among the models that may be chosen here." in told
        assert "There is: scripted/one" in told
        assert not place.models["scripted/two"].requests
        assert await ask(house, "hello there", model="first") == "scripted/one"
        assert "No model answers to 'nonesuch'" in await ask(house, "and", model="nonesuch")
