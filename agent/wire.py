"""What the model is shown of a transcript: a pure function of its entries, valid for every provider, whatever happened.

Repairs are derived anew each time and never written into history: a half-made call, a lost result or a failed answer can
therefore never make a session unusable.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agent.entries import Compacted, ResultsCleared, Said
from agent.messages import AssistantMessage, Text, ToolMessage, UserMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import tzinfo

    from agent.entries import Entry
    from agent.messages import Message, ToolCall

UNKNOWN_OUTCOME = "This call was interrupted and its outcome is unknown. Look before you repeat it."
CLEARED = "[Old tool result content cleared]"
SUMMARY_HEAD = "[Summary of the conversation before this point]"


def view(entries: Sequence[Entry], zone: tzinfo) -> tuple[Message, ...]:
    """Return the messages to send: summary first where there is one, each user message with its time stamp in ``zone``.

    The result begins with a user message (or is empty), holds no failed answers, and has behind every tool call exactly one
    result, in the order of the calls.
    """
    return repaired(_stamped(message, zone) for message in _visible(entries))


def _visible(entries: Sequence[Entry]) -> list[Message]:
    compaction = next((i for i in range(len(entries) - 1, -1, -1) if isinstance(entries[i].body, Compacted)), None)
    messages: list[Message] = []
    start = 0
    if compaction is not None:
        body = entries[compaction].body
        assert isinstance(body, Compacted)
        start = next((i for i, entry in enumerate(entries) if entry.id == body.first_kept), compaction)
        messages.append(UserMessage(content=(Text(text=f"{SUMMARY_HEAD}\n\n{body.summary}"),), at=entries[compaction].at))
    cleared = _cleared_until(entries)
    changed = max((i for i, entry in enumerate(entries) if isinstance(entry.body, (Compacted, ResultsCleared))), default=0)
    for index in range(start, len(entries)):
        body = entries[index].body
        if isinstance(body, Said):
            message = _without_content(body.message) if index < cleared else body.message
            messages.append(_without_usage(message) if index < changed else message)
    return messages


def _cleared_until(entries: Sequence[Entry]) -> int:
    """The index before which tool results are shown as a placeholder."""
    for entry in reversed(entries):
        if isinstance(entry.body, ResultsCleared):
            until = entry.body.until
            return next((i for i, other in enumerate(entries) if other.id == until), 0)
    return 0


def _without_content(message: Message) -> Message:
    if isinstance(message, ToolMessage) and len(message.text) > len(CLEARED):
        return replace(message, text=CLEARED, images=())
    return message


def _without_usage(message: Message) -> Message:
    """Forget what was reported before the context shrank: it no longer says how large the context is."""
    if isinstance(message, AssistantMessage) and message.usage is not None:
        return replace(message, usage=None)
    return message


def _stamped(message: Message, zone: tzinfo) -> Message:
    """Put the time (and in shared rooms the speaker) before what a person said, as a part of its own."""
    if not isinstance(message, UserMessage) or _is_summary(message):
        return message
    local = message.at.astimezone(zone)
    stamp = f"[{local:%a %Y-%m-%d %H:%M %Z}{', ' + message.sender if message.sender else ''}]"
    return replace(message, content=(Text(text=stamp), *message.content))


def _is_summary(message: UserMessage) -> bool:
    return message.text.startswith(SUMMARY_HEAD)


def repaired(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages made valid: failed answers and orphaned results dropped, every call paired with a result.

    A result counts for a call when it stands behind it and before the next answer that is kept; the first one wins.
    """
    kept = [message for message in messages if not _useless(message)]
    while kept and not isinstance(kept[0], UserMessage):
        kept.pop(0)
    whole: list[Message] = []
    for index, message in enumerate(kept):
        if isinstance(message, ToolMessage):
            continue
        whole.append(message)
        if isinstance(message, AssistantMessage) and message.calls:
            results = _results_behind(kept, index)
            whole.extend(results.get(call.id) or unknown(call) for call in message.calls)
    return tuple(whole)


def _useless(message: Message) -> bool:
    if isinstance(message, AssistantMessage):
        failed = message.failure is not None or message.stop in {"error", "cancelled", "overflow"}
        return failed or not (message.text.strip() or message.calls)
    return isinstance(message, UserMessage) and not message.content


def _results_behind(messages: Sequence[Message], index: int) -> dict[str, ToolMessage]:
    results: dict[str, ToolMessage] = {}
    for message in messages[index + 1 :]:
        if isinstance(message, AssistantMessage):
            break
        if isinstance(message, ToolMessage):
            results.setdefault(message.call_id, message)
    return results


def unknown(call: ToolCall) -> ToolMessage:
    """Return the result that stands in for one that never came."""
    return ToolMessage(call_id=call.id, name=call.name, text=UNKNOWN_OUTCOME, is_error=True)
