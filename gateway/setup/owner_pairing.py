"""Pairs the owner: a one-time code that they send to their bot, by a link where the platform has such links."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gateway.api import api_client
from gateway.base.errors import HomebodyError
from gateway.ledger.pairing_rows import PAIRING_TTL
from gateway.schedules.schedule_words import span_in_words
from gateway.setup.channel_step import ACCOUNT, ChosenChannel

WAIT_SECONDS = 900.0
CONNECT_SECONDS = 20.0
_EVERY = 0.5
_TOLD_EVERY = 60.0
_GOOD_FOR: Final = span_in_words(int(PAIRING_TTL.total_seconds()))


@dataclass(frozen=True, slots=True)
class Invite:
    """A code, and the link that sends it, "" where the platform has none."""

    code: str
    link: str

    def as_text(self, channel: ChosenChannel, *, scannable: bool) -> str:
        """Return what to do with it. ``scannable``: the link is shown as a QR code, too."""
        if not self.link:
            return (
                f"Send this code to your bot on {channel.guide.title}, {channel.guide.where}:\n\n    {self.code}\n\n"
                f"Whoever sends it first is the owner. It is good once, for {_GOOD_FOR}."
            )
        return (
            f"{'Scan this with your phone, or open the link,' if scannable else 'Open this link'} and press Start:\n{self.link}\n"
            f"Whoever does that first is the owner. It is good once, for {_GOOD_FOR}."
        )


async def invite(state: Path, channel: ChosenChannel) -> Invite:
    """Have the running gateway make a code for the owner."""
    facts = await api_client.ask(state, "pairing.invite", channel=channel.platform.name, account=ACCOUNT)
    code = str(facts["code"])
    make = channel.guide.invite
    return Invite(code, make(channel.bot, code) if make and channel.bot else "")


async def has_owner(state: Path, channel: ChosenChannel) -> str | None:
    """Return the name of the owner on this platform, "" if they have none; None if there is no owner yet."""
    facts = await api_client.ask(state, "pairing.list", channel=channel.platform.name)
    owner = next((one for one in facts["approved"] if one["role"] == "owner" and one["account"] == ACCOUNT), None)
    return None if owner is None else str(owner["name"] or owner["sender"])


async def wait_for_connection(state: Path, channel: ChosenChannel, *, longest: float = CONNECT_SECONDS) -> None:
    """Wait until the platform is connected, ``longest`` seconds at most: one that keeps no messages for its bot would lose the code."""
    ends = time.monotonic() + longest
    while time.monotonic() < ends:
        status = await api_client.ask(state, "status")
        one = status["channels"].get(f"{channel.platform.name}:{ACCOUNT}", {})
        if one.get("state") == "connected" or one.get("trouble"):
            return
        await asyncio.sleep(_EVERY)


async def wait_for_owner(
    state: Path, channel: ChosenChannel, tell: Callable[[str], None], *, longest: float = WAIT_SECONDS
) -> dict[str, Any] | None:
    """Wait until the code was sent; return who sent it, or None after ``longest`` seconds.

    A channel that cannot connect is told once, with what to do.
    """
    began = told = time.monotonic()
    trouble = ""
    while (waited := time.monotonic() - began) < longest:
        facts = await api_client.ask(state, "pairing.invitation", channel=channel.platform.name, account=ACCOUNT)
        if facts["owner"]:
            owner: dict[str, Any] = facts["owner"]
            return owner
        if time.monotonic() - told >= _TOLD_EVERY:
            told = time.monotonic()
            tell(f"  still waiting, after {waited:.0f} seconds (Ctrl-C skips it)")
        now = await _trouble(state, channel)
        if now and now != trouble:
            trouble = now
            tell(f"  {now}")
        await asyncio.sleep(_EVERY)
    return None


async def _trouble(state: Path, channel: ChosenChannel) -> str:
    try:
        status = await api_client.ask(state, "status")
    except HomebodyError:
        return ""
    one = status["channels"].get(f"{channel.platform.name}:{ACCOUNT}", {})
    return " ".join(str(one[key]) for key in ("trouble", "mend") if one.get(key))


def qr_code(text: str, *, colours: bool) -> str:
    """Return a QR code of blocks, two rows of it in a line, with a margin. ``colours`` make it right on light terminals too."""
    import segno

    out = io.StringIO()
    segno.make(text, error="l", micro=False).terminal(out, compact=True, border=1)
    lines = out.getvalue().splitlines()
    return "\n".join(f"\x1b[97;40m{line}\x1b[0m" if colours else line for line in lines)
