"""Groups on Telegram: when the agent answers, its welcome, and model and language of a group's own."""

from __future__ import annotations

import asyncio
import re
import shlex
from typing import TYPE_CHECKING, Any, cast

import pytest
import yaml

from agent.models.scripted import ScriptedModel
from gateway.cli import main
from tests.gateway.test_telegram_house import ANNA, BEN, BOT, FAMILY, Home
from tests.peers.telegram import TelegramPeer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from agent.models.protocol import Request
    from gateway.ledger.rows import Role

OTHER = -1001234567891
RULES: dict[int, Any] = {FAMILY: {"allowFrom": [ANNA, BEN]}}


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    async with TelegramPeer(local=True) as peer:
        peer.chats.group(FAMILY)
        peer.chats.group(OTHER, "Neighbours")
        yield Home(tmp_path, peer)


async def test_an_owner_chooses_when_it_answers_and_it_holds_after_a_restart(home: Home) -> None:
    home.peer.chats.admins.add((FAMILY, 1000))
    async with home.lived_in(groups=RULES):
        await home.peer.say(BEN, "nobody is asked", name="Ben", chat=FAMILY)
        await home.peer.say(BEN, f"/activation{BOT} always", name="Ben", chat=FAMILY)
        assert (await home.says(1, FAMILY))[0].startswith("Only my owner or an administrator of this group")
        await home.peer.say(ANNA, f"/activation{BOT} always", name="Anna", chat=FAMILY)
        assert (await home.says(2, FAMILY))[1].startswith("Done. Activation here is always, chosen by Anna on ")
        await home.peer.say(BEN, "without a name", name="Ben", chat=FAMILY)
        assert (await home.says(3, FAMILY))[2] == "re: without a name"
    async with home.lived_in(groups=RULES):
        await home.peer.say(BEN, "and still", name="Ben", chat=FAMILY)
        assert (await home.says(4, FAMILY))[3] == "re: and still"
        await home.peer.say(ANNA, f"/status{BOT}", name="Anna", chat=FAMILY)
        assert "Activation: always (chosen by Anna on " in (await home.says(5, FAMILY))[4]
        await home.peer.say(ANNA, f"/activation{BOT} default", name="Anna", chat=FAMILY)
        assert (await home.says(6, FAMILY))[5].startswith("Done. Activation here is mention, as the settings say")
        await home.peer.say(BEN, "not for you", name="Ben", chat=FAMILY)
        await home.peer.say(BEN, f"{BOT} for you", name="Ben", chat=FAMILY)
        assert (await home.says(7, FAMILY))[6] == "re: for you"


async def test_where_it_is_off_it_keeps_nothing_until_an_administrator_turns_it_on(home: Home) -> None:
    home.peer.chats.admins.add((FAMILY, BEN))
    async with home.lived_in(groups=RULES):
        await home.peer.say(BEN, f"/activation{BOT} off", name="Ben", chat=FAMILY)
        assert "I read and answer nothing here" in (await home.says(1, FAMILY))[0]
        await home.peer.say(ANNA, f"{BOT} a secret", name="Anna", chat=FAMILY)
        await home.peer.say(ANNA, f"/status{BOT}", name="Anna", chat=FAMILY)
        await home.peer.say(BEN, f"/activation{BOT} mention", name="Ben", chat=FAMILY)
        assert (await home.says(2, FAMILY))[1].startswith("Done. Activation here is mention")
        await home.peer.say(ANNA, f"{BOT} hello again", name="Anna", chat=FAMILY)
        assert (await home.says(3, FAMILY))[2] == "re: hello again"
    assert "a secret" not in "".join(home.seen.shown)


async def test_it_does_not_promise_to_answer_what_telegram_does_not_give_it(home: Home) -> None:
    async with home.lived_in(groups=RULES):
        await home.peer.say(ANNA, f"/activation{BOT} always", name="Anna", chat=FAMILY)
        [refused] = await home.says(1, FAMILY)
        await home.peer.say(ANNA, f"/activation{BOT} loud", name="Anna", chat=FAMILY)
        wrong = (await home.says(2, FAMILY))[1]
        await home.peer.say(ANNA, f"/activation{BOT}", name="Anna", chat=FAMILY)
        shown = (await home.says(3, FAMILY))[2]
        await home.peer.say(ANNA, "/activation")
        [private] = await home.says(1)
    assert "privacy mode is on" in refused
    assert "/setprivacy" in refused
    assert "“loud” is not one of the modes" in wrong
    assert shown.startswith("Activation here is mention, as the settings say")
    assert private.startswith("/activation is for groups")


async def test_a_group_is_welcomed_once_and_one_that_is_not_allowed_is_the_owners_to_allow(home: Home) -> None:
    rules = {FAMILY: {"allowFrom": [ANNA], "language": "de", "requireMention": False}}
    async with home.lived_in(groups=rules):
        await home.peer.say(ANNA, "hello")
        await home.says(1)
        for _ in range(2):
            await home.peer.add_bot(FAMILY)
        await home.peer.add_bot(OTHER)
        told = (await home.says(2))[1]
        assert "Anna added me to the group “Neighbours” (-1001234567891) on telegram." in told
        assert "homebody config set channels.telegram.groups.-1001234567891.enabled true" in told
        assert (await home.says(1, FAMILY)) == [home.peer.chats.said(FAMILY, None)[0]]
        await home.peer.add_bot(FAMILY, date=2)
        both = await home.says(2, FAMILY)
    assert both[0] == both[1]
    assert re.match(r"Hallo, ich bin Homebody\. Ich antworte hier auf jede Nachricht\.", both[0])
    assert home.peer.chats.said(OTHER, None) == []


async def test_after_the_commands_that_are_named_a_paired_owner_is_heard_in_their_first_group_and_nobody_else(
    home: Home,
) -> None:
    async with home.lived_in(allowFrom=[]) as gateway:
        for person, name, role in ((ANNA, "Anna", "owner"), (BEN, "Ben", "peer")):
            await home.peer.say(person, "hello", name=name)
            [code] = re.findall(r"homebody pairing approve telegram (\w+)", (await home.says(1, person))[0])
            assert await gateway.ledger.pairing.approve("telegram", code, cast("Role", role), "We are paired.")
            await home.says(2, person)
        await home.peer.say(ANNA, "hello again")
        await home.says(3)
        await home.peer.add_bot(OTHER)
        told = (await home.says(4))[3]
    file = home.root / "settings" / "homebody.yaml"
    file.parent.mkdir()
    commands = re.findall(r"^homebody .*$", told, re.MULTILINE)
    assert commands
    for command in commands:
        assert await asyncio.to_thread(main, ["--home", str(file.parent), *shlex.split(command)[1:]]) == 0
    groups = yaml.safe_load(file.read_text())["channels"]["telegram"]["groups"]
    assert groups == {str(OTHER): {"allowFrom": [str(ANNA)]}} or groups == {OTHER: {"allowFrom": [str(ANNA)]}}
    async with home.lived_in(allowFrom=[], groups=groups):
        await home.peer.say(BEN, f"{BOT} I am a guest in private", name="Ben", chat=OTHER)
        await home.peer.say(ANNA, f"{BOT} is it me?", name="Anna", chat=OTHER)
        assert await home.says(1, OTHER) == ["re: is it me?"]


async def test_the_welcome_is_replaced_or_switched_off_by_the_settings(home: Home) -> None:
    rules = {FAMILY: {"welcome": "Hi, I look after the shopping list."}, OTHER: {"welcome": False}}
    async with home.lived_in(groups=rules):
        await home.peer.add_bot(OTHER)
        await home.peer.add_bot(FAMILY)
        assert await home.says(1, FAMILY) == ["Hi, I look after the shopping list."]
    assert home.peer.chats.said(OTHER, None) == []


async def test_a_group_has_a_model_and_a_language_of_its_own_and_others_have_not(home: Home) -> None:
    systems: list[str] = []

    def small(request: Request) -> str:
        systems.append("".join(segment.text for segment in request.system))
        return "kurz"

    rules = {FAMILY: {"model": "scripted/small", "language": "German", "tools": {"allow": ["read"]}}}
    async with home.lived_in(groups=rules) as gateway:
        gateway.model_registry.put("scripted/small", ScriptedModel(small, name="scripted/small"))
        await home.peer.say(ANNA, f"{BOT} hello", name="Anna", chat=FAMILY)
        assert await home.says(1, FAMILY) == ["kurz"]
        await home.peer.say(ANNA, f"/status{BOT}", name="Anna", chat=FAMILY)
        status = (await home.says(2, FAMILY))[1]
        await home.peer.say(ANNA, "hello")
        assert await home.says(1) == ["re: hello"]
        await home.peer.say(ANNA, f"/model{BOT} scripted/model", name="Anna", chat=FAMILY)
        await home.says(3, FAMILY)
        await home.peer.say(ANNA, f"{BOT} hello", name="Anna", chat=FAMILY)
        assert (await home.says(4, FAMILY))[3] == "re: hello"
        await home.peer.say(ANNA, f"/model{BOT} default", name="Anna", chat=FAMILY)
        assert (await home.says(5, FAMILY))[4].startswith("This conversation now uses scripted/small.")
        await home.peer.say(ANNA, f"{BOT} hello", name="Anna", chat=FAMILY)
        assert (await home.says(6, FAMILY))[5] == "kurz"
    assert (
        "Write in this language here, whatever the messages are in, unless you are asked for a translation: German."
        in systems[0]
    )
    assert "Model: scripted/small" in status
    assert "The settings of this group: model scripted/small, language German, fewer tools (/tools lists them)" in status
