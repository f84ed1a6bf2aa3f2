"""Credentials of hooks: tokens, of which a hash is stored, and secrets by which senders sign, as GitHub and Gitea do.

A token has 256 random bits, so one round of SHA-256 keeps it: there is nothing to guess. A secret has to be stored itself, because a
signature can be checked only with it.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

from msgspec import Struct

from gateway.base.api_token import fresh_token
from gateway.ledger.hook_rows import Hook

TOKEN_HEADER: Final = b"x-homebody-token"
SIGNATURE_HEADER: Final = b"x-hub-signature-256"
_SCHEME: Final = b"bearer "
_METHOD: Final = b"sha256="
_HEX: Final = frozenset(b"0123456789abcdef")
_NOBODYS: Final = secrets.token_hex(32)
"""Compared with where there is no hook, so that this takes as long."""

Headers = Iterable[tuple[bytes, bytes]]


class Offered(Struct, frozen=True):
    """What a request offers as its credential: a token, or else a signature (hex) of its body."""

    token: bytes = b""
    signature: bytes = b""


def new_secret() -> str:
    """Return a new token or secret, which is safe in headers and shells."""
    return fresh_token()


def hash_of(token: str) -> str:
    """Return what is stored of a token."""
    return sha256(token.encode()).hexdigest()


def offered(headers: Headers) -> Offered:
    """Return what a request offers. Two tokens count as none: of two readers each might believe another one."""
    tokens, signatures = [], []
    for name, value in headers:
        if name == b"authorization":
            tokens.append(value[len(_SCHEME) :].strip() if value[: len(_SCHEME)].lower() == _SCHEME else b"")
        elif name == TOKEN_HEADER:
            tokens.append(value.strip())
        elif name == SIGNATURE_HEADER:
            signatures.append(value.strip())
    if tokens:
        return Offered(token=tokens[0] if len(tokens) == 1 else b"")
    signature = signatures[0].removeprefix(_METHOD) if len(signatures) == 1 and signatures[0].startswith(_METHOD) else b""
    well_formed = len(signature) == sha256().digest_size * 2 and _HEX.issuperset(signature)
    return Offered(signature=signature if well_formed else b"")


def has_token(hook: Hook | None, token: bytes) -> bool:
    """Return whether this is the hook's token, in constant time."""
    kept = hook.token_hash if hook is not None and hook.token_hash is not None else _NOBODYS
    return hmac.compare_digest(sha256(token).hexdigest(), kept) and kept is not _NOBODYS


def has_signed(hook: Hook | None, signature: bytes, body: bytes) -> bool:
    """Return whether this is the signature of ``body`` with the hook's secret, in constant time."""
    secret = hook.secret if hook is not None and hook.secret is not None else None
    return hmac.compare_digest(signature_of(secret or _NOBODYS, body).encode(), signature) and secret is not None


def signature_of(secret: str, body: bytes) -> str:
    """Return the signature of a body, as hex."""
    return hmac.new(secret.encode(), body, sha256).hexdigest()
