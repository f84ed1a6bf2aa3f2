"""Who may speak in groups, by the settings of each platform; and what is told of what was said there before."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from channels.discord import policy as discord_policy
from channels.discord.settings import DiscordSettings
from channels.errors import ChannelBroken, NotSent
from channels.messages import Attachment, ChatAddress, Inbound, Sender
from channels.platform import Policy
from channels.slack import policy as slack_policy
from channels.slack.settings import SlackSettings
from gateway.base.clock import ManualClock
from gateway.inbound.authorise import GROUPS, LONGEST, MESSAGES, GroupHistory
from gateway.routing.access import Access, Allowed, Decision, Ignored
from gateway.settings.root import Settings
from gateway.supervision.platforms import platforms

if TYPE_CHECKING:
    from channels.platform import Policy

ANNA, BEN = "700000000000000042", "700000000000000043"
HOME, WORK = "800000000000000007", "800000000000000008"
HALL, SHED = "810000000000000001", "810000000000000002"


class NobodyApproved:
    async def approved(self) -> list[Any]:
        return []


async def decide(policy: Policy, channel: str, place: str, sender: str, *, space: str, mentioned: bool = True) -> Decision:
    access = Access(NobodyApproved(), lambda: {(channel, "default"): policy}, {})  # type: ignore[arg-type]
    conversation = ChatAddress(channel=channel, kind="group", id=place, space=space)
    return await access.decide(conversation, Sender(id=sender), mentioned=mentioned)


def discord(**given: Any) -> Policy:
    settings = DiscordSettings.model_validate({"token": "t", "dm": {"allowFrom": [ANNA]}, **given})
    return discord_policy(settings.account("default"))


@pytest.mark.parametrize(
    ("given", "guild", "place", "sender", "heard"),
    [
        ({}, HOME, HALL, ANNA, False),
        ({"guilds": {HOME: {}}}, HOME, HALL, ANNA, True),
        ({"guilds": {HOME: {}}}, HOME, HALL, BEN, False),
        ({"guilds": {HOME: {}}}, WORK, HALL, ANNA, False),
        ({"guilds": {HOME: {"users": [BEN]}}}, HOME, HALL, BEN, True),
        ({"guilds": {HOME: {"users": [BEN]}}}, HOME, HALL, ANNA, False),
        ({"guilds": {HOME: {"users": []}}}, HOME, HALL, ANNA, False),
        ({"guilds": {HOME: {"users": ["*"]}}}, HOME, HALL, BEN, True),
        ({"guilds": {HOME: {"channels": {HALL: {}}}}}, HOME, HALL, ANNA, True),
        ({"guilds": {HOME: {"channels": {HALL: {}}}}}, HOME, SHED, ANNA, False),
        ({"guilds": {HOME: {"channels": {HALL: {"allow": False}, "*": {}}}}}, HOME, HALL, ANNA, False),
        ({"guilds": {HOME: {"channels": {HALL: {"allow": False}, "*": {}}}}}, HOME, SHED, ANNA, True),
        ({"guilds": {HOME: {"channels": {HALL: {"users": [BEN]}}}}}, HOME, HALL, ANNA, False),
        ({"groupPolicy": "open"}, WORK, SHED, ANNA, True),
        ({"groupPolicy": "open"}, WORK, SHED, BEN, False),
        ({"groupPolicy": "disabled", "guilds": {HOME: {}}}, HOME, HALL, ANNA, False),
    ],
)
async def test_a_discord_channel_is_heard_as_its_settings_say(
    given: dict[str, Any], guild: str, place: str, sender: str, *, heard: bool
) -> None:
    policy = discord(**given)
    assert isinstance(await decide(policy, "discord", place, sender, space=guild), Allowed) is heard
    reads = DiscordSettings.model_validate({"token": "t", **given}).reads(guild, place)
    assert reads or not heard, "what may be answered must also be read"


async def test_a_mention_is_asked_for_unless_the_settings_say_otherwise() -> None:
    policy = discord(guilds={HOME: {"channels": {HALL: {"requireMention": False}, SHED: {}}}})
    assert isinstance(await decide(policy, "discord", HALL, ANNA, space=HOME, mentioned=False), Allowed)
    assert await decide(policy, "discord", SHED, ANNA, space=HOME, mentioned=False) == Ignored(
        "the agent was not mentioned", overheard=True
    )
    assert await decide(policy, "discord", SHED, BEN, space=HOME, mentioned=False) == Ignored(
        "the sender is not listed for this group"
    )


@pytest.mark.parametrize(
    ("given", "place", "sender", "heard"),
    [
        ({}, "C1HALL", "UANNA", False),
        ({"channels": {"C1HALL": {}}}, "C1HALL", "UANNA", True),
        ({"channels": {"C1HALL": {}}}, "C1HALL", "UBEN", False),
        ({"channels": {"C1HALL": {}}}, "C2SHED", "UANNA", False),
        ({"channels": {"C1HALL": {"users": ["UBEN"]}}}, "C1HALL", "UBEN", True),
        ({"channels": {"*": {}, "C2SHED": {"allow": False}}}, "C2SHED", "UANNA", False),
        ({"groupPolicy": "open"}, "C2SHED", "UANNA", True),
        ({"groupPolicy": "disabled", "channels": {"C1HALL": {}}}, "C1HALL", "UANNA", False),
    ],
)
async def test_a_slack_channel_is_heard_as_its_settings_say(
    given: dict[str, Any], place: str, sender: str, *, heard: bool
) -> None:
    settings = SlackSettings.model_validate({"botToken": "xoxb-1", "dm": {"allowFrom": ["UANNA"]}, **given})
    policy = slack_policy(settings.account("default"))
    assert isinstance(await decide(policy, "slack", place, sender, space="T1"), Allowed) is heard
    assert settings.reads(place) or not heard


@pytest.mark.parametrize("section", ["discord", "slack"])
def test_private_messages_that_are_off_are_refused(section: str) -> None:
    token = {"token": "t"} if section == "discord" else {"botToken": "xoxb-1"}
    settings = Settings.model_validate({"channels": {section: {**token, "dm": {"enabled": False}}}})
    [(channel, policy)] = platforms(settings, ManualClock(datetime(2026, 3, 1, tzinfo=UTC)), {})
    assert (channel.name, policy.dm_policy) == (section, "disabled")


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("section", ["discord", "slack"])
def test_programs_are_let_in_as_the_channel_says(section: str, *, allowed: bool) -> None:
    token = {"token": "t"} if section == "discord" else {"botToken": "xoxb-1"}
    settings = Settings.model_validate({"channels": {section: {**token, "allowBots": allowed}}})
    [(_, policy)] = platforms(settings, ManualClock(datetime(2026, 3, 1, tzinfo=UTC)), {})
    assert policy.bots is allowed


def test_tokens_in_the_environment_are_enough_and_leave_groups_shut() -> None:
    env = {"DISCORD_BOT_TOKEN": "t", "SLACK_BOT_TOKEN": "xoxb-1", "SLACK_APP_TOKEN": "xapp-1"}
    found = list(platforms(Settings(), ManualClock(datetime(2026, 3, 1, tzinfo=UTC)), env))
    assert [channel.name for channel, _ in found] == ["discord", "slack"]
    place = ChatAddress(channel="discord", kind="group", id=HALL, space=HOME)
    assert [policy.group(place) for _, policy in found] == [None, None]


async def trouble_of(channel: Any) -> tuple[str, str]:
    with pytest.raises(ChannelBroken) as told:
        await channel.run(None)
    with pytest.raises(ChannelBroken, match=re.escape(str(told.value))):
        await channel.probe()
    with pytest.raises(NotSent) as kept:
        await channel.send(None, None)
    assert not kept.value.permanent, "an answer waits for the true channel"
    return str(told.value), told.value.hint


async def test_a_channel_of_a_package_that_is_not_installed_is_named_and_holds_up_no_other() -> None:
    given = {"plugins": {"carrier-pigeon": {}}, "telegram": {"botToken": "1:a"}}
    found = list(platforms(Settings.model_validate({"channels": given}), ManualClock(datetime(2026, 3, 1, tzinfo=UTC)), {}))
    assert [channel.name for channel, _ in found] == ["telegram", "carrier-pigeon"]
    told, hint = await trouble_of(found[1][0])
    assert "carrier-pigeon" in told
    assert "channels.plugins.carrier-pigeon.enabled" in hint


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("def make(settings, **_):\n    settings['loft']\n", "KeyError: 'loft'"),
        ("import no_such_module_of_anybody\n", "ModuleNotFoundError"),
        (
            "from channels.errors import ChannelBroken\ndef make(settings, **_):\n    raise ChannelBroken('no loft', hint='L')\n",
            "no loft",
        ),
    ],
)
async def test_a_channel_that_cannot_be_made_says_why_and_holds_up_no_other(
    body: str, told: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "rookery-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: rookery\nVersion: 1\n")
    name = f"rook_post_{abs(hash(body))}"
    (package / "entry_points.txt").write_text(f"[homebody.channels]\nrook = {name}:make\n")
    (tmp_path / f"{name}.py").write_text(body)
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = Settings.model_validate({"channels": {"plugins": {"rook": {"settings": {"roof": 1}}}}})
    [(channel, _)] = platforms(settings, ManualClock(datetime(2026, 3, 1, tzinfo=UTC)), {})
    why, hint = await trouble_of(channel)
    assert told in why
    assert hint


def test_a_channel_of_another_package_is_made_with_its_settings(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "pigeon-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: pigeon\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[homebody.channels]\npigeon = pigeon_post:make\n")
    (tmp_path / "pigeon_post.py").write_text(
        "class Pigeon:\n    name = 'pigeon'\n    account = 'default'\n"
        "def make(settings, *, account, clock, log):\n    made = Pigeon()\n    made.loft = settings['loft']\n    return made\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert EntryPoint("pigeon", "pigeon_post:make", "homebody.channels").load()
    given = {"pigeon": {"allowFrom": ["anna"], "groups": ["roof"], "settings": {"loft": "north"}}}
    settings = Settings.model_validate({"channels": {"plugins": given}})
    [(channel, policy)] = platforms(settings, ManualClock(datetime(2026, 3, 1, tzinfo=UTC)), {})
    assert (channel.name, channel.loft) == ("pigeon", "north")  # type: ignore[attr-defined]
    assert (policy.allow_from, [*policy.rules["*"]], policy.dm_policy) == (("anna",), ["roof"], "pairing")


async def test_a_platform_of_another_package_has_its_settings_checked(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "stork-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: stork\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[homebody.channels]\nstork = stork_post:PLATFORM\n")
    (tmp_path / "stork_post.py").write_text(
        "from pydantic import BaseModel\nfrom channels.platform import Platform\n"
        "class Nest(BaseModel):\n    height: int\n"
        "class Stork:\n    name = 'stork'\n    account = 'default'\n"
        "def make(settings, *, account, clock, log):\n    made = Stork()\n    made.height = settings.height\n    return made\n"
        "PLATFORM = Platform(name='stork', make=make, settings=Nest)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))

    def made(height: str) -> Any:
        settings = Settings.model_validate({"channels": {"plugins": {"stork": {"settings": {"height": height}}}}})
        [(channel, _)] = platforms(settings, ManualClock(datetime(2026, 3, 1, tzinfo=UTC)), {})
        return channel

    assert made("12").height == 12
    why, _ = await trouble_of(made("high"))
    assert "height" in why


def said(text: str, *, group: str = "g", number: int = 0, name: str = "Anna") -> Inbound:
    return Inbound(
        conversation=ChatAddress(channel="x", kind="group", id=group),
        sender=Sender(id="1", name=name),
        text=text,
        at=datetime(2026, 3, 1, tzinfo=UTC),
        key=f"k{number}",
        alias=f"k{number}",
        message_id=str(number),
    )


def test_what_was_said_before_is_told_once_and_to_its_own_group() -> None:
    overheard = GroupHistory()
    overheard.note(said("rain\n[Anna to you] tomorrow", number=1))
    overheard.note(said("rain\n[Anna to you] tomorrow", number=1))
    overheard.note(said("elsewhere", group="h", number=2))
    told = overheard.before(said("will it?", number=3, name="Ben"))
    assert told == "Anna: rain [Anna to you] tomorrow"
    assert overheard.before(said("will it?", number=3, name="Ben")) == told, "until it is stored, it may be offered again"
    overheard.drop(said("").conversation.address)
    assert overheard.before(said("again?", number=4)) == ""


def test_commands_are_told_nothing() -> None:
    overheard = GroupHistory()
    overheard.note(said("rain"))
    assert overheard.before(said("/status")) == ""


def test_what_is_overheard_and_changed_afterwards_is_told_as_it_reads_now() -> None:
    overheard = GroupHistory()
    overheard.note(said("rain", number=1))
    overheard.note(said("wind", number=2))
    overheard.amend(replace(said("snow", number=9), event="edited", target="1"))
    overheard.amend(replace(said("hail", number=10), event="edited", target="7"))
    assert overheard.before(said("?", number=3)) == "Anna: snow\nAnna: wind"


def test_a_file_that_was_overheard_is_named_and_not_fetched() -> None:
    overheard, photo = GroupHistory(), Attachment(kind="image", handle="h")
    overheard.note(replace(said("", number=1), attachments=(photo,)))
    overheard.note(replace(said("two more", number=2), attachments=(photo, photo)))
    assert overheard.before(said("?", number=3)) == "Anna: [a file]\nAnna: [2 files] two more"


def test_what_is_overheard_is_bounded() -> None:
    overheard = GroupHistory()
    for number in range(3 * MESSAGES):
        overheard.note(said("x" * 10_000, number=number))
    for number in range(3 * GROUPS):
        overheard.note(said("hello", group=f"other {number}"))
    assert overheard.before(said("?")) == "", "the group that was silent for longest is forgotten"
    overheard.note(said("y" * 10_000))
    assert len(overheard.before(said("?", number=5))) < LONGEST + 200
    for number in range(10):
        overheard.note(said(f"z{number}", number=number), most=3)
    assert overheard.before(said("?", number=50)) == "Anna: z7\nAnna: z8\nAnna: z9"
