"""Matrix. ``settings``, ``channel`` and ``markup`` are light; modules that load aiohttp or nio say so, and load off the event loop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from channels.common.log import Log
from channels.matrix.settings import PERSON, ROOM, MatrixSettings
from channels.platform import ANYBODY, DeviceTools, Platform, Policy, SetupGuide, place_rules
from channels.protocol import Channel, Clock

if TYPE_CHECKING:
    from channels.matrix.settings import MatrixAccount


def make(settings: MatrixSettings, *, account: str, clock: Clock, log: Log, state: Path | None = None) -> Channel:
    """Return the channel of one account. ``state`` is the folder of its device and keys; without one it can only be probed."""
    from channels.matrix.channel import MatrixChannel

    return MatrixChannel(settings, account, clock=clock, log=log, state=state)


def policy(account: MatrixAccount) -> Policy:
    """Return who may speak to a Matrix account."""
    rules = place_rules(account.groups, policy=account.group_policy, tools_key="channels.matrix.groups")
    dm_policy = account.dm.policy if account.dm.enabled else "disabled"
    return Policy(dm_policy=dm_policy, allow_from=tuple(account.dm.allow_from), rules={ANYBODY: rules}, bots=account.allow_bots)


def device(folder: Path) -> DeviceTools:
    """Return the tools for the device that a folder holds."""
    from channels.matrix.device_files import DeviceFiles

    return DeviceFiles(folder)


GUIDE = SetupGuide(
    title="Matrix",
    steps=(
        "Make an account for the agent on your homeserver (its own, not yours): register it in Element, or ask whoever runs the server.",
        "Have the address of the homeserver, the account's id (@homebody:example.org) and its password at hand; they are asked next.",
    ),
    questions=(
        ("homeserver", "Address of the homeserver (https://matrix.example.org)"),
        ("userId", "Id of the agent's account (@homebody:example.org)"),
    ),
    secrets=(("password", "Password of the account"),),
    where="in a private chat (invite its account: it joins by itself)",
    env={"homeserver": "MATRIX_HOMESERVER", "userId": "MATRIX_USER_ID"},
)

PLATFORM = Platform(
    name="matrix",
    settings=MatrixSettings,
    make=make,
    make_with_state=make,
    policy=policy,
    env={"access_token": "MATRIX_ACCESS_TOKEN", "password": "MATRIX_PASSWORD"},
    chat_ids={"direct": PERSON, "group": ROOM},
    guide=GUIDE,
    allows_group="groups.{id}.allow",
    group_users="groups.{id}.users",
    device=device,
)
