"""Recovery keys: secrets that an account keeps on its homeserver, encrypted with a key that its owner wrote down.

The client-server API, "Secret storage" (m.secret_storage.v1.aes-hmac-sha2) and "Cryptographic key representation". Importing this
module loads pycryptodome.
"""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import hmac
import operator
import secrets
from collections.abc import Mapping
from typing import Any, Final

from Crypto.Cipher import AES

ALGORITHM: Final = "m.secret_storage.v1.aes-hmac-sha2"
_LETTERS: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_PREFIX: Final = bytes((0x8B, 0x01))
_SIZE: Final = 32
_GROUP: Final = 4
_MOST_ITERATIONS: Final = 10_000_000
_SIGN_CLEAR: Final = 0x7F
"""All bits but the highest of a byte: the one that stays clear in a counter, for systems that count in 63 bits."""


class WrongKey(Exception):
    """A recovery key or security phrase is not the one of this account. The argument says why."""


def written(key: bytes) -> str:
    """Return a key as people write it down."""
    raw = _PREFIX + key
    number = int.from_bytes(raw + bytes((_parity(raw),)))
    letters = ""
    while number:
        number, rest = divmod(number, len(_LETTERS))
        letters = _LETTERS[rest] + letters
    return " ".join(letters[at : at + _GROUP] for at in range(0, len(letters), _GROUP))


def read(text: str) -> bytes:
    """Return the key that somebody wrote down; blanks do not matter. Raises WrongKey."""
    number = 0
    for letter in "".join(text.split()):
        digit = _LETTERS.find(letter)
        if digit < 0:
            raise WrongKey(f"{letter!r} is no letter of a recovery key")
        number = number * len(_LETTERS) + digit
    length = len(_PREFIX) + _SIZE + 1
    if number.bit_length() > 8 * length:
        raise WrongKey("it is too long for a recovery key")
    raw = number.to_bytes(length)
    if raw[: len(_PREFIX)] != _PREFIX or _parity(raw) != 0:
        raise WrongKey("a recovery key has another length, or there is a typing error in it")
    return raw[len(_PREFIX) : -1]


def given(text: str, description: Mapping[str, Any]) -> bytes:
    """Return the key of an account from what its owner enters: the recovery key, or the security phrase that it was made of.

    Raises:
        WrongKey: it is neither, by ``description``, the account's data about the key.
    """
    if description.get("algorithm") != ALGORITHM:
        raise WrongKey(f"the account keeps its secrets in a way that is not known here: {description.get('algorithm')!r}")
    phrase = description.get("passphrase")
    try:
        key = read(text)
    except WrongKey:
        if not isinstance(phrase, dict) or phrase.get("algorithm") != "m.pbkdf2":
            raise
        key = _of_phrase(text, phrase)
    mac = description.get("mac")
    if mac is not None and not hmac.compare_digest(_proof(key, unpadded(str(description.get("iv")))), unpadded(str(mac))):
        raise WrongKey("it is not the recovery key of this account")
    return key


def description_of(key: bytes) -> dict[str, Any]:
    """Return what an account's data says about a new key, by which a typing error is seen."""
    iv = _new_iv()
    return {"algorithm": ALGORITHM, "iv": padless(iv), "mac": padless(_proof(key, iv))}


def sealed(key: bytes, name: str, secret: str) -> dict[str, str]:
    """Return a secret encrypted under its name."""
    iv = _new_iv()
    text, mac = _encrypted(key, name, secret.encode(), iv)
    return {"iv": padless(iv), "ciphertext": padless(text), "mac": padless(mac)}


def opened(key: bytes, name: str, content: Mapping[str, Any]) -> str:
    """Return a secret that was encrypted under its name. Raises WrongKey."""
    iv, text = unpadded(str(content.get("iv"))), unpadded(str(content.get("ciphertext")))
    cipher, hashing = _keys(key, name)
    if not hmac.compare_digest(hmac.digest(hashing, text, "sha256"), unpadded(str(content.get("mac")))):
        raise WrongKey(f"the secret {name} of this account was encrypted with another key")
    try:
        return str(_ctr(cipher, iv).decrypt(text), "ascii")
    except ValueError as error:
        raise WrongKey(f"the secret {name} of this account is damaged") from error


def padless(raw: bytes) -> str:
    """Return bytes as Matrix writes them."""
    return base64.b64encode(raw).decode().rstrip("=")


def unpadded(text: str) -> bytes:
    """Return the bytes that Matrix writes so, with or without padding. Raises WrongKey."""
    plain = text.rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise WrongKey("the account's data is damaged") from error


def _parity(raw: bytes) -> int:
    return functools.reduce(operator.xor, raw)


def _of_phrase(text: str, phrase: Mapping[str, Any]) -> bytes:
    rounds, bits = phrase.get("iterations"), phrase.get("bits", 8 * _SIZE)
    if not isinstance(rounds, int) or not 0 < rounds <= _MOST_ITERATIONS or bits != 8 * _SIZE:
        raise WrongKey("the account's data about its security phrase is not usable; enter the recovery key")
    return hashlib.pbkdf2_hmac("sha512", text.encode(), str(phrase.get("salt")).encode(), rounds, _SIZE)


def _keys(key: bytes, name: str) -> tuple[bytes, bytes]:
    """HKDF with SHA-256 and a salt of zeros: the keys that encrypt and that authenticate."""
    extracted = hmac.digest(bytes(_SIZE), key, "sha256")
    first = hmac.digest(extracted, name.encode() + b"\x01", "sha256")
    return first, hmac.digest(extracted, first + name.encode() + b"\x02", "sha256")


def _proof(key: bytes, iv: bytes) -> bytes:
    return _encrypted(key, "", bytes(_SIZE), iv)[1]


def _encrypted(key: bytes, name: str, plain: bytes, iv: bytes) -> tuple[bytes, bytes]:
    cipher, hashing = _keys(key, name)
    text = _ctr(cipher, iv).encrypt(plain)
    return text, hmac.digest(hashing, text, "sha256")


def _ctr(key: bytes, iv: bytes) -> Any:
    if len(iv) != AES.block_size:
        raise WrongKey("the account's data is damaged")
    return AES.new(key, AES.MODE_CTR, nonce=b"", initial_value=iv)


def _new_iv() -> bytes:
    iv = bytearray(secrets.token_bytes(AES.block_size))
    iv[8] &= _SIGN_CLEAR
    return bytes(iv)
