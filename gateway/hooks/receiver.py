"""Takes calls of hooks: who calls is checked before a byte of the body is read, and a call is answered once it is stored."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from agent.timing import Clock
from gateway.hooks.credentials import Headers, Offered, has_signed, has_token, hash_of, new_secret, offered, signature_of
from gateway.hooks.rate_limits import RateLimits
from gateway.hooks.refusal import HookRefused
from gateway.ledger.hook_rows import Hook, HookLedger

if TYPE_CHECKING:
    from gateway.hooks.payload import Payload

log = logging.getLogger(__name__)

LARGEST_BODY: Final = 256 * 1024
MOST_WAITING: Final = 200
"""Messages of all hooks together that wait for a turn."""
KEY_HEADERS: Final = (
    "idempotency-key",
    "webhook-id",
    "x-github-delivery",
    "x-gitea-delivery",
    "x-gitlab-event-uuid",
    "x-request-id",
)
"""Headers that name a call, so that a repeat of it is recognised; the first one that is there counts."""
WRONG_BURST: Final = 10
WRONG_PER_MINUTE: Final = 10
"""Wrong credentials of one address that are answered with 401; further ones get 429. The right one is taken in any case."""
TRIAL_SECONDS: Final = 60.0
"""How long a credential for one test call holds."""
_LONGEST_KEY: Final = 500
_IN_A_THREAD: Final = 8 * 1024
"""Bodies of more bytes than this are decoded in a thread."""
_UNAUTHORISED: Final = "this hook does not exist, or the credential is wrong"
_HOW: Final = "Send the token in the header 'Authorization: Bearer TOKEN' or 'X-Homebody-Token', never in the address."


class Admitted(Struct, frozen=True):
    """A call whose head was checked. ``hook`` is None until a signature was: then ``expected`` is whose it must be."""

    hook: Hook | None
    expected: Hook | None
    offered: Offered
    key: bytes
    content_type: str
    address: str


class Taken(Struct, frozen=True):
    """A call that is stored. ``repeated``: it was stored before, under the same id, and nothing was done now."""

    id: str
    repeated: bool


class HookTarget(Protocol):
    """What becomes of calls."""

    async def take(self, hook: Hook, call: str, payload: Payload) -> bool:
        """Store what a call becomes, under the id ``call``; return whether it was new.

        Raises:
            HookRefused: it has nowhere to go.
            StorageFailed: it could not be stored.
        """
        ...


class HookReceiver:
    """Admits calls and hands them on. ``learn`` gets secrets that may be in no log and no reply."""

    def __init__(
        self, hooks: HookLedger, target: HookTarget, clock: Clock, *, learn: Callable[[Iterable[str]], None] = lambda _: None
    ) -> None:
        self._ledger = hooks
        self._target = target
        self._clock = clock
        self._learn = learn
        self._hooks: dict[str, Hook] | None = None
        self._changes = 0
        self._calls = RateLimits(clock.monotonic)
        self._wrong = RateLimits(clock.monotonic)
        self._trials: dict[str, tuple[str, float]] = {}
        self._storing = 0

    def changed(self) -> None:
        """Read the hooks again before the next call, because they were changed."""
        self._changes += 1
        self._hooks = None

    async def load(self) -> dict[str, Hook]:
        """Return all hooks by name. They are kept in memory, because few change and every call asks."""
        if self._hooks is not None:
            return self._hooks
        as_of = self._changes
        found = {hook.name: hook for hook in await self._ledger.all()}
        self._learn([hook.secret for hook in found.values() if hook.secret is not None])
        if as_of == self._changes:
            self._hooks = found
        return found

    async def admit(self, name: str, headers: Headers, address: str) -> Admitted:
        """Check the head of a call.

        Raises:
            HookRefused: 401 or 429 alike for unknown names and wrong credentials; with the right one also what it is not taken for.
        """
        given = list(headers)
        hooks, proof = await self.load(), offered(given)
        hook = hooks.get(name)
        if proof.signature and any(one.secret is not None for one in hooks.values()):
            _check_size(given)
            return Admitted(None, hook, proof, _key(given), _value(given, "content-type"), address)
        genuine = has_token(hook, proof.token)
        if hook is None or not (genuine or self._is_trial(hook, proof.token)):
            raise self._wrong_credential(name, address)
        self._check_rate(hook)
        _check_size(given)
        return Admitted(hook, hook, proof, _key(given), _value(given, "content-type"), address)

    async def take(self, admitted: Admitted, body: bytes) -> Taken:
        """Store a call with its whole body.

        Raises:
            HookRefused: it is not taken.
            StorageFailed: it could not be stored.
        """
        from gateway.hooks.payload import decode

        hook = admitted.hook
        if hook is None:
            hook = admitted.expected
            if not has_signed(hook, admitted.offered.signature, body) or hook is None:
                raise self._wrong_credential(hook.name if hook else "", admitted.address)
            self._check_rate(hook)
        if len(body) > _IN_A_THREAD:
            payload = await asyncio.to_thread(decode, body, admitted.content_type)
        else:
            payload = decode(body, admitted.content_type)
        call = f"{hook.id}:{sha256(admitted.key or secrets.token_bytes()).hexdigest()[:16]}"
        if admitted.key and await self._ledger.calls(hook.id, call, limit=1):
            self._calls.give_back(hook.id, burst=hook.rules.burst)
            return Taken(call, repeated=True)
        if hook.rules.kind == "prompt" and self._storing + await self._ledger.waiting() >= MOST_WAITING:
            error = f"{MOST_WAITING} messages of webhooks wait for an answer already"
            raise HookRefused(503, "too-many-waiting", error, "Call again later.", retry_after=60)
        self._storing += 1
        try:
            fresh = await self._target.take(hook, call, payload)
        finally:
            self._storing -= 1
        return Taken(call, repeated=not fresh)

    def trial(self, hook: Hook, body: bytes) -> dict[str, str]:
        """Return headers with which this body may be sent to a hook once, within a minute."""
        if hook.secret is not None:
            return {"X-Hub-Signature-256": f"sha256={signature_of(hook.secret, body)}"}
        token, now = new_secret(), self._clock.monotonic()
        self._trials = {one: kept for one, kept in self._trials.items() if kept[1] > now}
        self._trials[hash_of(token)] = (hook.id, now + TRIAL_SECONDS)
        return {"Authorization": f"Bearer {token}"}

    def _is_trial(self, hook: Hook, token: bytes) -> bool:
        found = self._trials.pop(sha256(token).hexdigest(), None)
        return found is not None and found[0] == hook.id and found[1] > self._clock.monotonic()

    def _check_rate(self, hook: Hook) -> None:
        if hook.state == "paused":
            raise HookRefused(403, "paused", "this hook is paused", f"Let it go on: homebody hooks resume {hook.name}")
        if wait := self._calls.take(hook.id, burst=hook.rules.burst, per_minute=hook.rules.per_minute):
            error = f"this hook takes {hook.rules.per_minute} calls a minute, and {hook.rules.burst} at once"
            raise HookRefused(429, "too-many-calls", error, f"Call again in {wait} seconds.", retry_after=wait)

    def _wrong_credential(self, name: str, address: str) -> HookRefused:
        if wait := self._wrong.take(address, burst=WRONG_BURST, per_minute=WRONG_PER_MINUTE):
            error = "too many wrong credentials came from this address"
            return HookRefused(429, "too-many-wrong", error, f"Call again in {wait} seconds.", retry_after=wait)
        log.warning("a call of the hook %r by %s was refused: unknown name or wrong credential", name[:60], address)
        return HookRefused(401, "wrong-credential", _UNAUTHORISED, _HOW)


def _check_size(headers: Headers) -> None:
    """Refuse what is too large or packed by what its head says."""
    length = _value(headers, "content-length")
    if length.isdecimal() and int(length[:20]) > LARGEST_BODY:
        raise too_large()
    encoding = _value(headers, "content-encoding").strip().lower()
    if encoding not in {"", "identity"}:
        raise HookRefused(
            415, "not-taken", f"the body is packed ({encoding[:40]})", "Send it as it is: nothing is unpacked here."
        )


def too_large() -> HookRefused:
    """Return the answer to a body that is too large."""
    return HookRefused(413, "body-too-large", f"the body is larger than {LARGEST_BODY} bytes", "Send less, or a link to it.")


def _key(headers: Headers) -> bytes:
    """Return the name that the sender gave to the call, or nothing."""
    found = list(headers)
    for wanted in KEY_HEADERS:
        values = [value.strip() for name, value in found if name == wanted.encode() and value.strip()]
        if len(values) > 1 or any(len(value) > _LONGEST_KEY for value in values):
            error = f"the header {wanted} came more than once, or has more than {_LONGEST_KEY} characters"
            raise HookRefused(400, "bad-key", error, "Send it once.")
        if values:
            return values[0]
    return b""


def _value(headers: Headers, wanted: str) -> str:
    """Return a header; values of one that came more than once are joined, so that none hides another."""
    return ", ".join(value.decode("latin-1") for name, value in headers if name == wanted.encode())
