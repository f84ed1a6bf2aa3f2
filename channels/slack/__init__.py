"""Slack. Modules that load the client library say so; they are imported off the event loop. The others are light."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.common.log import Log
from channels.platform import ANYBODY, Platform, Policy, SetupGuide, place_rules
from channels.protocol import Channel, Clock
from channels.slack.settings import SlackSettings

if TYPE_CHECKING:
    from channels.message_search import MessageSearch
    from channels.slack.settings import SlackAccount


def make(settings: SlackSettings, *, account: str, clock: Clock, log: Log) -> Channel:
    """Return the channel of one account."""
    from channels.slack.channel import SlackChannel

    return SlackChannel(settings, account, clock=clock, log=log)


def policy(account: SlackAccount) -> Policy:
    """Return who may speak to a Slack app."""
    rules = place_rules(account.channels, policy=account.group_policy, tools_key="channels.slack.channels")
    dm_policy = account.dm.policy if account.dm.enabled else "disabled"
    bots = account.allow_bots or any(rule.allow_bots for rule in account.channels.values())
    return Policy(dm_policy=dm_policy, allow_from=tuple(account.dm.allow_from), rules={ANYBODY: rules}, bots=bots)


def search(account: SlackAccount) -> MessageSearch | None:
    """Return what searches with a token of the owner's."""
    if account.user_token is None:
        return None
    from channels.slack.slack_search import search_of

    return search_of(account)


GUIDE = SetupGuide(
    title="Slack",
    steps=(
        "Open https://api.slack.com/apps, Create New App, From a manifest, and paste the one in docs/slack.md.",
        "Install it into your workspace (OAuth & Permissions) and copy the Bot User OAuth Token (xoxb-...).",
        "Basic Information, App-Level Tokens: make one with the scope connections:write (xapp-...).",
    ),
    secrets=(("botToken", "Bot token (xoxb-...)"), ("appToken", "App-level token (xapp-...)")),
    where="in a direct message to the app",
)

PLATFORM = Platform(
    name="slack",
    settings=SlackSettings,
    make=make,
    policy=policy,
    env={"bot_token": "SLACK_BOT_TOKEN", "app_token": "SLACK_APP_TOKEN", "signing_secret": "SLACK_SIGNING_SECRET"},
    chat_ids={"direct": r"[UW][A-Z0-9]{2,20}", "group": r"[CG][A-Z0-9]{2,20}"},
    guide=GUIDE,
    allows_group="channels.{id}.allow",
    group_users="channels.{id}.users",
    search=search,
)
