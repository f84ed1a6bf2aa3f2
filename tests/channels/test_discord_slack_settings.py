"""The sections ``channels.discord`` and ``channels.slack``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from channels.common.read_marks import MOST, ReadMarks
from channels.discord.settings import DiscordSettings
from channels.errors import ChannelBroken
from channels.slack.inbound import order, readable
from channels.slack.settings import SlackSettings

if TYPE_CHECKING:
    from pathlib import Path

ANNA = "700000000000000042"


@pytest.mark.parametrize("listed", ["anna", "@anna", "anna#1234", "Anna"])
@pytest.mark.sec(20)
def test_a_name_authorises_nobody(listed: str) -> None:
    with pytest.raises(ValidationError, match="Copy User ID"):
        DiscordSettings.model_validate({"dm": {"allowFrom": [listed]}})
    with pytest.raises(ValidationError, match="Copy member ID"):
        SlackSettings.model_validate({"dm": {"allowFrom": [listed]}})


@pytest.mark.parametrize(
    ("section", "given"),
    [
        (DiscordSettings, {"guilds": {"my server": {}}}),
        (DiscordSettings, {"guilds": {ANNA: {"channels": {"#general": {}}}}}),
        (DiscordSettings, {"apiRoot": "discord.com"}),
        (DiscordSettings, {"textChunkLimit": 2001}),
        (SlackSettings, {"channels": {"#general": {}}}),
        (SlackSettings, {"apiRoot": "slack.com"}),
        (SlackSettings, {"mode": "carrier pigeon"}),
    ],
)
def test_what_cannot_be_is_refused(section: type[Any], given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        section.model_validate(given)


def test_ids_may_be_written_as_numbers_and_with_the_platforms_name() -> None:
    assert DiscordSettings.model_validate({"dm": {"allowFrom": [int(ANNA), f"discord:{ANNA}"]}}).dm.allow_from == [ANNA, ANNA]
    assert SlackSettings.model_validate({"dm": {"allowFrom": ["slack:U012AB3CD", "*"]}}).dm.allow_from == ["U012AB3CD", "*"]


def test_an_account_takes_all_but_the_tokens_from_the_section() -> None:
    work = {"botToken": "xoxb-2", "appToken": "xapp-2"}
    slack = SlackSettings.model_validate(
        {"botToken": "xoxb-1", "appToken": "xapp-1", "textChunkLimit": 500, "accounts": {"work": work, "bare": {}}}
    )
    assert slack.names() == ["default", "work", "bare"]
    assert (slack.account("work").secret("bot_token"), slack.account("work").text_chunk_limit) == ("xoxb-2", 500)
    with pytest.raises(ChannelBroken, match="botToken is not set"):
        slack.account("bare").secret("bot_token")
    assert slack.account("default").secret("app_token") == "xapp-1"


def test_a_platform_without_tokens_or_switched_off_has_no_accounts() -> None:
    assert DiscordSettings().names() == []
    assert SlackSettings().names() == []
    assert DiscordSettings.model_validate({"token": "t", "enabled": False}).names() == []
    assert SlackSettings.model_validate({"accounts": {"a": {"enabled": False}}}).names() == []


def test_the_token_of_discord_may_lie_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\n")
    assert DiscordSettings.model_validate({"tokenFile": str(tmp_path / "token")}).account("default").secret() == "abc"
    (tmp_path / "token").write_bytes(b"\xff")
    with pytest.raises(ChannelBroken, match="tokenFile"):
        DiscordSettings.model_validate({"tokenFile": str(tmp_path / "token")}).account("default").secret()


def test_no_token_is_shown() -> None:
    shown = repr(DiscordSettings.model_validate({"token": "s3cret"})) + repr(
        SlackSettings.model_validate({"botToken": "s3cret"})
    )
    assert "s3cret" not in shown


def test_marks_only_move_forward_and_are_bounded() -> None:
    marks = ReadMarks(order)
    assert marks.note("C1", "1700000000.000200")
    assert not marks.note("C1", "1700000000.000100")
    again = ReadMarks(order, marks.written())
    assert again.all() == {"C1": "1700000000.000200"}
    for number in range(2 * MOST):
        again.note(f"C{number}", "1700000001.000000")
    assert len(again.all()) == MOST


@pytest.mark.parametrize("stored", [None, "", "no json", "[1]", "7"])
def test_a_cursor_that_cannot_be_read_counts_as_none(stored: str | None) -> None:
    assert ReadMarks(order, stored).all() == {}


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("<@UBOT> hi", "hi"),
        ("ask <@U1|anna> or <@U2>", "ask @anna or @U2"),
        ("see <#C1|general>", "see #general"),
        ("<!here> <!subteam^S1|@team>", "@here @team"),
        ("<mailto:a@b.c|a@b.c>", "a@b.c (mailto:a@b.c)"),
        ("&lt;b&gt; &amp;amp;", "<b> &amp;"),
    ],
)
def test_text_is_shown_as_a_person_sees_it(raw: str, shown: str) -> None:
    assert readable(raw, "UBOT") == shown
