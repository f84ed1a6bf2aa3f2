"""``homebody channels``: shows the state of the chat channels, tests them, and reconnects one; which there are, and a new one."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import click

from gateway.base import errors
from gateway.cli.channel_packages import list_channels, new_channel
from gateway.cli.invocation import Invocation, pass_invocation, tell

if TYPE_CHECKING:
    from collections.abc import Callable

    from channels.platform import Policy

LOCAL = "terminal:default"
WITHOUT_SETTINGS = ("api:default", "web:default")
"""Channels that no section of the settings makes: that of programs (docs/api.md), and the page in the browser."""
_WELL = {"connected", "not running"}


@click.group()
def channels() -> None:
    """Show the chat platforms and whether they are connected."""


@channels.command()
@click.option("--probe", is_flag=True, help="Test each channel now: ask the platform whether the token is valid.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def status(invocation: Invocation, probe: bool, as_json: bool) -> int:
    """Show each configured channel: its state, who may write there, and when the platform last answered.

    Exit code 1 if a channel needs attention or does not answer.
    """
    facts = asyncio.run(_facts(invocation, probe=probe))
    tell(facts, _channels_text(facts, invocation.local_time, probed=probe), as_json=as_json)
    well = all(one["state"] in _WELL and one.get("probe", {}).get("ok") is not False for one in facts["channels"].values())
    return errors.OK if well else errors.FAILED


@channels.command()
@click.argument("name")
@pass_invocation
def restart(invocation: Invocation, name: str) -> int:
    """Reconnect a channel of the running gateway, such as telegram or telegram:work.

    The channel reads its token file and signs in again. Replies that wait to be sent there are kept and sent afterwards.
    """
    if asyncio.run(_running(invocation)) is None:
        raise errors.HomebodyError("no gateway is running", hint="Start it with: homebody start")
    from gateway.api import api_client

    answer = asyncio.run(api_client.ask(invocation.paths.local, "channels.restart", name=name))
    click.echo("\n".join(f"{one} is reconnecting. See its state with: homebody channels status" for one in answer["restarted"]))
    return errors.OK


@channels.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_invocation
def chats(invocation: Invocation, as_json: bool) -> None:
    """List the addresses of your chats and groups, the latest first.

    `homebody cron add --to` and `homebody hooks add --deliver` take them.
    """
    found = _chats(invocation)
    width = max((len(one["address"]) for one in found), default=0)
    lines = [f"{one['address']:{width}}  {invocation.local_time(one['lastMessageAt'])}  {one['sessionKey']}" for one in found]
    none = "No chat is known yet. Write to your agent on a platform first: homebody channels status"
    tell(found, "\n".join(lines) or none, as_json=as_json)


def _chats(invocation: Invocation) -> list[dict[str, str]]:
    """Return the chats that messages can be sent to, by the sessions that spoke there."""
    from gateway.base.errors import UsageError
    from gateway.cli.sessions import stores_of
    from gateway.routing.chat_addresses import checked_address
    from gateway.routing.routed_message import isolated_kind

    found: dict[str, dict[str, str]] = {}
    stores = stores_of(invocation, None)
    for record in sorted((one for store in stores.values() for one in store.all()), key=lambda one: one.spoken, reverse=True):
        if isolated_kind(record.key):
            continue  # a job's or webhook's own session: who writes there is answered by the chat's
        try:
            address = checked_address(record.address, invocation.loaded.settings).address
        except UsageError:
            continue  # the terminal, a session without a chat, or a channel that is no longer in the settings
        said = record.spoken.isoformat(timespec="seconds")
        found.setdefault(address, {"address": address, "sessionKey": record.key, "lastMessageAt": said})
    return list(found.values())


channels.add_command(list_channels)
channels.add_command(new_channel)


async def _facts(invocation: Invocation, *, probe: bool) -> dict[str, Any]:
    from gateway.base.clock import SystemClock
    from gateway.supervision.channel_probe import probe_channel
    from gateway.supervision.platforms import platforms

    running = await _running(invocation)
    found = list(platforms(invocation.loaded.settings, SystemClock(), os.environ, invocation.paths.state))
    accounts: dict[str, Any] = {}
    for channel, policy in found:
        name = f"{channel.name}:{channel.account}"
        accounts[name] = {**_policy(name, policy), **((running or {}).get(name) or {"state": "not running", "heard": None})}
    accounts |= {name: facts for name in WITHOUT_SETTINGS if (facts := (running or {}).get(name)) is not None}
    for name in (running or {}).keys() - accounts.keys() - {LOCAL}:
        accounts[name] = {**(running or {})[name], "trouble": "no longer in the settings; restart the gateway to remove it"}
    if probe:
        answers = await asyncio.gather(*(probe_channel(channel) for channel, _ in found))
        for (channel, _), answer in zip(found, answers, strict=True):
            accounts[f"{channel.name}:{channel.account}"]["probe"] = answer
    return {"running": running is not None, "channels": accounts}


async def _running(invocation: Invocation) -> dict[str, Any] | None:
    """Return the state of the running gateway's channels; None if no gateway is running."""
    from gateway.base.state_lock import describe
    from gateway.cli import gateway_calls

    holder = describe(invocation.paths.lock)
    if holder is None or not holder.socket:
        return None
    facts: dict[str, Any] = (await gateway_calls.ask(invocation.paths.local, "status"))["channels"]
    return facts


def _policy(name: str, policy: Policy) -> dict[str, Any]:
    from gateway.routing.access import concerns

    groups = len(policy.groups) + sum(len(space) for space in policy.rules.values())
    return {
        "dmPolicy": policy.dm_policy,
        "allowFrom": len(policy.allow_from),
        "groups": groups,
        "groupSettings": _group_settings(policy),
        "concerns": concerns(name, policy),
    }


def _group_settings(policy: Policy) -> dict[str, str]:
    """Return what the settings choose for groups, in words, by the group's id (and its server's)."""
    facts = {}
    for space, groups in policy.rules.items():
        for group, rule in groups.items():
            chosen = rule.choices
            words = [f"model {chosen.model}"] if chosen.model else []
            words += [f"language {chosen.language}"] if chosen.language else []
            words += ["fewer tools"] if rule.tools else []
            words += ["no welcome" if chosen.welcome is False else "a welcome of its own"] if chosen.welcome is not True else []
            if words:
                facts[group if space == "*" else f"{space}/{group}"] = ", ".join(words)
    return facts


def _channels_text(facts: dict[str, Any], local: Callable[[str], str], *, probed: bool) -> str:
    from gateway.cli.status import wait_lines

    if not facts["channels"]:
        return "No chat platform is set up. Set one up, step by step: homebody setup telegram (docs/setup.md has the others)"
    lines = [] if facts["running"] else ["No gateway is running. Start it with: homebody start"]
    for name, one in facts["channels"].items():
        heard = f", last contact {local(one['heard'])}" if one.get("heard") else ""
        who = f", private: {one['dmPolicy']}, groups: {one['groups']}" if "dmPolicy" in one else ""
        lines.append(f"{name}: {one['state']}{heard}{who}")
        lines += [f"  group {group}: {words}" for group, words in one.get("groupSettings", {}).items()]
        lines += [f"  {one[key]}" for key in ("trouble", "mend", "sending") if one.get(key)]
        lines += [f"  ! {line}" for line in wait_lines(one, local)]
        lines += [f"  ! {concern}" for concern in (*one.get("concerns", ()), *one.get("remarks", ()))]
        if probed and "probe" in one:
            lines.append(f"  {_answer(one['probe'])}")
    return "\n".join(lines)


def _answer(probe: dict[str, Any]) -> str:
    if probe["ok"]:
        return f"answers as {probe['name']}"
    if probe["ok"] is None:
        return str(probe["error"])
    return f"{probe['error']}\n  {probe.get('mend', '')}".rstrip()
