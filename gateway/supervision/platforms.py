"""Which chat platforms the settings ask for, and who may speak on each. Their libraries are loaded when they first run."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import structlog
from pydantic import SecretStr, ValidationError

from agent.tools.settings import ToolRules
from channels.errors import ChannelError
from gateway.base.errors import UsageError
from gateway.config.secrets import revealed
from gateway.routing.access import ANYBODY, GroupRule, Policy
from gateway.supervision.broken_channel import BrokenChannel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.metadata import EntryPoint

    from channels.common.group_tools import GroupTools
    from channels.discord.settings import DiscordAccount
    from channels.protocol import Channel
    from channels.slack.settings import SlackAccount
    from channels.telegram.settings import TelegramAccount, TelegramGroupRule
    from gateway.base.clock import SystemClock
    from gateway.settings.root import ChannelsSettings, Settings

ENTRY_POINTS = "homebody.channels"
"""Where other packages put their channels: name = the platform's, value = ``make(settings, *, account, clock, log) -> Channel``."""
_IN_ENV = {
    "telegram": {"bot_token": "TELEGRAM_BOT_TOKEN"},
    "discord": {"token": "DISCORD_BOT_TOKEN"},
    "slack": {"bot_token": "SLACK_BOT_TOKEN", "app_token": "SLACK_APP_TOKEN", "signing_secret": "SLACK_SIGNING_SECRET"},
}


def platforms(settings: Settings, clock: SystemClock, env: Mapping[str, str]) -> Iterator[tuple[Channel, Policy]]:
    """Yield a channel for each enabled account, with its policy. A token may also stand in ``env``, for the default account.

    Raises:
        UsageError: a group's settings name a group of tools that is not there.
    """
    channels = settings.channels
    for section, found in (
        (channels.telegram, _telegram(channels, clock, env)),
        (channels.discord, _discord(channels, clock, env)),
        (channels.slack, _slack(channels, clock, env)),
    ):
        holders: dict[Any, str] = {}
        for channel, policy in found:
            account = section.account(channel.account)
            bots = policy.bots or bool(getattr(account, "allow_bots", False))
            holder = holders.setdefault(_bot(account) or channel.account, channel.account)
            yield channel if holder == channel.account else _doubled(channel, holder), replace(policy, bots=bots)
    yield from _others(channels, clock)


def _telegram(channels: ChannelsSettings, clock: SystemClock, env: Mapping[str, str]) -> Iterator[tuple[Channel, Policy]]:
    telegram = _with_tokens(channels.telegram, "telegram", env)
    for name in telegram.names():
        from channels.telegram.channel import TelegramChannel

        policy = telegram_policy(telegram.account(name))
        yield TelegramChannel(telegram, name, clock=clock, log=structlog.get_logger("channels.telegram")), policy


def _discord(channels: ChannelsSettings, clock: SystemClock, env: Mapping[str, str]) -> Iterator[tuple[Channel, Policy]]:
    discord = _with_tokens(channels.discord, "discord", env)
    for name in discord.names():
        from channels.discord.channel import DiscordChannel

        policy = discord_policy(discord.account(name))
        yield DiscordChannel(discord, name, clock=clock, log=structlog.get_logger("channels.discord")), policy


def _slack(channels: ChannelsSettings, clock: SystemClock, env: Mapping[str, str]) -> Iterator[tuple[Channel, Policy]]:
    slack = _with_tokens(channels.slack, "slack", env)
    for name in slack.names():
        from channels.slack.channel import SlackChannel

        policy = slack_policy(slack.account(name))
        yield SlackChannel(slack, name, clock=clock, log=structlog.get_logger("channels.slack")), policy


def _others(channels: ChannelsSettings, clock: SystemClock) -> Iterator[tuple[Channel, Policy]]:
    """Yield the channels that other installed packages bring."""
    found = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)} if channels.plugins else {}
    for name, plugin in channels.plugins.items():
        if not plugin.enabled:
            continue
        channel = _made(name, found, plugin.settings, clock)
        yield channel, Policy(dm_policy=plugin.dm_policy, allow_from=plugin.allow_from, groups=frozenset(plugin.groups))


def _bot(account: Any) -> object:
    """Return what tells one bot of a platform from another: its token, or where that is kept."""
    keys = ("bot_token", "token", "token_file")
    return next((value for key in keys if (value := getattr(account, key, None)) is not None), None)


def _doubled(channel: Channel, holder: str) -> Channel:
    """Return what stands for an account whose token another one has: each would take the other's messages, or answer them too."""
    return BrokenChannel(
        channel.name,
        f"The accounts {holder} and {channel.account} of {channel.name} have one token.",
        f"Give each a bot of its own, or take channels.{channel.name}.accounts.{channel.account} out.",
        account=channel.account,
    )


def _made(name: str, found: Mapping[str, EntryPoint], settings: Mapping[str, Any], clock: SystemClock) -> Channel:
    """Return the channel of another package, or what stands for it: it may hold up neither the house nor other channels."""
    if name not in found:
        known = ", ".join(sorted(found)) or "none"
        return BrokenChannel(
            name,
            f"No installed package brings the channel {name!r} (there is: {known}).",
            f"Install its package beside homebody and restart the gateway, or set channels.plugins.{name}.enabled to false.",
        )
    try:
        channel: Channel = found[name].load()(
            revealed(settings), account="default", clock=clock, log=structlog.get_logger(f"channels.{name}")
        )
    except ChannelError as error:
        return BrokenChannel(name, str(error), error.hint)
    except Exception as error:  # noqa: BLE001  (whatever goes wrong in another's package is told as that channel's trouble)
        why = f"The channel {name!r} could not be made: {type(error).__name__}: {error}."
        return BrokenChannel(name, why, f"Look at channels.plugins.{name}.settings; the package's documentation tells.")
    return channel


def telegram_policy(account: TelegramAccount) -> Policy:
    """Return who may speak to a Telegram bot."""

    def rule_of(rule: TelegramGroupRule) -> GroupRule:
        return GroupRule(
            allow=rule.enabled,
            require_mention=rule.require_mention,
            users=_people(account.speakers(rule)),
            tools=_tools("channels.telegram.groups", rule.tools),
        )

    named = account.groups if account.group_policy != "disabled" else {}
    rules = {
        group: replace(rule_of(rule), threads={topic: rule_of(rule.at(topic)) for topic in rule.topics})
        for group, rule in named.items()
    }
    if account.group_policy == "open":
        rules.setdefault(ANYBODY, GroupRule(users=_people(account.group_allow_from)))
    return Policy(dm_policy=account.dm_policy, allow_from=tuple(account.allow_from), rules={ANYBODY: rules})


def discord_policy(account: DiscordAccount) -> Policy:
    """Return who may speak to a Discord bot."""
    rules = {}
    named = account.guilds if account.group_policy != "disabled" else {}
    for guild, rule in named.items():
        where = f"channels.discord.guilds.{guild}"
        shared = GroupRule(require_mention=rule.require_mention, users=_people(rule.users), tools=_tools(where, rule.tools))
        rules[guild] = {
            channel: GroupRule(
                allow=entry.allow,
                require_mention=rule.require_mention if entry.require_mention is None else entry.require_mention,
                users=_people(rule.users if entry.users is None else entry.users),
                tools=_tools(where, rule.tools, entry.tools),
            )
            for channel, entry in rule.channels.items()
        }
        if not rule.channels or account.group_policy == "open":
            rules[guild].setdefault(ANYBODY, shared)
    if account.group_policy == "open":
        rules.setdefault(ANYBODY, {ANYBODY: GroupRule()})
    dm_policy = account.dm.policy if account.dm.enabled else "disabled"
    return Policy(dm_policy=dm_policy, allow_from=tuple(account.dm.allow_from), rules=rules)


def slack_policy(account: SlackAccount) -> Policy:
    """Return who may speak to a Slack app."""
    named = account.channels if account.group_policy != "disabled" else {}
    rules = {
        channel: GroupRule(
            allow=rule.allow,
            require_mention=rule.require_mention,
            users=_people(rule.users),
            tools=_tools("channels.slack.channels", rule.tools),
        )
        for channel, rule in named.items()
    }
    if account.group_policy == "open":
        rules.setdefault(ANYBODY, GroupRule())
    dm_policy = account.dm.policy if account.dm.enabled else "disabled"
    bots = account.allow_bots or any(rule.allow_bots for rule in account.channels.values())
    return Policy(dm_policy=dm_policy, allow_from=tuple(account.dm.allow_from), rules={ANYBODY: rules}, bots=bots)


def _tools(where: str, *given: GroupTools | None) -> tuple[ToolRules, ...]:
    """Return what a group's settings say of tools. Raises UsageError for a group of tools that is not there."""
    try:
        return tuple(ToolRules(allow=one.allow, deny=one.deny) for one in given if one is not None)
    except ValidationError as error:
        raise UsageError(
            str(error.errors()[0]["msg"]), where=f"{where}: tools", hint="Correct it there; `homebody config get` shows it."
        ) from error


def _people(listed: list[str] | None) -> tuple[str, ...] | None:
    return None if listed is None else tuple(listed)


def _with_tokens(section: Any, platform: str, env: Mapping[str, str]) -> Any:
    """Return the section with what the environment says, where it says nothing itself."""
    if any(getattr(section, key) is not None for key in (*_IN_ENV[platform], "token_file") if hasattr(section, key)):
        return section
    found = {key: SecretStr(token) for key, name in _IN_ENV[platform].items() if (token := env.get(name, "").strip())}
    return section.model_copy(update=found) if found else section
