"""What holds on a platform's bad day: each message is said once, or marked as repeated; nothing is lost, nothing doubled unmarked."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from channels.errors import NotSent, Uncertain
from channels.messages import MARKS, ChatAddress, Outbound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from channels.protocol import Channel

SEEDS: Final = range(6)
BAD: Final = 0.3
"""The share of calls that fail."""
COUNT: Final = 8
HEARD: Final = [f"question {number}" for number in range(COUNT)]
SAID: Final = [f"answer {number}" for number in range(COUNT)]
_ATTEMPTS: Final = 60


async def deliver(channel: Channel, to: ChatAddress, text: str, key: str) -> int:
    """Send a message as the outbox does until it is said, and return in how many attempts."""
    recorded: str | None = None
    uncertain = False

    async def record(noted: str) -> None:
        nonlocal recorded
        recorded = noted

    for attempt in range(1, _ATTEMPTS):
        outbound = Outbound(
            key=key, conversation=to, text=text, attempt=attempt, recorded=recorded, uncertain=uncertain, turn=""
        )
        try:
            await channel.send(outbound, record)
        except NotSent as error:
            if error.permanent:
                raise AssertionError(f"{text!r} was refused for good on a bad day: {error}") from error
        except Uncertain:
            uncertain = True
        else:
            return attempt
    raise AssertionError(f"{text!r} was not said in {_ATTEMPTS} attempts")


def check_said(transcript: Sequence[str], *, may_repeat: bool) -> None:
    """Check what people see: every message, in order; a second time at most with a mark, where the platform allows no better."""
    plain = [text for text in transcript if not text.startswith(MARKS)]
    told = [_unmarked(text) for text in transcript]
    assert max(Counter(plain).values(), default=0) <= 1, f"doubled without a mark: {transcript}"
    assert list(dict.fromkeys(told)) == SAID, f"lost or out of order: {transcript}"
    assert may_repeat or told == SAID, f"said twice: {transcript}"


def _unmarked(text: str) -> str:
    return next(
        (text.removeprefix(mark) for mark in (*MARKS, *(one.strip() for one in MARKS)) if text.startswith(mark)), text
    ).strip()
