"""The `PLATFORM` object that a channel package exports: how the gateway reads its settings and makes its channels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct, field

from channels.common.log import Log
from channels.common.shared_settings import DmPolicy, GroupTools
from channels.messages import ChatAddress, ChatKind
from channels.protocol import Channel, Clock

if TYPE_CHECKING:
    from pydantic import BaseModel

    from channels.message_search import MessageSearch

ANYBODY: Final = "*"
"""In a list of people or groups: all of them."""


class GroupChoices(Struct, frozen=True, kw_only=True):
    """What the settings choose for one group; empty where they leave it to the agent. ``welcome`` is a text, or whether there is one."""

    model: str = ""
    language: str = ""
    welcome: bool | str = True


class GroupRule(Struct, frozen=True, kw_only=True):
    """Who may speak in one group, and whether they must mention the agent.

    ``users`` None means the people in the policy's ``allow_from``. ``tools`` narrow what the agent may use there, and ``tools_key`` is
    where the settings say so. ``choices`` are its model, language and welcome. ``threads`` are threads with a rule of their own.
    """

    allow: bool = True
    require_mention: bool = True
    users: tuple[str, ...] | None = None
    tools: tuple[GroupTools, ...] = ()
    tools_key: str = ""
    choices: GroupChoices = field(default_factory=GroupChoices)
    threads: Mapping[str, GroupRule] = field(default_factory=dict)


class Policy(Struct, frozen=True, kw_only=True):
    """Who may speak on one channel account.

    ``allow_from`` holds immutable platform ids; the first is the owner, the others are guests. Empty means nobody.
    ``open`` lets everybody in only when ``"*"`` is listed. ``groups`` are the ids of groups that may be spoken in, where
    senders must be in ``allow_from``: being paired in private gives no right in a group. ``rules`` say more of groups, by space
    (a guild or team) and group, each ``"*"`` for all that are not named. ``local`` marks a channel that only the owner of
    this machine reaches. ``group_users`` are those who may speak in groups that ``rules`` do not name, by space; where it says nothing,
    ``allow_from`` does. ``bots``: accept messages from listed bots. ``unproven`` begins the ids of senders whom anybody can pass
    themselves off as: they are never paired.
    """

    dm_policy: DmPolicy = "pairing"
    allow_from: tuple[str, ...] = ()
    groups: frozenset[str] = frozenset()
    rules: Mapping[str, Mapping[str, GroupRule]] = field(default_factory=dict)
    group_users: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    local: bool = False
    bots: bool = False
    unproven: str = ""

    def group(self, conversation: ChatAddress) -> GroupRule | None:
        """Return the rule for a group, or None for one that is not listed."""
        space = self.rules.get(conversation.space or ANYBODY) or self.rules.get(ANYBODY, {})
        rule = space.get(conversation.id) or space.get(ANYBODY)
        if rule is None:
            return GroupRule() if conversation.id in self.groups else None
        return rule.threads.get(conversation.thread or "", rule)

    def speakers(self, conversation: ChatAddress) -> tuple[str, ...]:
        """Return who may speak in a group; of one that is not listed, who may once it is."""
        rule = self.group(conversation)
        users = self.group_users.get(conversation.space or ANYBODY) if rule is None else rule.users
        return self.allow_from if users is None else users


class ChannelFactory(Protocol):
    """Makes the channel of one account. It opens no connection; ``Channel.run`` does."""

    def __call__(self, settings: Any, *, account: str, clock: Clock, log: Log) -> Channel:
        """Return the channel. Raises ChannelError where the settings cannot work."""
        ...


class StatefulFactory(Protocol):
    """Makes the channel of one account that keeps files, such as the keys of an encrypted conversation."""

    def __call__(self, settings: Any, *, account: str, clock: Clock, log: Log, state: Path | None) -> Channel:
        """Return the channel. ``state`` is where its folder may be made; None where the channel will only be looked at."""
        ...


class DeviceTools(Protocol):
    """What the command line does with the device of an account, in files beside the gateway that may be running."""

    def facts(self) -> dict[str, Any]:
        """Return the account, device, fingerprint and whether it is verified. Raises ChannelError if it never signed in."""
        ...

    def forget(self) -> dict[str, Any]:
        """Make the next start sign in as a new device; return the facts of the one that is given up."""
        ...

    def verification(self) -> dict[str, Any]:
        """Return the verification that runs or was the last: id, user, device, state, emoji; empty if there was none."""
        ...

    def answer(self, identity: str, *, same: bool) -> None:
        """Tell the running gateway whether the emoji of a verification are the same on both devices."""
        ...

    def confirm(self, recovery: str) -> None:
        """Confirm the device by the account's identity, whose recovery key or security phrase is given. Blocking.

        Raises ChannelError, as ``make_identity`` does.
        """
        ...

    def make_identity(self, password: Callable[[], str], show: Callable[[str], None]) -> None:
        """Give the account an identity and confirm the device by it; ``show`` gets the recovery key before. Blocking.

        ``password`` is asked for the account's password where the server wants it.
        """
        ...


class SetupGuide(Struct, frozen=True, kw_only=True):
    """How a person sets up the bot of a platform: `homebody setup` shows it and asks for the secrets.

    ``steps`` are what to do on the platform, one sentence each. ``secrets`` are keys of the platform's section with the words that ask
    for them, ``questions`` likewise keys that are no secrets, which are asked before. ``invite`` makes the address that opens a chat
    with the bot and sends it a one-time code, given the name under which it signs in and the code; without it the person sends the
    code by hand, ``where`` the guide says. ``afterwards`` are keys that setup finds out itself (``proposals`` of the channel), with words
    for whoever sets them by hand. ``env`` gives further environment variables that setup takes answers from and saves, by key.
    """

    title: str
    steps: tuple[str, ...]
    secrets: tuple[tuple[str, str], ...]
    questions: tuple[tuple[str, str], ...] = ()
    afterwards: tuple[tuple[str, str], ...] = ()
    where: str = "in a private message"
    invite: Callable[[str, str], str] | None = None
    env: Mapping[str, str] = field(default_factory=dict)


class Platform(Struct, frozen=True, kw_only=True):
    """A chat platform. A package of its own offers one under the entry point group ``homebody.channels``.

    ``make`` is given the platform's whole section and the name of the account; with a package of its own, what
    ``channels.plugins.<name>.settings`` holds, checked by the model ``settings`` where there is one. ``policy`` reads who may speak
    from the settings of one account; without it the keys of ``channels.plugins.<name>`` say so. ``env`` gives the environment
    variables that may hold the secrets of the account `default`, by field of the section. ``identity`` is the field that differs between
    any two bots; without it the first of ``env``.
    ``chat_ids`` are regular expressions of the ids of private chats and groups (``ChatAddress.id``); without one any id is possible.
    ``guide`` tells a person how to get a bot. ``allows_group`` is the setting that lets the bot be spoken to in a group, below the
    account's section: ``{id}`` stands for the group and ``{space}`` for its server. ``group_users`` is likewise the list of those who may
    speak there. ``make_with_state`` is called in place of ``make`` where the installation is known, and ``device`` gives the tools for the
    device that an account keeps in such a folder.
    ``search`` searches what the owner can read there, from the settings of one account, where they have a token for it.
    """

    name: str
    make: ChannelFactory
    make_with_state: StatefulFactory | None = None
    settings: type[BaseModel] | None = None
    policy: Callable[[Any], Policy] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    identity: str = ""
    chat_ids: Mapping[ChatKind, str] = field(default_factory=dict)
    guide: SetupGuide | None = None
    allows_group: str = ""
    group_users: str = ""
    device: Callable[[Path], DeviceTools] | None = None
    search: Callable[[Any], MessageSearch | None] | None = None


def people(listed: list[str] | None) -> tuple[str, ...] | None:
    """Return a list of people as a rule holds it."""
    return None if listed is None else tuple(listed)


class ChoosingSection(Protocol):
    """What the settings choose for one group (``GroupSection``)."""

    @property
    def model(self) -> str | None: ...  # noqa: D102
    @property
    def language(self) -> str | None: ...  # noqa: D102
    @property
    def welcome(self) -> bool | str | None: ...  # noqa: D102


class PlaceRule(ChoosingSection, Protocol):
    """What the settings say of one room or channel that lies in no server."""

    @property
    def allow(self) -> bool: ...  # noqa: D102
    @property
    def require_mention(self) -> bool: ...  # noqa: D102
    @property
    def users(self) -> list[str] | None: ...  # noqa: D102
    @property
    def tools(self) -> GroupTools | None: ...  # noqa: D102


def place_rules(listed: Mapping[str, PlaceRule], *, policy: str, tools_key: str) -> dict[str, GroupRule]:
    """Return the rules of rooms or channels that lie in no server, by their ids. ``policy`` is the account's ``groupPolicy``."""
    rules = {
        place: GroupRule(
            allow=rule.allow,
            require_mention=rule.require_mention,
            users=people(rule.users),
            tools=tool_rules(rule.tools),
            tools_key=tools_key,
            choices=choices_of(rule),
        )
        for place, rule in (listed.items() if policy != "disabled" else ())
    }
    if policy == "open":
        rules.setdefault(ANYBODY, GroupRule())
    return rules


def tool_rules(*given: GroupTools | None) -> tuple[GroupTools, ...]:
    """Return those sections on tools that are set."""
    return tuple(one for one in given if one is not None)


def choices_of(*sections: ChoosingSection) -> GroupChoices:
    """Return what sections on one place choose; what a later one sets goes before an earlier one's."""
    said = {
        key: value
        for section in sections
        for key in ("model", "language", "welcome")
        if (value := getattr(section, key)) is not None
    }
    return GroupChoices(**said)
