"""Cross-signing: the account's identity confirms this device, so that apps show it as its owner's own.

The identity is three keys, which the account keeps on its homeserver, encrypted with its recovery key (the client-server API,
"Cross-signing"). They are used here once, from the command line, and are never kept. Importing this module loads aiohttp and pycryptodome.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final

from Crypto.PublicKey import ECC
from Crypto.Signature import eddsa

from channels.errors import ChannelError
from channels.matrix.device_files import Device
from channels.matrix.http_api import TROUBLE, MatrixHttp, Refused, path
from channels.matrix.recovery_key import WrongKey, description_of, given, opened, padless, sealed, unpadded, written
from channels.matrix.sas import canonical

PARTS: Final = ("master", "self_signing", "user_signing")
_DEFAULT: Final = "m.secret_storage.default_key"
_UNAUTHORISED, _MISSING = 401, 404
_SEED: Final = 32


class CrossSigning:
    """The identity of one account, and the device that is to be confirmed by it. ``fingerprint`` is the device's signing key."""

    def __init__(self, http: MatrixHttp, device: Device, fingerprint: str) -> None:
        self._http = http
        self._user = device.user
        self._device = device.device
        self._fingerprint = fingerprint

    async def confirm(self, recovery: str) -> None:
        """Confirm the device by the identity that the account has, whose recovery key or security phrase is given.

        Raises:
            ChannelError: the key is wrong, there is no identity, or the homeserver is not reached or refuses it.
        """
        try:
            published = await self._published()
            master, signing = (_public(published.get(f"{part}_keys"), self._user) for part in PARTS[:2])
            if master is None or signing is None:
                raise ChannelError(
                    f"{self._user} has no cross-signing identity yet",
                    hint="make one: homebody matrix verify --new-recovery-key",
                )
            if not _signed(published["self_signing_keys"][self._user], self._user, master):
                raise ChannelError(
                    "the account's identity is not signed by its master key; nothing was confirmed",
                    hint="reset the identity in Element: Settings, Encryption",
                )
            seed = unpadded(await self._secret("m.cross_signing.self_signing", recovery))
            if len(seed) != _SEED or _name(seed) != signing:
                raise ChannelError(
                    "what the recovery key opens is not the account's identity of today; nothing was confirmed",
                    hint="sign in as the account in Element and make a new recovery key: Settings, Encryption",
                )
            await self._sign(published, seed)
        except WrongKey as error:
            raise ChannelError(
                f"the recovery key is not accepted: {error}", hint="try again: homebody matrix verify --recovery-key"
            ) from error
        except TROUBLE as error:
            raise self._unreached(error) from error

    async def make(self, password: Callable[[], str], show: Callable[[str], None]) -> None:
        """Give the account its identity, and confirm the device by it.

        ``show`` gets the recovery key before anything is written, so that no crash leaves an identity whose key nobody has;
        ``password`` is asked for where the homeserver wants it.

        Raises:
            ChannelError: the account has an identity, or the homeserver is not reached or refuses it.
        """
        try:
            published = await self._published()
            if _public(published.get("master_keys"), self._user) is not None:
                raise ChannelError(
                    f"{self._user} has a cross-signing identity",
                    hint="use its recovery key: homebody matrix verify --recovery-key",
                )
            seeds = {part: secrets.token_bytes(_SEED) for part in PARTS}
            key = secrets.token_bytes(_SEED)
            show(written(key))
            await self._publish(self._identity(seeds), password)
            await self._keep(seeds, key)
            await self._sign(published, seeds["self_signing"])
        except TROUBLE as error:
            raise self._unreached(error) from error

    async def _published(self) -> dict[str, Any]:
        return await self._http.ask("POST", path("keys", "query"), {"device_keys": {self._user: []}})

    async def _secret(self, name: str, recovery: str) -> str:
        default = await self._kept(_DEFAULT)
        content = await self._kept(name)
        encrypted = content.get("encrypted")
        identity = str(default.get("key"))
        if not isinstance(encrypted, dict) or not isinstance(encrypted.get(identity), dict):
            raise ChannelError(
                f"{self._user} keeps no keys of its identity on the homeserver",
                hint="sign in as the account in Element and set up recovery: Settings, Encryption",
            )
        key = given(recovery, await self._kept(f"m.secret_storage.key.{identity}"))
        return opened(key, name, encrypted[identity])

    async def _kept(self, kind: str) -> dict[str, Any]:
        """Return an object of the account's data; empty if there is none."""
        try:
            return await self._http.ask("GET", path("user", self._user, "account_data", kind))
        except Refused as error:
            if error.status != _MISSING:
                raise
            return {}

    def _identity(self, seeds: Mapping[str, bytes]) -> dict[str, Any]:
        """Return the public keys as they are published: the other two are signed by the master key."""
        found: dict[str, Any] = {}
        for part in PARTS:
            public = _name(seeds[part])
            one: dict[str, Any] = {"user_id": self._user, "usage": [part], "keys": {f"ed25519:{public}": public}}
            found[f"{part}_key"] = one if part == PARTS[0] else self._with_signature(one, seeds[PARTS[0]])
        return found

    async def _publish(self, identity: Mapping[str, Any], password: Callable[[], str]) -> None:
        """Publish the identity; homeservers ask for the account's password unless it is the first."""
        where = path("keys", "device_signing", "upload")
        try:
            await self._http.ask("POST", where, identity)
        except Refused as error:
            if error.status != _UNAUTHORISED or "session" not in error.body:
                raise
            who = {"type": "m.id.user", "user": self._user}
            asked = {"type": "m.login.password", "session": error.body["session"], "identifier": who, "password": password()}
            await self._http.ask("POST", where, {**identity, "auth": asked})

    async def _keep(self, seeds: Mapping[str, bytes], key: bytes) -> None:
        identity = secrets.token_hex(16)
        await self._put(f"m.secret_storage.key.{identity}", description_of(key))
        for part, seed in seeds.items():
            name = f"m.cross_signing.{part}"
            await self._put(name, {"encrypted": {identity: sealed(key, name, padless(seed))}})
        await self._put(_DEFAULT, {"key": identity})

    async def _put(self, kind: str, content: Mapping[str, Any]) -> None:
        await self._http.ask("PUT", path("user", self._user, "account_data", kind), content)

    async def _sign(self, published: Mapping[str, Any], seed: bytes) -> None:
        """Sign the device's keys. What the homeserver tells of them counts only if it is what this device has."""
        keys = published.get("device_keys", {}).get(self._user, {}).get(self._device)
        if not isinstance(keys, dict) or keys.get("keys", {}).get(f"ed25519:{self._device}") != self._fingerprint:
            raise ChannelError(
                f"the homeserver does not tell of this device with its own key ({self._fingerprint}); nothing was confirmed",
                hint="run the gateway with encryption once: homebody start",
            )
        signed = {self._user: {self._device: self._with_signature(keys, seed)}}
        answer = await self._http.ask("POST", path("keys", "signatures", "upload"), signed)
        if failures := answer.get("failures"):
            raise ChannelError(f"the homeserver did not take the signature: {failures}")

    def _with_signature(self, content: Mapping[str, Any], seed: bytes) -> dict[str, Any]:
        plain = {key: value for key, value in content.items() if key not in {"signatures", "unsigned"}}
        private = ECC.construct(curve="Ed25519", seed=seed)
        signature = padless(eddsa.new(private, "rfc8032").sign(canonical(plain)))
        return {**plain, "signatures": {self._user: {f"ed25519:{_name(seed)}": signature}}}

    def _unreached(self, error: Exception) -> ChannelError:
        return ChannelError(
            f"the homeserver did not do it: {str(error) or type(error).__name__}", hint="homebody channels status"
        )


def _name(seed: bytes) -> str:
    """Return the public key of a seed, which is also its name."""
    return padless(ECC.construct(curve="Ed25519", seed=seed).public_key().export_key(format="raw"))


def _public(keys: object, user: str) -> str | None:
    """Return the public key of a part of somebody's identity; None if there is none."""
    one = keys.get(user) if isinstance(keys, dict) else None
    listed = one.get("keys") if isinstance(one, dict) else None
    values = list(listed.values()) if isinstance(listed, dict) else []
    return str(values[0]) if len(values) == 1 else None


def _signed(content: Mapping[str, Any], user: str, public: str) -> bool:
    """Return whether an object is signed by a key."""
    plain = {key: value for key, value in content.items() if key not in {"signatures", "unsigned"}}
    try:
        signature = unpadded(str(content["signatures"][user][f"ed25519:{public}"]))
        eddsa.new(eddsa.import_public_key(unpadded(public)), "rfc8032").verify(canonical(plain), signature)
    except (KeyError, TypeError, ValueError, WrongKey):
        return False
    return True
