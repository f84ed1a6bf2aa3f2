from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.errors import ChannelBroken
from channels.messages import ChatAddress
from channels.telegram import policy as telegram_policy
from channels.telegram.settings import TelegramSettings
from gateway.base.clock import ManualClock
from gateway.settings.root import Settings
from gateway.supervision.platforms import platforms

if TYPE_CHECKING:
    from channels.platform import GroupRule, Policy

CLOCK = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))


def names(given: dict[str, object], env: dict[str, str]) -> list[str]:
    settings = Settings.model_validate({"channels": given})
    return [f"{channel.name}:{channel.account}" for channel, _ in platforms(settings, CLOCK, env)]


def test_without_a_token_there_is_no_platform() -> None:
    assert names({}, {}) == []


def test_a_token_in_the_environment_is_enough() -> None:
    assert names({}, {"TELEGRAM_BOT_TOKEN": "1:abc"}) == ["telegram:default"]


def test_a_channel_that_is_switched_off_stays_off() -> None:
    assert names({"telegram": {"enabled": False}}, {"TELEGRAM_BOT_TOKEN": "1:abc"}) == []


def telegram(**given: object) -> Policy:
    return telegram_policy(TelegramSettings.model_validate(given).account("default"))


def rule(policy: Policy, group: str, topic: str | None = None) -> GroupRule | None:
    return policy.group(ChatAddress(channel="telegram", kind="group", id=group, thread=topic))


def test_a_telegram_group_has_the_rule_of_its_settings_and_a_topic_its_own() -> None:
    policy = telegram(
        allowFrom=[42],
        groups={-1: {"topics": {7: {"requireMention": False}, 8: {"enabled": False}}}, "*": {"allowFrom": [43]}},
    )
    assert rule(policy, "-1") == rule(policy, "-1", "9")
    found = {topic: rule(policy, "-1", topic) for topic in ("7", "8", "9")}
    assert all(one is not None for one in found.values())
    assert [(one.allow, one.require_mention, one.users) for one in found.values() if one] == [
        (True, False, ("42",)),
        (False, True, ("42",)),
        (True, True, ("42",)),
    ]
    others = rule(policy, "-2", "7")
    assert others is not None
    assert (others.users, others.require_mention) == (("43",), True)


@pytest.mark.parametrize(
    ("given", "listed"),
    [({"groupPolicy": "open"}, True), ({}, False), ({"groupPolicy": "disabled", "groups": {-1: {}}}, False)],
)
def test_telegram_groups_are_read_as_the_group_policy_says(given: dict[str, object], listed: bool) -> None:
    assert (rule(telegram(allowFrom=[42], **given), "-1") is not None) == listed


@given(
    settings=st.fixed_dictionaries(
        {},
        optional={
            "allowFrom": st.lists(st.sampled_from([42, 43, "*"]), max_size=2),
            "groupAllowFrom": st.lists(st.sampled_from([42, 43, "*"]), max_size=2),
            "groupPolicy": st.sampled_from(["allowlist", "open", "disabled"]),
            "groups": st.dictionaries(
                st.sampled_from([-1, -2, "*"]),
                st.fixed_dictionaries(
                    {},
                    optional={
                        "enabled": st.booleans(),
                        "allowFrom": st.lists(st.sampled_from([42, "*"]), max_size=1),
                        "topics": st.dictionaries(
                            st.just("7"),
                            st.fixed_dictionaries({}, optional={"enabled": st.booleans(), "allowFrom": st.just([43])}),
                        ),
                    },
                ),
            ),
        },
    ),
    topic=st.sampled_from([None, "7", "8"]),
)
def test_the_channel_and_the_house_agree_on_who_may_speak(settings: dict[str, object], topic: str | None) -> None:
    account = TelegramSettings.model_validate(settings).account("default")
    policy = telegram_policy(account)
    found = rule(policy, "-1", topic)
    speakers = () if found is None or not found.allow else policy.allow_from if found.users is None else found.users
    assert account.may_speak("-1", topic, "42") == bool({"42", "*"} & set(speakers))


async def test_of_two_accounts_with_one_token_the_second_is_off_and_says_so() -> None:
    accounts = {"work": {"botToken": "2:b"}, "copy": {"botToken": "1:a"}}
    given = {"telegram": {"botToken": "1:a", "accounts": accounts}, "slack": {"botToken": "xoxb-1"}}
    found = list(platforms(Settings.model_validate({"channels": given}), CLOCK, {}))
    assert [f"{channel.name}:{channel.account}" for channel, _ in found] == [
        "telegram:default",
        "telegram:work",
        "telegram:copy",
        "slack:default",
    ]
    with pytest.raises(ChannelBroken, match="default and copy of telegram have the same token") as told:
        await found[2][0].run(None)  # type: ignore[arg-type]
    assert "channels.telegram.accounts.copy" in told.value.hint
