"""Makes a channel for each account of a chat platform in the settings. Platforms load their libraries when a channel first runs."""

from __future__ import annotations

from importlib.metadata import entry_points
from itertools import islice
from typing import TYPE_CHECKING, Any

import structlog
from pydantic import SecretStr, ValidationError

from channels.built_in import BUILT_IN
from channels.errors import ChannelError
from channels.platform import Platform
from gateway.base.errors import UsageError
from gateway.config.secrets import revealed
from gateway.routing.group_tools import rules_of
from gateway.supervision.broken_channel import BrokenChannel

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from importlib.metadata import EntryPoint

    from channels.platform import GroupRule, Policy
    from channels.protocol import Channel
    from gateway.base.clock import SystemClock
    from gateway.settings.root import Settings

ENTRY_POINTS = "homebody.channels"
"""Where other packages offer their ``Platform``, under the platform's name. The function that makes the channel will do as well."""


def platforms(settings: Settings, clock: SystemClock, env: Mapping[str, str]) -> Iterator[tuple[Channel, Policy]]:
    """Yield a channel for each enabled account, with its policy. A token may also stand in ``env``, for the default account.

    A channel that cannot be made is replaced by an ``BrokenChannel``, which says why; the others are made all the same.

    Raises:
        UsageError: a group's settings name a group of tools that is not there.
    """
    channels = settings.channels
    for platform in BUILT_IN:
        section = _with_tokens(getattr(channels, platform.name), platform, env)
        yield from _accounts(platform, section, section, clock)
    found = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)} if channels.plugins else {}
    for name, plugin in channels.plugins.items():
        yield from _accounts(_offered(name, found), plugin, revealed(plugin.settings), clock)


def _accounts(platform: Platform, section: Any, given: Any, clock: SystemClock) -> Iterator[tuple[Channel, Policy]]:
    """Yield the channels of one platform. ``given`` is what its factory is handed of the section."""
    holders: dict[Any, str] = {}
    for name in section.names():
        account = section.account(name)
        policy: Policy = account.policy() if platform.policy is None else platform.policy(account)
        _check_tools(rule for space in policy.rules.values() for rule in space.values())
        channel = _made(platform, given, name, clock)
        holder = holders.setdefault(_bot(platform, account) or name, name)
        yield channel if holder == name else _doubled(channel, holder), policy


def _made(platform: Platform, given: Any, account: str, clock: SystemClock) -> Channel:
    """Return the channel of one account, or what stands for it: one that cannot be made may hold up no other."""
    name = platform.name
    try:
        return platform.make(given, account=account, clock=clock, log=structlog.get_logger(f"channels.{name}"))
    except ChannelError as error:
        return BrokenChannel(name, str(error), error.hint, account=account)
    except Exception as error:  # noqa: BLE001  (whatever goes wrong in a platform's package is told as that channel's trouble)
        why = f"The channel {name!r} could not be made: {type(error).__name__}: {error}."
        hint = f"Look at channels.plugins.{name}.settings; the package's documentation tells."
        return BrokenChannel(name, why, hint, account=account)


def _offered(name: str, found: Mapping[str, EntryPoint]) -> Platform:
    """Return the platform that another package offers. Its ``make`` raises where the package is missing or cannot be loaded."""

    def make(settings: Any, **more: Any) -> Channel:
        if name not in found:
            known = ", ".join(sorted(found)) or "none"
            raise ChannelError(
                f"No installed package brings the channel {name!r} (there is: {known}).",
                hint=f"Install its package beside homebody and restart the gateway, or set channels.plugins.{name}.enabled to false.",
            )
        offered = found[name].load()
        if not isinstance(offered, Platform):
            made: Channel = offered(settings, **more)
            return made
        return offered.make(settings if offered.settings is None else offered.settings.model_validate(settings), **more)

    return Platform(name=name, make=make)


def _bot(platform: Platform, account: Any) -> object:
    """Return what tells one bot of a platform from another: its token, or where that is kept."""
    keys = (*islice(platform.env, 1), "token_file")
    return next((value for key in keys if (value := getattr(account, key, None)) is not None), None)


def _doubled(channel: Channel, holder: str) -> Channel:
    """Return what stands for an account whose token another one has: each would take the other's messages, or answer them too."""
    return BrokenChannel(
        channel.name,
        f"The accounts {holder} and {channel.account} of {channel.name} have one token.",
        f"Give each a bot of its own, or take channels.{channel.name}.accounts.{channel.account} out.",
        account=channel.account,
    )


def _check_tools(rules: Iterable[GroupRule]) -> None:
    """Raise UsageError for a group of tools that is not there."""
    for rule in rules:
        try:
            rules_of(rule)
        except ValidationError as error:
            raise UsageError(
                str(error.errors()[0]["msg"]),
                where=f"{rule.tools_key}: tools",
                hint="Correct it there; `homebody config get` shows it.",
            ) from error
        _check_tools(rule.threads.values())


def _with_tokens(section: Any, platform: Platform, env: Mapping[str, str]) -> Any:
    """Return the section with what the environment says, where it says nothing itself."""
    if any(getattr(section, key, None) is not None for key in (*platform.env, "token_file")):
        return section
    found = {key: SecretStr(token) for key, name in platform.env.items() if (token := env.get(name, "").strip())}
    return section.model_copy(update=found) if found else section
