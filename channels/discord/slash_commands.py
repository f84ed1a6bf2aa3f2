"""Sets the slash commands (https://discord.com/developers/docs/interactions/application-commands) where they differ."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from channels.discord.gateway_client import GatewayClient
    from channels.protocol import MenuEntry

MOST = 100
LONGEST = 100
ARGUMENT = "argument"
_NAME = re.compile(r"[-_\w]{1,32}")
_TEXT = 3


async def offer(link: GatewayClient, entries: Sequence[MenuEntry]) -> bool:
    """Set the bot's commands; return whether they had to be changed. Raises one of ``TROUBLE``."""
    bot = int(link.me)
    wanted = commands(entries)
    offered = await link.http.get_global_commands(bot)
    if _compared(map(dict, offered)) == _compared(wanted):
        return False
    await link.http.bulk_upsert_global_commands(bot, wanted)
    return True


def commands(entries: Sequence[MenuEntry]) -> list[dict[str, Any]]:
    """Return commands in Discord's form; one with an invalid name is left out, and can still be typed."""
    named = {name: entry for entry in entries if _NAME.fullmatch(name := entry.name.lower()) and name == name.lower()}
    return [_command(name, entry) for name, entry in list(named.items())[:MOST]]


def _command(name: str, entry: MenuEntry) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": name,
        "description": _short(entry.help) or name,
        "type": 1,
        "contexts": [0, 1],  # servers, and private messages with the bot
        "integration_types": [0],
    }
    if hint := _short(entry.argument):
        shown["options"] = [{"name": ARGUMENT, "description": hint, "type": _TEXT}]
    return shown


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _compared(found: Iterable[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the comparable part of commands: Discord adds fields, omits defaults, and sorts them."""
    return sorted(
        (
            str(one.get("name")),
            str(one.get("description")),
            sorted(one.get("contexts") or ()),
            [(option.get("name"), option.get("description"), option.get("type")) for option in one.get("options") or ()],
        )
        for one in found
    )
