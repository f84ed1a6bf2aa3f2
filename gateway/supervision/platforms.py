"""Makes a channel for each account of a chat platform; a placeholder where that fails. Libraries are loaded when a channel first runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr, ValidationError

from channels.built_in import BUILT_IN
from channels.errors import ChannelBroken, ChannelError, NotSent
from channels.messages import ChatAddress, Outbound, Sent
from channels.platform import GroupRule, Platform, Policy
from channels.protocol import Channel, InboundSink
from gateway.base.clock import SystemClock
from gateway.base.errors import UsageError
from gateway.base.structured_log import structlog
from gateway.config.secrets import revealed
from gateway.routing.access import rules_of
from gateway.settings.root import Settings

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "homebody.channels"
"""The entry point group in which other packages register their ``Platform`` (or its ``make`` function) by the platform's name."""


def platforms(
    settings: Settings, clock: SystemClock, env: Mapping[str, str], state: Path | None = None
) -> Iterator[tuple[Channel, Policy]]:
    """Yield a channel for each enabled account, with its policy. The default account's token may also come from ``env``.

    ``state`` is the state folder, for platforms that keep files there; without it such channels can only be looked at.

    A channel that cannot be created is replaced by a ``BrokenChannel`` that reports why; the others are not affected.

    Raises:
        UsageError: a group's settings name an unknown tool group.
    """
    channels = settings.channels
    for platform in BUILT_IN:
        section = _with_tokens(getattr(channels, platform.name), platform, env)
        yield from _accounts(platform, section, section, clock, state)
    found = _from_other_packages() if channels.plugins else {}
    for name, plugin in channels.plugins.items():
        yield from _accounts(_offered(name, found), plugin, revealed(plugin.settings), clock, state)


def _from_other_packages() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


def _accounts(
    platform: Platform, section: Any, given: Any, clock: SystemClock, state: Path | None
) -> Iterator[tuple[Channel, Policy]]:
    """Yield the channels of one platform. ``given``: the settings section for its factory."""
    holders: dict[Any, str] = {}
    for name in section.names():
        account = section.account(name)
        policy: Policy = account.policy() if platform.policy is None else platform.policy(account)
        _check_tools(rule for space in policy.rules.values() for rule in space.values())
        channel = _made(platform, given, name, clock, state)
        holder = holders.setdefault(_bot(platform, account) or name, name)
        yield channel if holder == name else _doubled(channel, holder), policy


def _made(platform: Platform, given: Any, account: str, clock: SystemClock, state: Path | None) -> Channel:
    """Return the channel of one account, or a ``BrokenChannel`` if it cannot be created."""
    name = platform.name
    log = structlog.get_logger(f"channels.{name}")
    try:
        if platform.make_with_state is not None:
            folder = None if state is None else state_of(state, name, account)
            return _equipped(platform.make_with_state(given, account=account, clock=clock, log=log, state=folder))
        return _equipped(platform.make(given, account=account, clock=clock, log=log))
    except ChannelError as error:
        return BrokenChannel(name, str(error), error.hint, account=account)
    except Exception as error:  # noqa: BLE001  (whatever goes wrong in a platform's package is told as that channel's trouble)
        why = f"The channel {name!r} could not be created: {type(error).__name__}: {error}."
        hint = f"Check channels.plugins.{name}.settings against the package's documentation."
        return BrokenChannel(name, why, hint, account=account)


def state_of(state: Path, name: str, account: str) -> Path:
    """Return the folder in which an account of a platform keeps its files."""
    return state / "channels" / name / account


def _equipped(channel: Channel) -> Channel:
    """Give a channel whose messages are HTML, or do not say their encoding, what reads them. It is loaded when it is first asked."""
    if hasattr(channel, "html"):
        channel.html = _read_html
    if hasattr(channel, "plain"):
        channel.plain = _read_plain
    return channel


async def _read_html(html: bytes, charset: str) -> str:
    from gateway.mail.message_text import visible_text

    return await visible_text(html, charset)


def _read_plain(text: bytes, charset: str) -> str:
    from gateway.mail.message_text import plain_text

    return plain_text(text, charset)


def _offered(name: str, found: Mapping[str, EntryPoint]) -> Platform:
    """Return the platform of another package. Its ``make`` raises if the package is missing or cannot be loaded."""

    def make(settings: Any, **more: Any) -> Channel:
        if name not in found:
            known = ", ".join(sorted(found)) or "none"
            raise ChannelError(
                f"No installed package provides the channel {name!r} (available: {known}).",
                hint=f"Install its package and restart the gateway, or set channels.plugins.{name}.enabled to false.",
            )
        offered = found[name].load()
        if not isinstance(offered, Platform):
            made: Channel = offered(settings, **more)
            return made
        return offered.make(settings if offered.settings is None else offered.settings.model_validate(settings), **more)

    return Platform(name=name, make=make)


def _bot(platform: Platform, account: Any) -> object:
    """Return what identifies a bot of a platform: its token, or where the token comes from."""
    keys = (platform.identity,) if platform.identity else (*islice(platform.env, 1), "token_file")
    return next((value for key in keys if (value := getattr(account, key, None)) is not None), None)


def _doubled(channel: Channel, holder: str) -> Channel:
    """Return the placeholder for an account with the same token as another: both would receive the same messages."""
    return BrokenChannel(
        channel.name,
        f"The accounts {holder} and {channel.account} of {channel.name} have the same token.",
        f"Create a bot for each, or remove channels.{channel.name}.accounts.{channel.account}.",
        account=channel.account,
    )


def _check_tools(rules: Iterable[GroupRule]) -> None:
    """Raise UsageError for an unknown tool group."""
    for rule in rules:
        try:
            rules_of(rule)
        except ValidationError as error:
            raise UsageError(
                str(error.errors()[0]["msg"]),
                where=f"{rule.tools_key}: tools",
                hint="Correct this setting; `homebody config get` shows it.",
            ) from error
        _check_tools(rule.threads.values())


def _with_tokens(section: Any, platform: Platform, env: Mapping[str, str]) -> Any:
    """Return the section, completed from environment variables where it has no value."""
    if any(getattr(section, key, None) is not None for key in (*platform.env, "token_file")):
        return section
    found = {key: SecretStr(token) for key, name in platform.env.items() if (token := env.get(name, "").strip())}
    return section.model_copy(update=found) if found else section


class BrokenChannel:
    """A ``Channel`` that always fails with the reason. Its outgoing messages wait until the real channel exists."""

    absent = True
    """No retries: only a restart or changed settings create the real channel."""

    def __init__(self, name: str, why: str, hint: str, *, account: str = "default") -> None:
        self.name = name
        self.account = account
        self.why = why
        self.hint = hint

    async def run(self, sink: InboundSink) -> None:  # noqa: ARG002 - it never opens
        """Raise ``ChannelBroken``."""
        raise ChannelBroken(self.why, hint=self.hint)

    def chunks(self, markdown: str) -> list[str]:
        """Return the reply uncut, because the platform's limits are unknown."""
        return [markdown] if markdown.strip() else []

    async def send(self, outbound: Outbound, record: Callable[[str], Awaitable[None]]) -> Sent:  # noqa: ARG002 - for nobody
        """Raise ``NotSent``."""
        raise NotSent(self.why, hint=self.hint)

    async def typing(self, conversation: ChatAddress) -> None:
        """Show nothing."""

    async def probe(self) -> str:
        """Raise ``ChannelBroken``."""
        raise ChannelBroken(self.why, hint=self.hint)

    async def close(self) -> None:
        """Nothing is open."""
