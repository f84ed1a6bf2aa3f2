"""The commands that let people speak in a group: its settings by the names that the group's platform gives them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import msgspec

from channels.built_in import BUILT_IN
from channels.messages import ChatAddress
from channels.platform import ANYBODY
from gateway.config.syntax_tree import dotted_key


def commands_that_allow(
    group: ChatAddress, *, speakers: Sequence[str], owners: Sequence[str], listed: bool = False
) -> tuple[str, ...]:
    """Return the commands after which a group is read, and the owner is heard there unless a list says who is.

    Pairing in private gives no right in a group, so that where no list says who may speak (``speakers``), the commands write one for the
    group that holds the owner's ids on the account (``owners``). ``listed``: the settings name the group, and switch it off.
    """
    names_owners = bool(owners) and not speakers
    commands = [] if names_owners and not listed else [f"homebody config set {setting_of(group)}"]
    return (*commands, command_that_lists(group, owners)) if names_owners else tuple(commands)


def command_that_lists(group: ChatAddress, people: Sequence[str]) -> str:
    """Return the command after which those people, and nobody else, may speak in a group."""
    return f"homebody config set {shlex.quote(users_key(group))} {shlex.quote(msgspec.json.encode(list(people)).decode())}"


def setting_of(group: ChatAddress) -> str:
    """Return the setting that allows a group, with its value, as ``homebody config set`` takes them."""
    return f"{shlex.quote(_key(group, users=False))} true"


def users_key(group: ChatAddress) -> str:
    """Return the setting that lists those who may speak in a group."""
    return _key(group, users=True)


def _key(group: ChatAddress, *, users: bool) -> str:
    platform = next((one for one in BUILT_IN if one.name == group.channel), None)
    setting = "" if platform is None else platform.group_users if users else platform.allows_group
    if not setting:
        return dotted_key(("channels", "plugins", group.channel, "groups", group.id, "users" if users else "allow"))
    account = [] if group.account == "default" else ["accounts", group.account]
    steps = (step.format(id=group.id, space=group.space or ANYBODY) for step in setting.split("."))
    return dotted_key(("channels", group.channel, *account, *steps))
