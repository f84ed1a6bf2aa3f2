"""The context window: the sizes at which memory is flushed and history is compacted, and the pruning of old tool results."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from msgspec import Struct

from agent.messages import ToolMessage
from agent.settings import CompactionSettings, PruningSettings
from agent.taint import within
from agent.transcript.entries import Entry, Pruned, Said, calls_model
from agent.transcript.history_view import trimmed, views_of_results

LEAST_TALK = 1000
"""Tokens of conversation that a window must hold beside the instructions and tools to be of use: a few short turns."""
LEAST_ANSWER = 256
"""Tokens of the window that must be left for an answer."""
_USABLE = 0.7
"""Share of a small window that lies below the flush line: all but a quarter and a fifth of that."""


def least_window(fixed: int) -> int:
    """Return the smallest window of use, in tokens, where instructions and tools take ``fixed`` of it."""
    return -int(-(fixed + LEAST_TALK) / _USABLE // 100) * 100


class Window(Struct, frozen=True):
    """A context window and what is kept free of it, in tokens.

    With the reserve in force R = max(reserveTokens, reserveTokensFloor), at most a quarter of the window, and the soft
    threshold S, at most a fifth of R: flush from ``size - R - S`` on, compact above ``size - R``. A 200,000 window with the
    defaults flushes at 176,000. The flush line always lies below the compaction line, whatever the settings.
    """

    size: int
    reserve: int
    flush_at: int
    """Flush when the context is this large or larger."""
    compact_above: int
    """Compact when the context is larger than this."""

    @classmethod
    def of(cls, size: int, settings: CompactionSettings) -> Window:
        """Work the lines out for a window of ``size`` tokens."""
        reserve = min(max(settings.reserve_tokens, settings.reserve_tokens_floor), size // 4)
        soft = min(settings.memory_flush.soft_threshold_tokens, reserve // 5)
        return cls(size, reserve, flush_at=size - reserve - soft, compact_above=size - reserve)


CHARS_PER_TOKEN = 4
"""How a window in tokens is compared with text, in this algorithm alone: the ratios of the settings are meant so."""


def cold_since(entries: Sequence[Entry]) -> datetime | None:
    """Return when the model was last called (the cache was touched then), or None: what ``Transcript.last_call`` remembers."""
    return next((entry.at for entry in reversed(entries) if calls_model(entry.body)), None)


def is_cold(since: datetime | None, now: datetime, ttl: float) -> bool:
    """Whether the provider's cache of a session has run out whose last call was at ``since``: ``ttl`` seconds ago or more."""
    return since is not None and now - since >= timedelta(seconds=ttl)


class _Result(Struct):
    """A tool result that may be pruned, as it is shown now."""

    id: str
    text: str
    cleared: bool
    whole: str
    aged: bool
    """Whether it was old already when the model was last called."""


def prune(entries: Sequence[Entry], settings: PruningSettings, window: int, visible_chars: int) -> Pruned | None:
    """Say which results are to be shown shorter from now on; None when nothing is.

    ``visible_chars`` is what the model is shown in all. Nothing before the first message of a person or from the
    ``keepLastAssistants``-th last answer on is touched, nor results with pictures, nor those of tools that the settings keep.
    """
    found = _pruned(entries, settings, window, visible_chars)
    return None if found is None else found[0]


def saved_by_pruning(entries: Sequence[Entry], settings: PruningSettings, window: int, visible_chars: int) -> float:
    """Return which share of what the model is shown ``prune`` would take off now."""
    found = _pruned(entries, settings, window, visible_chars)
    return 0.0 if found is None else found[1] / visible_chars


def _pruned(entries: Sequence[Entry], settings: PruningSettings, window: int, visible_chars: int) -> tuple[Pruned, int] | None:
    """Return what is to be shown shorter, and how many characters that takes off."""
    budget, before = window * CHARS_PER_TOKEN, visible_chars
    if visible_chars < settings.soft_trim_ratio * budget:
        return None
    results = _prunable(entries, settings)
    soft, late = settings.soft_trim, settings.aged_trim
    aged = _shortened([one for one in results if one.aged and not one.cleared], late.head_chars, late.tail_chars)
    long = [one for one in results if len(one.text) > soft.max_chars and not (one.cleared or one.aged)]
    short = _shortened(long, soft.head_chars, soft.tail_chars)
    visible_chars -= sum(gain for _, gain in (*short, *aged))
    cleared, rest = _cleared(results, settings, budget, visible_chars) if settings.hard_clear.enabled else ([], visible_chars)
    if not short and not aged and not cleared:
        return None
    mark = Pruned(
        trimmed=tuple(one.id for one, _ in short if one.id not in cleared),
        aged=tuple(one.id for one, _ in aged if one.id not in cleared),
        cleared=tuple(cleared),
        head_chars=soft.head_chars,
        tail_chars=soft.tail_chars,
        aged_head_chars=late.head_chars,
        aged_tail_chars=late.tail_chars,
        placeholder=settings.hard_clear.placeholder,
    )
    return mark, before - rest


def _shortened(results: Sequence[_Result], head: int, tail: int) -> list[tuple[_Result, int]]:
    """Show only head and tail of these results; return those that get shorter by it, and by how many characters."""
    found = []
    for result in results:
        fresh = within(result.whole, lambda text: trimmed(text, head, tail))
        if (gain := len(result.text) - len(fresh)) > 0:
            result.text = fresh
            found.append((result, gain))
    return found


def _cleared(results: Sequence[_Result], settings: PruningSettings, budget: int, visible_chars: int) -> tuple[list[str], int]:
    """Clear from the oldest until the context is below ``hardClearRatio``, if the results are worth it; return what is left, too."""
    left = [result for result in results if not result.cleared]
    if sum(len(result.text) for result in left) < settings.min_prunable_tool_chars:
        return [], visible_chars
    cleared = []
    for result in left:
        if visible_chars < settings.hard_clear_ratio * budget:
            break
        gain = len(result.text) - len(settings.hard_clear.placeholder)
        if gain > 0:
            visible_chars -= gain
            cleared.append(result.id)
    return cleared, visible_chars


def _prunable(entries: Sequence[Entry], settings: PruningSettings) -> list[_Result]:
    said = [entry for entry in entries if isinstance(entry.body, Said)]
    roles = [entry.body.message.role for entry in said if isinstance(entry.body, Said)]
    answers = [index for index, role in enumerate(roles) if role == "assistant"]
    if len(answers) < settings.keep_last_assistants or "user" not in roles:
        return []
    end = answers[-settings.keep_last_assistants] if settings.keep_last_assistants else len(said)
    views = views_of_results(entries)
    late, last_call = settings.aged_trim, cold_since(entries)
    old = last_call - timedelta(seconds=late.after) if late.enabled and last_call is not None else None
    found = []
    for entry in said[roles.index("user") : end]:
        assert isinstance(entry.body, Said)
        message = entry.body.message
        if isinstance(message, ToolMessage) and not message.images and _may_prune(message.name, settings):
            known = views.get(entry.id)
            shown = message if known is None else known.apply(message)
            aged = old is not None and entry.at <= old
            cleared = known is not None and known.cleared
            found.append(_Result(entry.id, shown.text, cleared=cleared, whole=message.text, aged=aged))
    return found


def _may_prune(tool: str, settings: PruningSettings) -> bool:
    name = tool.casefold()
    if any(fnmatchcase(name, pattern.casefold()) for pattern in settings.tools.deny):
        return False
    return not settings.tools.allow or any(fnmatchcase(name, pattern.casefold()) for pattern in settings.tools.allow)
