"""The published rules, run over our own channels and the peers that stand for their platforms; and over channels that break them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from channels.testing import CHECKS, MAY_LACK, Nonconforming, check
from tests.channels import rules_page
from tests.channels.discord_stage import DiscordStage
from tests.channels.matrix_stage import MatrixStage
from tests.channels.paper import Paper
from tests.channels.slack_stage import SlackStage
from tests.channels.telegram_stage import TelegramStage
from tests.channels.whatsapp_stage import WhatsAppStage
from tests.patience import PATIENCE
from tests.peers import discord, matrix, slack, telegram, whatsapp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from channels.testing.conformance import Conformance

STAGES = {
    "telegram": (telegram.TelegramPeer, TelegramStage),
    "discord": (discord.DiscordPeer, DiscordStage),
    "slack": (slack.SlackPeer, SlackStage),
    "matrix": (matrix.MatrixPeer, MatrixStage),
    "whatsapp": (whatsapp.WhatsAppPeer, WhatsAppStage),
}


@asynccontextmanager
async def staged(platform: str) -> AsyncIterator[Any]:
    peer, stage = STAGES[platform]
    async with peer() as started:
        yield stage(started)


@pytest.mark.parametrize("platform", STAGES)
async def test_our_channels_keep_the_rule(platform: str, channel_conformance: Conformance) -> None:
    await channel_conformance(staged(platform))


def stage_of(flaw: str = "") -> Any:
    @asynccontextmanager
    async def made() -> AsyncIterator[Paper]:
        yield Paper(flaw, patience=20.0)  # all rules but one hold, however long that takes

    return made


async def test_a_channel_of_paper_keeps_every_rule() -> None:
    assert await check(stage_of()) == [rule.__name__ for rule in CHECKS]


@pytest.mark.parametrize(
    ("flaw", "rule"),
    [
        ("forgets who wrote", "receives_what_is_written"),
        ("turns pairs around", "keeps_the_order"),
        ("stays broken", "survives_a_broken_connection"),
        ("never tells that it lives", "tells_that_it_is_alive"),
        ("goes on after its end", "ends_when_asked"),
        ("does not hear that it is to end", "ends_when_asked"),
        ("numbers nothing", "sends_in_order"),
        ("shows nothing", "shows_typing"),
        ("takes a refusal for passing", "knows_a_refusal"),
        ("does not say how long", "obeys_a_rate_limit"),
        ("says that it arrived", "repeats_what_did_not_arrive"),
        ("forgets", "catches_up_after_a_restart"),
        ("lets go", "offers_again_what_could_not_be_stored"),
        ("renames", "takes_a_repetition_once"),
        ("never cuts", "cuts_what_is_too_long"),
        ("says twice", "says_a_doubtful_message_once"),
        ("raises anything", "says_a_doubtful_message_once"),
        ("stops at a reaction", "goes_on_after_every_event"),
        ("forgets", "goes_on_after_every_event"),
        ("chokes on garbage", "survives_garbage"),
        ("hears itself", "hears_no_echo"),
        ("is always meant", "tells_who_is_meant_in_a_group"),
        ("takes programs for people", "tells_what_programs_wrote"),
        ("tries a wrong password for ever", "gives_up_on_a_wrong_password"),
        ("says nothing of a wrong password", "gives_up_on_a_wrong_password"),
        ("does not say what to do", "gives_up_on_a_wrong_password"),
        ("ends in an outage", "goes_on_after_an_outage"),
        ("skips an outage", "goes_on_after_an_outage"),
        ("takes an outage for a refusal", "sends_after_an_outage"),
        ("believes that it was said", "sends_after_an_outage"),
        ("takes a doubt for an arrival", "loses_nothing_that_an_outage_cut_off"),
        ("says twice", "loses_nothing_that_an_outage_cut_off"),
        ("takes it for a message: edited", "tells_of_an_edit"),
        ("forgets the target: edited", "tells_of_an_edit"),
        ("takes it for a message: reaction", "tells_of_a_reaction"),
        ("forgets the target: reaction", "tells_of_a_reaction"),
        ("adds reactions", "puts_one_reaction"),
        ("leaves the thread", "answers_in_the_thread"),
        ("splits threads", "answers_in_the_thread"),
        ("fetches half", "fetches_a_file_whole"),
        ("believes the size", "leaves_nothing_of_a_file_it_cannot_have"),
        ("leaves a part", "leaves_nothing_of_a_file_it_cannot_have"),
        ("raises what it likes", "leaves_nothing_of_a_file_it_cannot_have"),
        ("drops files", "sends_a_file_whole"),
        ("cuts files", "sends_a_file_whole"),
        ("sends files twice", "sends_a_doubtful_file_once"),
        ("drops buttons", "shows_buttons_and_tells_of_a_press"),
        ("takes it for a message: button", "shows_buttons_and_tells_of_a_press"),
        ("forgets the target: button", "shows_buttons_and_tells_of_a_press"),
        ("cuts values", "shows_buttons_and_tells_of_a_press"),
        ("writes the menu at every start", "offers_its_menu_once"),
    ],
)
async def test_a_flaw_is_seen_by_its_rule(flaw: str, rule: str) -> None:
    [judging] = [one for one in CHECKS if one.__name__ == rule]
    await judging(Paper())
    with pytest.raises(Nonconforming, match=r"expected|waited in vain"):
        await asyncio.wait_for(judging(Paper(flaw)), PATIENCE)


async def test_a_run_of_all_rules_names_the_one_that_did_not_hold() -> None:
    with pytest.raises(Nonconforming) as caught:
        await check(stage_of("never cuts"))
    assert caught.value.__notes__ == ["rule: cuts_what_is_too_long"]


def test_every_rule_has_a_flaw_that_it_sees() -> None:
    [marks] = [mark for mark in test_a_flaw_is_seen_by_its_rule.pytestmark if mark.name == "parametrize"]
    assert {rule for _, rule in marks.args[1]} == {rule.__name__ for rule in CHECKS}


def test_our_stages_lack_only_what_a_stage_may_lack() -> None:
    assert all(set(stage.lacks) <= MAY_LACK.keys() <= {rule.__name__ for rule in CHECKS} for _, stage in STAGES.values())


def test_the_page_shows_every_rule_and_channel_as_they_are() -> None:
    written = rules_page.PAGE.read_text("utf-8")
    shown = rules_page.read(written)
    assert rules_page.page(shown) == written, "run: make channel-rules"
    assert {"email", "linechat"} <= shown.keys()
    for platform, (_, stage) in STAGES.items():
        results = {rule.__name__: "lacks" if rule.__name__ in stage.lacks else "held" for rule in CHECKS}
        assert shown.get(platform) == results, f"run: make channel-rules ARGS={platform}"


async def test_a_stage_that_lacks_what_every_platform_makes_possible_is_told_so() -> None:
    class Lazy(Paper):
        lacks = ("keeps_the_order",)

    @asynccontextmanager
    async def made() -> AsyncIterator[Paper]:
        yield Lazy()

    with pytest.raises(Nonconforming, match="only these rules in"):
        await check(made)


async def test_a_platform_without_a_history_is_judged_by_what_it_can_do() -> None:
    class Forgetful(Paper):
        lacks = ("catches_up_after_a_restart", "goes_on_after_an_outage")

    @asynccontextmanager
    async def made() -> AsyncIterator[Paper]:
        yield Forgetful("forgets")

    held = await check(made)
    assert {"goes_on_after_every_event", "survives_garbage"} <= set(held)
