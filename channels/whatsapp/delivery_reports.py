"""Meta's reports on what was sent: sent, delivered, read, or failed with a code. They come by webhook, in any order, and more than once.

Each message carries the key of its outbox row (``biz_opaque_callback_data``), which comes back with its reports. So a report proves that
a message arrived whose answer was lost: what is in doubt waits a moment for it.
https://developers.facebook.com/documentation/business-messaging/whatsapp/webhooks/reference/messages/status
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from channels.common.recent import Recent
from channels.messages import ChatAddress, Cursor
from channels.whatsapp.kept_facts import put, read, written

if TYPE_CHECKING:
    from channels.protocol import Clock, InboundSink

CURSOR: Final = "reported"
MOST_PROOFS: Final = 200
SURE_SECONDS: Final = 30.0
"""Seconds after a send within which its outcome is certainly stored, so that its reports prove nothing new."""
STORED_SECONDS: Final = 5.0
State = Literal["sent", "delivered", "read", "failed"]
_ORDER: Final = ("failed", "sent", "delivered", "read")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One report. ``key`` is that of the outbox row, or "" for a message of another program."""

    message: str
    state: State
    key: str
    place: ChatAddress
    code: int = 0
    text: str = ""


class DeliveryReports:
    """What is known of the messages that were sent."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._proofs: dict[str, str] = {}
        self._failures: Recent[str, Report] = Recent()
        self._settled: Recent[str, float] = Recent()
        self._states: Recent[str, State] = Recent()
        self._waiting: dict[str, asyncio.Event] = {}

    async def begin(self, sink: InboundSink) -> None:
        """Read what an earlier process stored."""
        self._proofs = read(await sink.cursor(CURSOR)) | self._proofs

    def take(self, report: Report) -> bool:
        """Note a report. Returns whether it has to be stored, with ``cursor``, before it is acknowledged: it may settle a doubt."""
        known = self._states.get(report.message)
        if known is None or _ORDER.index(report.state) > _ORDER.index(known):
            self._states.put(report.message, report.state)
        if not report.key:
            return False
        if report.state == "failed":
            self._failures.put(report.key, report)
            if self._proofs.get(report.key) == report.message:
                del self._proofs[report.key]
        fresh = report.state != "failed" and self._proofs.get(report.key) != report.message and not self._is_settled(report.key)
        if fresh:
            put(self._proofs, report.key, report.message, MOST_PROOFS)
        if (waiting := self._waiting.get(report.key)) is not None:
            waiting.set()
        return fresh

    def forget(self, key: str) -> None:
        """Forget what earlier attempts came to: a message is sent anew."""
        self._failures.take(key)
        self._settled.take(key)
        self._proofs.pop(key, None)

    def is_fresh(self, key: str) -> bool:
        """Return whether the gateway may not have stored yet that a message was sent."""
        at = self._settled.get(key)
        return at is not None and self._clock.monotonic() - at < STORED_SECONDS

    def settle(self, key: str) -> None:
        """Note that the outcome of a send is told to the gateway."""
        self._settled.put(key, self._clock.monotonic())

    def state_of(self, message: str) -> State | None:
        """Return how far a message is known to have come."""
        return self._states.get(message)

    def failed(self, key: str) -> Report | None:
        """Return the report that says that a message was not delivered."""
        return self._failures.get(key)

    def cursor(self) -> Cursor:
        """Return what has to be stored: not what the gateway has certainly stored itself."""
        for key in [key for key in self._proofs if self._is_settled(key)]:
            del self._proofs[key]
        return Cursor(name=CURSOR, value=written(self._proofs))

    async def proof(self, key: str, seconds: float) -> str | Report | None:
        """Return the id of a message that was sent with this key, or the report of its failure; wait for one if there is none yet."""
        if (found := self._proof(key)) is not None or seconds <= 0:
            return found
        waiting = self._waiting.setdefault(key, asyncio.Event())
        both = [asyncio.ensure_future(waiting.wait()), asyncio.ensure_future(self._clock.sleep(seconds))]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in both:
                one.cancel()
            self._waiting.pop(key, None)
        return self._proof(key)

    def _proof(self, key: str) -> str | Report | None:
        return self._failures.get(key) or self._proofs.get(key)

    def _is_settled(self, key: str) -> bool:
        at = self._settled.get(key)
        return at is not None and self._clock.monotonic() - at > SURE_SECONDS


def report_of(raw: dict[str, Any], account: str, person: str) -> Report:
    """Read a report. Raises one of ``event_guard.MALFORMED``; ValueError for a state that is not known."""
    state = raw["status"]
    if state not in _ORDER:
        raise ValueError(f"a message's state {state!r}"[:60])
    group = raw.get("recipient_type") == "group"
    error: dict[str, Any] = next(iter(raw.get("errors") or ()), {})
    data = error.get("error_data")
    details = data.get("details") if isinstance(data, dict) else ""
    place = str(raw["recipient_id"]) if group else person
    return Report(
        message=str(raw["id"]),
        state=state,
        key=str(raw.get("biz_opaque_callback_data") or ""),
        place=ChatAddress(channel="whatsapp", account=account, kind="group" if group else "direct", id=place),
        code=int(error.get("code") or 0),
        text=str(details or error.get("message") or error.get("title") or "")[:300],
    )
