"""How gateways of a cluster prove to each other who asks: each request is signed with the cluster's secret, which never goes over the wire.

What is signed names the one that asks, the one that is asked (both names are of one process alone), the request, who asked for it in the
first place, and a number that is taken once. So a request that somebody recorded does nothing a second time, at another gateway, or
after a restart, whatever clocks say. Its body is signed, too. The answer proves in turn that it is of a gateway that knows the secret: its
status is signed, and its body where that is complete when it is sent. The body of one that goes on for a while (events, a reply as it is
written) is not, and what protects that is HTTPS.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from dataclasses import dataclass
from itertools import count
from typing import Final, Protocol

PROOF: Final = "x-homebody-gateway"
ASKED: Final = "x-homebody-asked"
"""What the gateway that passes a request on says of it, as JSON."""
STREAM: Final = "stream"
"""In place of the digest of an answer's body that is not complete when its head is sent."""
WINDOW: Final = 1024
"""How many requests of one gateway may arrive in another order than they were sent."""
_MOST_SENDERS: Final = 256
_VERSION: Final = "v2"
_PARTS: Final = 6


class Secret(Protocol):
    """Knows the secret of the cluster."""

    async def __call__(self, *, fresh: bool = False) -> bytes:
        """Return it; ``fresh``: as the database has it now."""
        ...


class Unproven(Exception):
    """A request whose proof does not hold; the message is for the log."""


class Misdirected(Exception):
    """A request that was meant for another process."""


@dataclass(frozen=True, slots=True)
class Proven:
    """A request of another gateway. ``body``: the SHA-256 that its body must have."""

    sender: str
    asked: str
    body: str

    def holds_for(self, body: bytes) -> bool:
        """Return whether this is the body that was signed."""
        return hmac.compare_digest(self.body, digest_of(body))


def digest_of(body: bytes) -> str:
    """Return what stands for a body in a proof."""
    return hashlib.sha256(body).hexdigest()


class Signer:
    """Signs the requests of one gateway."""

    def __init__(self, own: str, secret: Secret) -> None:
        self._own = own
        self._secret = secret
        self._numbers = count(1)

    async def headers(self, to: str, method: str, target: str, *, body: str, asked: str) -> dict[str, str]:
        """Return the headers that prove a request to ``target`` (path and query). ``body``: its digest."""
        number = str(next(self._numbers))
        proof = _signature(await self._secret(), (self._own, to, number, body, method, target, asked))
        return {PROOF: f"{_VERSION} {self._own} {to} {number} {body} {proof}", ASKED: asked}


async def answer_proof(secret: Secret, proof: str, status: int, body: str) -> str:
    """Return what an answer to a request with this proof has in its header ``PROOF``. ``body``: its digest, or ``STREAM``."""
    return f"{body} {_signature(await secret(), ('answer', proof, str(status), body))}"


async def body_of_answer(secret: Secret, proof: str, status: int, answering: str) -> str | None:
    """Return what stands for the body in the header ``PROOF`` of an answer; None if that does not prove the answer."""
    body = answering.partition(" ")[0]
    return body if _same(answering, await answer_proof(secret, proof, status, body)) else None


class Verifier:
    """Checks the requests that reach one gateway."""

    def __init__(self, own: str, secret: Secret) -> None:
        self._own = own
        self._secret = secret
        self._seen: OrderedDict[str, tuple[int, int]] = OrderedDict()

    async def check(self, proof: str, method: str, target: str, asked: str) -> Proven:
        """Return what a request proves. Raises Unproven, and Misdirected for one that is good, but for another process."""
        parts = proof.split(" ")
        if len(parts) != _PARTS or parts[0] != _VERSION or not _is_number(parts[3]):
            raise Unproven("the proof is none")
        _, sender, to, number, body, signature = parts
        fields = (sender, to, number, body, method, target, asked)
        for fresh in (False, True):  # the secret may have been exchanged
            if _same(_signature(await self._secret(fresh=fresh), fields), signature):
                break
        else:
            raise Unproven("the signature is not of this cluster")
        if to != self._own:
            raise Misdirected(to)
        self._take_once(sender, int(number))
        return Proven(sender, asked, body)

    def _take_once(self, sender: str, number: int) -> None:
        """Take a number of a sender once. ``_seen`` has the highest one, and as bits which of those before it were taken."""
        highest, taken = self._seen.pop(sender, (0, 0))
        if number > highest:
            taken = (taken << min(number - highest, WINDOW) | 1) & ((1 << WINDOW) - 1)
            highest, fresh = number, True
        else:
            bit = 1 << (highest - number)
            fresh = highest - number < WINDOW and not taken & bit
            taken |= bit if fresh else 0
        self._seen[sender] = (highest, taken)
        while len(self._seen) > _MOST_SENDERS:
            self._seen.popitem(last=False)
        if not fresh:
            raise Unproven("the request came before")


def _signature(secret: bytes, fields: tuple[str, ...]) -> str:
    return hmac.new(secret, "\n".join(fields).encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode("utf-8", "replace"))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19  # noqa: PLR2004 -- digits of a 64-bit number
