"""Signs in as the device that the state folder holds, since transaction ids and keys belong to it. Importing this module loads aiohttp.

A sign-in by password happens once. Its device id is chosen and stored before, so that a process that dies over it signs in as the same
device again.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from channels.errors import ChannelBroken
from channels.matrix.api_errors import broken, signed_out
from channels.matrix.device_files import Device, new_identity, store, stored
from channels.matrix.http_api import MatrixHttp, Refused, path

if TYPE_CHECKING:
    from channels.matrix.settings import MatrixAccount

_FORBIDDEN = 403


async def sign_in(settings: MatrixAccount, http: MatrixHttp, folder: Path | None) -> Device:
    """Return the device, signed in and checked. Raises ChannelBroken where the owner must act, or one of ``TROUBLE``."""
    server, token, kept = settings.server(), settings.token(), stored(folder)
    try:
        if token is not None:
            device = await _known(http, server, token)
        elif kept is not None and kept.token and kept.server == server and kept.user == settings.user_id:
            device = replace(await _known(http, server, kept.token), former=kept.former)
        else:
            return await _by_password(settings, http, folder, kept)
    except Refused as error:
        if signed_out(error):
            raise broken(error, by_password=token is None) from error
        raise
    if token is not None and kept is not None:
        changed = kept.device != device.device and kept.user == device.user
        device = replace(device, former=kept.device if changed else kept.former)
    if folder is not None and device != kept:
        store(folder, device)
    return device


async def _known(http: MatrixHttp, server: str, token: str) -> Device:
    http.token = token
    found = await http.ask("GET", path("account", "whoami"))
    return Device(server=server, user=str(found["user_id"]), device=str(found.get("device_id") or ""), token=token)


async def _by_password(settings: MatrixAccount, http: MatrixHttp, folder: Path | None, kept: Device | None) -> Device:
    if settings.user_id is None or settings.password is None:
        raise ChannelBroken("channels.matrix.userId is not set", hint="homebody config set channels.matrix.userId @NAME:SERVER")
    server = settings.server()
    same = kept is not None and kept.user == settings.user_id and kept.server == server
    identity = kept.device if kept is not None and same and not kept.token else new_identity()
    former = kept.former if kept is not None and same else ""
    chosen = Device(server=server, user=settings.user_id, device=identity, former=former)
    if folder is not None:
        store(folder, chosen)
    asked = {
        "type": "m.login.password",
        "identifier": {"type": "m.id.user", "user": settings.user_id},
        "password": settings.password.get_secret_value(),
        "device_id": identity,
        "initial_device_display_name": settings.device_name,
    }
    http.token = ""
    try:
        found = await http.ask("POST", path("login"), asked)
    except Refused as error:
        refused = error.status == _FORBIDDEN and not error.page
        if refused or error.code in {"M_FORBIDDEN", "M_USER_DEACTIVATED", "M_INVALID_USERNAME", "M_UNKNOWN"}:
            raise ChannelBroken(
                f"the homeserver does not accept channels.matrix.userId and password: {error}",
                hint="homebody config set channels.matrix.password PASSWORD, then: homebody channels restart matrix",
            ) from error
        raise
    device = replace(chosen, user=str(found["user_id"]), device=str(found["device_id"]), token=str(found["access_token"]))
    http.token = device.token
    if folder is not None:
        store(folder, device)
    return device
