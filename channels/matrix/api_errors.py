"""What an error of a homeserver means, and what to do about it. Importing this module loads aiohttp."""

from __future__ import annotations

from typing import Final

import aiohttp

from channels.common.json_answers import BadAnswer
from channels.errors import ChannelBroken, ChannelError, NotSent, Uncertain
from channels.matrix.http_api import Refused

SIGNED_OUT: Final = frozenset({"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED", "M_USER_LOCKED"})
"""Codes after which only the owner can help."""
_HINTS: Final = {
    "M_FORBIDDEN": "invite the agent's account into the room, or let it write there (Element: Room settings, Roles & Permissions)",
    "M_TOO_LARGE": "send a smaller file, or a link",
    "M_UNABLE_TO_AUTHORISE_JOIN": "invite the agent's account into the room",
    "M_NOT_FOUND": "the room is gone; write to the agent again from another one",
}
_UNAUTHORISED, _TOO_MANY = 401, 429
_FOR_GOOD = {400, 403, 404, 413}


def signed_out(error: Refused) -> bool:
    """Return whether the homeserver does not accept the access token any more."""
    unauthorised = error.status == _UNAUTHORISED and error.code != "M_LIMIT_EXCEEDED" and not error.page
    return error.code in SIGNED_OUT or unauthorised


def broken(error: Refused, *, by_password: bool) -> ChannelBroken:
    """Return the error of a device that is signed out. Its password, where the settings hold one, signs in a new device."""
    hint = (
        "the device was removed or signed out; sign in again with: homebody matrix sign-in"
        if by_password
        else "make a new token, then: homebody config set channels.matrix.accessToken TOKEN, and: homebody channels restart matrix"
    )
    return ChannelBroken(f"the homeserver does not accept the token of this device: {error}", hint=hint)


def send_error(error: Exception) -> ChannelError:
    """Return the error of a send. A request that a server may have taken is in doubt; its transaction id makes a repetition harmless."""
    if isinstance(error, Refused):
        return _refused(error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return NotSent(f"the homeserver cannot be reached: {error}")
    if isinstance(error, BadAnswer):
        return Uncertain(str(error))
    return Uncertain(f"the connection to the homeserver was lost: {str(error) or type(error).__name__}")


def _refused(error: Refused) -> ChannelError:
    if error.code == "M_LIMIT_EXCEEDED" or error.status == _TOO_MANY:
        return NotSent("the homeserver asks to wait", retry_after=error.retry_after or 5.0)
    if error.page:
        return NotSent(str(error))
    if signed_out(error):
        return NotSent(f"the device is signed out: {error}")
    if error.status in _FOR_GOOD:
        return NotSent(f"the homeserver refuses the message: {error}", permanent=True, hint=_HINTS.get(error.code, ""))
    return Uncertain(f"the homeserver failed: {error}")
