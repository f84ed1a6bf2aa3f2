"""Telegram. Only ``settings`` and ``channel`` are light; the other modules load the client library and are imported off the event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from channels.common.log import Log
from channels.platform import ANYBODY, GroupRule, Platform, Policy, SetupGuide, choices_of, people, tool_rules
from channels.protocol import Channel, Clock
from channels.telegram.settings import TelegramSettings

if TYPE_CHECKING:
    from channels.telegram.settings import TelegramAccount, TelegramGroupRule


def make(settings: TelegramSettings, *, account: str, clock: Clock, log: Log) -> Channel:
    """Return the channel of one account."""
    from channels.telegram.channel import TelegramChannel

    return TelegramChannel(settings, account, clock=clock, log=log)


def policy(account: TelegramAccount) -> Policy:
    """Return who may speak to a Telegram bot."""

    def rule_of(rule: TelegramGroupRule) -> GroupRule:
        return GroupRule(
            allow=rule.enabled,
            require_mention=rule.require_mention,
            users=people(account.speakers(rule)),
            tools=tool_rules(rule.tools),
            tools_key="channels.telegram.groups",
            choices=choices_of(rule),
        )

    named = account.groups if account.group_policy != "disabled" else {}
    rules = {
        group: replace(rule_of(rule), threads={topic: rule_of(rule.at(topic)) for topic in rule.topics})
        for group, rule in named.items()
    }
    if account.group_policy == "open":
        rules.setdefault(ANYBODY, GroupRule(users=people(account.group_allow_from)))
    return Policy(
        dm_policy=account.dm_policy,
        allow_from=tuple(account.allow_from),
        rules={ANYBODY: rules},
        group_users={} if account.group_allow_from is None else {ANYBODY: tuple(account.group_allow_from)},
        bots=account.allow_bots,
    )


GUIDE = SetupGuide(
    title="Telegram",
    steps=(
        "Open https://t.me/BotFather in Telegram and send it: /newbot",
        "Choose a name for your bot, and a user name that ends in “bot”.",
        "Copy the token that it answers with: a number, a colon, some 35 letters.",
    ),
    secrets=(("botToken", "Token of the bot"),),
    invite=lambda bot, code: f"https://t.me/{bot.removeprefix('@')}?start={code}",
)

PLATFORM = Platform(
    name="telegram",
    settings=TelegramSettings,
    make=make,
    policy=policy,
    env={"bot_token": "TELEGRAM_BOT_TOKEN"},
    chat_ids={"direct": r"[1-9]\d{0,18}", "group": r"-[1-9]\d{0,18}"},
    guide=GUIDE,
    allows_group="groups.{id}.enabled",
    group_users="groups.{id}.allowFrom",
)
