"""Keeps a prompt in the provider's cache during a silence, as long as people are likely to come back.

Reading a cached prompt costs a tenth of its price and has it kept for another hour; to write it again costs twice its price. So it is
read shortly before its time is over, for a few hours, if the silences of the session so far say that this pays: one that nobody ends
soon was read for nothing, and a forgotten prompt is written again without its old tool results. Of a session that is likely to be
reset before anyone writes, the memory is flushed instead: what that costs later, with the prompt forgotten, is several times as much.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Literal

from msgspec.structs import replace

from agent.context import flush
from agent.context.background_call import call_in_background
from agent.context.cache_retention import REFRESH_AFTER, SECONDS, TOO_LATE, likely_before, pays, silences
from agent.context.context_report import visible_chars
from agent.context.session_context import SessionContext
from agent.context.window import saved_by_pruning
from agent.messages import Text, UserMessage
from agent.models.protocol import is_cached_by_time
from agent.transcript.entries import CacheRefreshed, Entry, Said

ASKED = "[Cache refresh] Nothing is asked of you. Reply with exactly NO_REPLY."
PURPOSE = "refresh"
"""Under which name the calls are booked."""
LONGEST = 20.0
"""Seconds after which the call is given up: a message of a person may be waiting behind it."""
_HOUR = SECONDS["1h"]


def due(
    context: SessionContext, *, spoken: datetime, ends: Callable[[], datetime | None] = lambda: None, now: datetime
) -> Literal["refresh", "flush"] | None:
    """Return what is to be done now: nothing, for nearly every session at nearly every look.

    ``spoken``: when a person last wrote; ``ends`` returns when the session may be reset, if nobody writes.
    """
    rule = context.settings.cache_refresh
    if not rule.hours or context.light is not None or not is_cached_by_time(context.model) or context.ttl != "1h":
        return None
    since = context.transcript.last_call
    if since is None or not timedelta(seconds=_HOUR * REFRESH_AFTER) <= now - since < timedelta(seconds=_HOUR * TOO_LATE):
        return None
    until = spoken + timedelta(hours=rule.hours)
    if now > until or context.tokens() < rule.least_tokens or read_nothing(context.transcript.entries):
        return None
    reset = ends()
    gaps, so_far = silences(context.transcript.entries), (now - spoken).total_seconds()
    after = now + timedelta(seconds=_HOUR * REFRESH_AFTER)
    if after <= until and (reset is None or after < reset) and _pays(context, gaps, so_far):
        return "refresh"
    left = reset is not None and not likely_before(gaps, so_far, (reset - spoken).total_seconds())
    return "flush" if left and flush.is_worthwhile(context) else None


def _pays(context: SessionContext, gaps: Sequence[float], so_far: float) -> bool:
    entries, pruning = context.transcript.entries, context.settings.context_pruning
    shrinks = 0.0
    if pruning.is_on(by_time=is_cached_by_time(context.model)):
        shrinks = saved_by_pruning(entries, pruning, context.window.size, visible_chars(context))
    answers = sum(isinstance(one.body, Said) and one.body.message.role == "assistant" for one in entries)
    calls = answers / (1 + sum(gap >= _HOUR for gap in gaps))
    longest = context.settings.cache_refresh.hours * _HOUR
    return pays(gaps, so_far, longest=longest, shrinks=shrinks, calls=calls)


def read_nothing(entries: Sequence[Entry]) -> bool:
    """Whether the last call was a refresh that found nothing in the cache: the server has none, or does not say so."""
    for entry in reversed(entries):
        match entry.body:
            case CacheRefreshed(usage=usage):
                return usage is None or not usage.cache_read
            case Said():
                return False
    return False


async def refresh(context: SessionContext, turn: str) -> bool:
    """Read the prompt as it was sent last, and note in the transcript that it is kept. Returns whether that worked.

    A call that comes to be sent when the prompt may be forgotten is not sent: it would write all of it again, for nobody.

    Raises:
        TranscriptWriteError: the transcript could not be written.
    """
    asked = UserMessage(content=(Text(text=ASKED),), at=context.clock.now())
    since = context.transcript.last_call
    until = None if since is None else since + timedelta(seconds=_HOUR * TOO_LATE)
    request = replace(context.request(extra=[asked]), purpose=PURPOSE, useful_until=until)
    try:
        async with asyncio.timeout(LONGEST):
            answer = await call_in_background(context, request)
    except TimeoutError:
        return False
    if answer.failure is not None or answer.usage is None or answer.model != context.model.name:
        return False
    await context.transcript.append(turn, CacheRefreshed(usage=answer.usage), durable=False)
    return True
