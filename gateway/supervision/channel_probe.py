"""Tests a chat channel: does the platform accept its token, and under which name does the bot sign in?"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from channels.errors import ChannelError
from channels.protocol import Channel

PROBE_SECONDS: Final = 20.0


async def probe_channel(channel: Channel) -> dict[str, Any]:
    """Ask the platform of a channel that does not run, and close it. The result is JSON values; ``ok`` is None if it cannot be tested."""
    ask = getattr(channel, "probe", None)
    if ask is None:
        return {"ok": None, "error": "this channel cannot be tested"}
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            return {"ok": True, "name": await ask()}
    except ChannelError as error:
        return {"ok": False, "error": str(error), "mend": error.hint}
    except TimeoutError:
        return {"ok": False, "error": f"no answer within {PROBE_SECONDS:.0f} seconds", "mend": "Check the network."}
    finally:
        await channel.close()
