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


def test_a_name_is_refused_with_the_fix() -> None:
    with pytest.raises(ValidationError, match="names change hands: give the numeric id"):
        settings(allowFrom=["@anna"])


@pytest.mark.parametrize("wrong", ["anna", "-5", "1.5", "", "٤٢"[:0] + "x42"])
def test_what_is_no_id_is_refused(wrong: str) -> None:
    with pytest.raises(ValidationError, match="no Telegram user id"):
        settings(allowFrom=[wrong])


def test_ids_may_be_numbers_or_carry_the_channels_name() -> None:
    assert settings(allowFrom=[42, "43", "telegram:44"]).allow_from == ["42", "43", "44"]


@pytest.mark.parametrize("wrong", ["api.telegram.org", "ftp://x", "http://", "http://a b", "http://x?y=1"])
def test_an_address_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(ValidationError, match="no base address"):
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
    assert "@BotFather" in caught.value.mend
