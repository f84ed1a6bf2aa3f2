"""The files of a device in the state folder: who it is, and what the command line and a running gateway tell each other."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from channels.errors import ChannelBroken, ChannelError

if TYPE_CHECKING:
    from channels.matrix.cross_signing import CrossSigning

FILE: Final = "device.json"
IDENTITY: Final = "identity.json"
"""The fingerprint of the device."""
CONFIRMED: Final = "cross_signed.json"
"""The device that the account's identity confirmed."""
SECONDS: Final = 60.0
"""How long one request of the command line may take."""
VERIFICATION: Final = "verification.json"
"""The verification that runs or was the last, written by the gateway."""
ANSWER: Final = "answer.json"
"""Whether its emoji are the same, written by the command line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A signed-in device. ``token`` is empty while a sign-in is under way; ``former`` is the device that this one took the place of."""

    server: str
    user: str
    device: str
    token: str = ""
    former: str = ""


def stored(folder: Path | None) -> Device | None:
    """Return the device that a folder holds, or None. Raises ChannelBroken if its file cannot be read."""
    if folder is None:
        return None
    try:
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return Device(**{key: str(found.get(key) or "") for key in ("server", "user", "device", "token", "former")})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError) as error:
        raise ChannelBroken(
            f"the file of the Matrix device cannot be read: {folder / FILE}: {error}",
            hint="restore it from a backup, or move it away and sign in anew: homebody channels restart matrix",
        ) from error


def store(folder: Path, device: Device) -> None:
    """Write the device, readable by nobody else, in place of an earlier one."""
    write_private(folder / FILE, asdict(device))


def write_private(file: Path, content: Any) -> None:
    """Replace a file of the state folder as a whole, with mode 600 from the beginning."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as written:
            json.dump(content, written)
            written.flush()
            os.fsync(written.fileno())
        Path(name).replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def new_identity() -> str:
    """Return the id of a new device."""
    return f"HOMEBODY{secrets.token_hex(4).upper()}"


class DeviceFiles:
    """See ``channels.platform.DeviceTools``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _device(self) -> Device:
        device = stored(self._folder)
        if device is None:
            raise ChannelError(
                "this account never signed in, or is not set up",
                hint="set it up with `homebody setup matrix`, then: homebody start",
            )
        return device

    def facts(self) -> dict[str, Any]:
        """See the protocol."""
        device = self._device()
        fields = {"server": device.server, "user": device.user, "device": device.device, "former": device.former or None}
        identity = self._read(IDENTITY)
        last = self._read(VERIFICATION)
        own = identity if identity.get("device") == device.device else {}
        return {
            **fields,
            "signedIn": bool(device.token),
            "fingerprint": own.get("fingerprint"),
            "crossSigned": self._read(CONFIRMED).get("device") == device.device,
            "lastVerification": {key: last[key] for key in ("user", "device", "state", "at") if key in last} or None,
        }

    def forget(self) -> dict[str, Any]:
        """See the protocol. Keys of earlier messages stay in the folder."""
        facts, kept = self.facts(), self._device()
        if kept.token:
            store(self._folder, Device(server=kept.server, user=kept.user, device=new_identity(), former=kept.device))
        return facts

    def verification(self) -> dict[str, Any]:
        """See the protocol."""
        return self._read(VERIFICATION)

    def answer(self, identity: str, *, same: bool) -> None:
        """See the protocol."""
        write_private(self._folder / ANSWER, {"id": identity, "same": same})

    def confirm(self, recovery: str) -> None:
        """See the protocol."""
        self._with_identity(lambda identity: identity.confirm(recovery))

    def make_identity(self, password: Callable[[], str], show: Callable[[str], None]) -> None:
        """See the protocol."""
        self._with_identity(lambda identity: identity.make(password, show))

    def _with_identity(self, work: Callable[[CrossSigning], Awaitable[None]]) -> None:
        facts, device = self.facts(), self._device()
        if not device.token or not facts["fingerprint"]:
            raise ChannelError(
                "the device has no keys yet", hint="start the gateway once, with the extra for encryption: homebody start"
            )
        try:
            from channels.matrix.cross_signing import CrossSigning
            from channels.matrix.http_api import MatrixHttp
        except ImportError as error:
            raise ChannelError("this needs encryption", hint="make extras, or: pip install 'homebody[matrix]'") from error

        async def done() -> None:
            http = MatrixHttp(device.server, SECONDS, device.token)
            try:
                await work(CrossSigning(http, device, facts["fingerprint"]))
            finally:
                await http.close()

        asyncio.run(done())
        write_private(self._folder / CONFIRMED, {"device": device.device})

    def _read(self, name: str) -> dict[str, Any]:
        return _object(self._folder / name)


def read_answer(folder: Path, identity: str) -> bool | None:
    """Return what the owner answered to a verification; None while there is no answer."""
    found = _object(folder / ANSWER)
    return bool(found.get("same")) if found.get("id") == identity else None


def _object(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
