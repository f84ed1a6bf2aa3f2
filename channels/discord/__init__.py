"""Discord. ``settings``, ``channel`` and ``markup`` are light; modules that load the client library say so, and load off the event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.common.log import Log
from channels.discord.settings import DiscordSettings
from channels.platform import ANYBODY, GroupRule, Platform, Policy, SetupGuide, choices_of, people, tool_rules
from channels.protocol import Channel, Clock

if TYPE_CHECKING:
    from channels.discord.settings import DiscordAccount


def make(settings: DiscordSettings, *, account: str, clock: Clock, log: Log) -> Channel:
    """Return the channel of one account."""
    from channels.discord.channel import DiscordChannel

    return DiscordChannel(settings, account, clock=clock, log=log)


def policy(account: DiscordAccount) -> Policy:
    """Return who may speak to a Discord bot."""
    rules = {}
    named = account.guilds if account.group_policy != "disabled" else {}
    for guild, rule in named.items():
        key = f"channels.discord.guilds.{guild}"
        shared = GroupRule(
            require_mention=rule.require_mention,
            users=people(rule.users),
            tools=tool_rules(rule.tools),
            tools_key=key,
            choices=choices_of(rule),
        )
        rules[guild] = {
            channel: GroupRule(
                allow=entry.allow,
                require_mention=rule.require_mention if entry.require_mention is None else entry.require_mention,
                users=people(rule.users if entry.users is None else entry.users),
                tools=tool_rules(rule.tools, entry.tools),
                tools_key=key,
                choices=choices_of(rule, entry),
            )
            for channel, entry in rule.channels.items()
        }
        if not rule.channels or account.group_policy == "open":
            rules[guild].setdefault(ANYBODY, shared)
    if account.group_policy == "open":
        rules.setdefault(ANYBODY, {ANYBODY: GroupRule()})
    dm_policy = account.dm.policy if account.dm.enabled else "disabled"
    return Policy(
        dm_policy=dm_policy,
        allow_from=tuple(account.dm.allow_from),
        rules=rules,
        group_users={guild: tuple(rule.users) for guild, rule in named.items() if rule.users is not None},
        bots=account.allow_bots,
    )


GUIDE = SetupGuide(
    title="Discord",
    steps=(
        "Open https://discord.com/developers/applications, New Application, then the page Bot.",
        "Switch on “Message Content Intent” there, then Reset Token, and copy the token.",
        "Add the bot to a server of yours (step 3 of docs/discord.md); only people who share one with it can write to it.",
    ),
    secrets=(("token", "Token of the bot"),),
)

PLATFORM = Platform(
    name="discord",
    settings=DiscordSettings,
    make=make,
    policy=policy,
    env={"token": "DISCORD_BOT_TOKEN"},
    chat_ids={"direct": r"[0-9]{1,20}", "group": r"[0-9]{1,20}"},
    guide=GUIDE,
    allows_group="guilds.{space}.channels.{id}.allow",
    group_users="guilds.{space}.channels.{id}.users",
)
