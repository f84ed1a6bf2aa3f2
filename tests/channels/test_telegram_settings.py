from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

from channels.errors import ChannelBroken
from channels.telegram.settings import TelegramSettings

if TYPE_CHECKING:
    from pathlib import Path


def settings(**given: object) -> TelegramSettings:
    return TelegramSettings.model_validate(given)


def test_nothing_set_means_no_account() -> None:
    assert settings().names() == []
    assert settings().dm_policy == "pairing"


def test_a_disabled_section_has_no_accounts() -> None:
    assert settings(botToken="1:a", enabled=False).names() == []


@pytest.mark.parametrize(
    "wrong", ["123456:ABC...", "TOKEN", "123456", "bot123456:abc", "123456:abc def", "<token>", "123456:ABC…"]
)
def test_a_placeholder_or_half_a_token_is_refused(wrong: str) -> None:
    with pytest.raises(ValidationError, match="is not a bot token: @BotFather gives one"):
        settings(botToken=wrong)


def test_a_file_without_a_token_is_refused_with_its_name(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("put your token here\n")
    with pytest.raises(ChannelBroken, match=r"tokenFile .*token holds is not a bot token"):
        settings(tokenFile=str(file)).token()


@pytest.mark.sec(20)
def test_a_name_is_refused_with_the_fix() -> None:
    with pytest.raises(ValidationError, match="names can be taken over: give the numeric id"):
        settings(allowFrom=["@anna"])


@pytest.mark.parametrize("wrong", ["anna", "-5", "1.5", "", "٤٢"[:0] + "x42"])
def test_what_is_no_id_is_refused(wrong: str) -> None:
    with pytest.raises(ValidationError, match="not a Telegram user id"):
        settings(allowFrom=[wrong])


def test_ids_may_be_numbers_or_carry_the_channels_name() -> None:
    assert settings(allowFrom=[42, "43", "telegram:44"]).allow_from == ["42", "43", "44"]


@pytest.mark.parametrize("wrong", ["1001234567890", "@family", "", "-", "--1", "family"])
def test_what_is_no_group_is_refused_with_the_form(wrong: str) -> None:
    with pytest.raises(ValidationError, match="with its minus sign"):
        settings(groups={wrong: {}})


@pytest.mark.parametrize("wrong", ["0", "-1", "General"])
def test_what_is_no_topic_is_refused(wrong: str) -> None:
    with pytest.raises(ValidationError, match="is not a topic"):
        settings(groups={"-100": {"topics": {wrong: {}}}})


def test_groups_may_be_numbers_and_a_star_stands_for_all_others() -> None:
    found = settings(groups={-1001: {"requireMention": False}, "*": {"enabled": False}})
    assert list(found.groups) == ["-1001", "*"]
    assert found.group("-1001") == found.groups["-1001"]
    assert found.group("-7") == found.groups["*"]


@pytest.mark.parametrize(("policy", "read"), [("allowlist", False), ("open", True), ("disabled", False)])
def test_a_group_that_is_not_listed_is_read_when_all_are(policy: str, read: bool) -> None:
    assert (settings(groupPolicy=policy).group("-7") is not None) == read


def test_a_topic_says_only_what_differs() -> None:
    rule = settings(groups={-1: {"requireMention": False, "allowFrom": [1], "topics": {7: {"allowFrom": []}}}}).groups["-1"]
    assert (rule.at("7").require_mention, rule.at("7").allow_from, rule.at("7").enabled) == (False, [], True)
    assert rule.at("8") == rule.at(None) == rule


@pytest.mark.parametrize(
    ("given", "speaks"),
    [
        ({}, False),
        ({"groups": {-7: {}}}, True),
        ({"groups": {-7: {"enabled": False}}}, False),
        ({"groups": {-7: {"allowFrom": []}}}, False),
        ({"groups": {-7: {"allowFrom": ["*"]}}}, True),
        ({"groups": {-7: {"topics": {3: {"enabled": False}}}}}, False),
        ({"groups": {-7: {}}, "groupAllowFrom": []}, False),
        ({"groups": {-7: {}}, "groupAllowFrom": [43]}, False),
        ({"groups": {-7: {}}, "groupPolicy": "disabled"}, False),
        ({"groupPolicy": "open"}, True),
    ],
)
def test_who_may_speak_in_a_group(given: dict[str, object], speaks: bool) -> None:
    assert settings(allowFrom=[42], **given).may_speak("-7", "3", "42") == speaks


@pytest.mark.parametrize("wrong", ["", "short", "x" * 257, "spaces in between the words", "ünïcödé" * 5])
@pytest.mark.sec(23)
def test_a_weak_webhook_secret_is_refused_with_the_way_to_make_one(wrong: str) -> None:
    with pytest.raises(ValidationError, match="openssl rand -hex 24"):
        settings(webhookSecret=wrong)


@pytest.mark.parametrize("wrong", ["home.example.org", "ftp://x", "https://user:password@x", "https://x?y=1"])
def test_a_webhook_address_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(ValidationError, match="not an address that Telegram can call"):
        settings(webhookUrl=wrong)


def test_an_account_has_a_webhook_of_its_own() -> None:
    both = settings(botToken="1:a", webhookUrl="https://x", webhookSecret="s" * 24, accounts={"work": {"botToken": "2:b"}})
    assert both.account("default").webhook_url == "https://x"
    assert both.account("work").webhook_url is None


@pytest.mark.parametrize("wrong", ["api.telegram.org", "ftp://x", "http://", "http://a b", "http://x?y=1"])
def test_an_address_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(ValidationError, match="not a base address"):
        settings(apiRoot=wrong)


def test_a_trailing_slash_does_no_harm() -> None:
    assert settings(apiRoot="http://127.0.0.1:8081/").api_root == "http://127.0.0.1:8081"


def test_the_token_does_not_show_in_print() -> None:
    assert "geheim" not in repr(settings(botToken="1:geheim"))


def test_an_account_takes_over_what_it_does_not_set_but_not_the_token() -> None:
    both = settings(
        botToken="1:a", dmPolicy="open", textChunkLimit=1000, accounts={"work": {"botToken": "2:b", "dmPolicy": "allowlist"}}
    )
    assert both.names() == ["default", "work"]
    work = both.account("work")
    assert (work.token(), work.dm_policy, work.text_chunk_limit) == ("2:b", "allowlist", 1000)
    assert both.account("default").token() == "1:a"
    without = settings(botToken="1:a", accounts={"work": {}})
    with pytest.raises(ChannelBroken):
        without.account("work").token()


def test_a_default_account_by_name_takes_the_place_of_the_section() -> None:
    named = settings(botToken="1:a", accounts={"default": {"dmPolicy": "open"}})
    assert named.names() == ["default"]
    assert (named.account("default").token(), named.account("default").dm_policy) == ("1:a", "open")


def test_the_token_may_lie_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("3:c\n")
    assert settings(tokenFile=str(tmp_path / "token")).account("default").token() == "3:c"


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe"])
def test_a_token_file_that_is_none_says_what_to_do(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    with pytest.raises(ChannelBroken, match="tokenFile") as caught:
        settings(tokenFile=str(tmp_path / "token")).account("default").token()
    assert "@BotFather" in caught.value.hint


@pytest.mark.parametrize("wrong", ["ftp://p:21", "p:3128", "http://p:3128/path", "socks5://a b:c@p:1"])
def test_what_is_no_proxy_is_refused_with_the_form(wrong: str) -> None:
    with pytest.raises(ValidationError, match="is not the address of a proxy: give it as http://host:3128"):
        TelegramSettings.model_validate({"proxy": wrong})


def test_what_is_no_command_is_refused_with_the_form() -> None:
    with pytest.raises(ValidationError, match="is not a command that Telegram takes"):
        TelegramSettings.model_validate({"customCommands": [{"command": "back-up", "description": "x"}]})
