"""Short authentication strings: two devices show seven emoji, which two people compare (client-server API, "SAS verification").

The other device begins; this one answers. nio has the same, but its commitment and its codes are not as the specification and other
clients have them, so that only the key agreement is taken from the library below it. Importing this module loads vodozemac.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import vodozemac

from channels.matrix.emoji import EMOJI

AGREEMENT: Final = "curve25519-hkdf-sha256"
HASH: Final = "sha256"
CODE: Final = "hkdf-hmac-sha256.v2"
METHOD: Final = "m.sas.v1"


class Mismatch(Exception):
    """The other device does something else than the protocol says. The argument is the code with which the verification is cancelled."""


@dataclass(frozen=True, slots=True)
class Party:
    """One side: a person and their device."""

    user: str
    device: str


def canonical(content: Mapping[str, Any]) -> bytes:
    """Return an object as it is hashed and signed."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


class ShortString:
    """One verification, from the start that the other device sent on."""

    def __init__(self, transaction: str, us: Party, them: Party, start: Mapping[str, Any]) -> None:
        offered = (
            (start.get("method"), METHOD),
            (start.get("key_agreement_protocols"), AGREEMENT),
            (start.get("hashes"), HASH),
            (start.get("message_authentication_codes"), CODE),
            (start.get("short_authentication_string"), "emoji"),
        )
        if not all(wanted in given if isinstance(given, list) else wanted == given for given, wanted in offered):
            raise Mismatch("m.unknown_method")
        self._transaction = transaction
        self._us = us
        self._them = them
        self._sas = vodozemac.Sas()
        self.key: str = self._sas.public_key.to_base64()
        self._commitment = base64.b64encode(hashlib.sha256(self.key.encode() + canonical(start)).digest()).decode().rstrip("=")
        self._secret: Any = None
        self._their_key = ""

    def accept(self) -> dict[str, Any]:
        """Return the content that accepts the start."""
        return {
            "method": METHOD,
            "key_agreement_protocol": AGREEMENT,
            "hash": HASH,
            "message_authentication_code": CODE,
            "short_authentication_string": ["emoji"],
            "commitment": self._commitment,
        }

    def agree(self, their_key: str) -> list[tuple[str, str]]:
        """Take the other's key, and return the emoji with their names."""
        if self._secret is not None:
            raise Mismatch("m.unexpected_message")
        try:
            self._secret = self._sas.diffie_hellman(vodozemac.Curve25519PublicKey.from_base64(their_key))
        except ValueError as error:  # what vodozemac's errors are, and those of text that is no Base64
            raise Mismatch("m.key_mismatch") from error
        self._their_key = their_key
        them = f"{self._them.user}|{self._them.device}|{their_key}"
        us = f"{self._us.user}|{self._us.device}|{self.key}"
        shown = self._secret.bytes(f"MATRIX_KEY_VERIFICATION_SAS|{them}|{us}|{self._transaction}")
        return [EMOJI[index] for index in shown.emoji_indices]

    def codes(self, keys: Mapping[str, str]) -> dict[str, Any]:
        """Return the content that vouches for our keys, by their ids."""
        info = self._info(self._us, self._them)
        mac = {name: self._secret.calculate_mac(key, info + name) for name, key in keys.items()}
        return {"mac": mac, "keys": self._secret.calculate_mac(",".join(sorted(mac)), info + "KEY_IDS")}

    def check(self, content: Mapping[str, Any], known: Mapping[str, str]) -> None:
        """Check what vouches for the other's keys. Raises Mismatch if a key is another one, or the device's is not among them."""
        mac, keys = content.get("mac"), content.get("keys")
        if self._secret is None or not isinstance(mac, dict) or not isinstance(keys, str):
            raise Mismatch("m.unexpected_message")
        info = self._info(self._them, self._us)
        if self._secret.calculate_mac(",".join(sorted(mac)), info + "KEY_IDS") != keys:
            raise Mismatch("m.key_mismatch")
        if f"ed25519:{self._them.device}" not in mac:
            raise Mismatch("m.key_mismatch")
        for name, code in mac.items():
            if name in known and self._secret.calculate_mac(known[name], info + name) != code:
                raise Mismatch("m.key_mismatch")

    def _info(self, sender: Party, receiver: Party) -> str:
        parties = f"{sender.user}{sender.device}{receiver.user}{receiver.device}"
        return f"MATRIX_KEY_VERIFICATION_MAC{parties}{self._transaction}"
