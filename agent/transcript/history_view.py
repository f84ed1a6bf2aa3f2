"""The history that a model is shown: a pure function of the transcript's entries, valid for every provider.

Repairs are computed each time and never written to the transcript, so that an unfinished call, a lost result or a failed answer
never makes a session unusable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import tzinfo
from typing import TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from agent.messages import AssistantMessage, Image, Message, Text, ToolCall, ToolMessage, UserMessage, tells_context
from agent.recent_results import RecentResults
from agent.taint import within
from agent.transcript.entries import Compacted, Entry, FilesChanged, Pinned, Pruned, ResultsCleared, Said, Unanswered, Unpinned
from agent.transcript.recent_pictures import with_recent_pictures

UNKNOWN_OUTCOME = "This call was interrupted and its outcome is unknown. Look before you repeat it."
CLEARED = "[Old tool result content cleared]"
LARGE_CHARS = 4000
SUMMARY_HEAD = "[Summary of the conversation before this point]"
NOT_SHOWN = "(There is none: older messages do not fit the model's window. What was noted of them is found by memory search.)"
PINNED = "[Pinned: keep this in sight, whatever else is summarised]"
UNPINNED = "[No longer pinned]"
UNANSWERED = "[Not answered:"
"""What the note of an ``Unanswered`` entry begins with."""
FILES_CHANGED = "[Your workspace files changed since this conversation began."
"""What the note of a ``FilesChanged`` entry begins with."""
CUT_OFF = (
    "[The answer above broke off here, and has been sent as far as it goes. If it is still wanted, go on behind its last word, "
    "without repeating or announcing anything; a code block must be opened anew. If nothing is missing, say NO_REPLY.]"
)
STOPPED = "[This answer was stopped here.]"
STOPPED_SILENT = "[This was stopped before anything was answered.]"
SHRINKING = (Compacted, ResultsCleared, Pruned)
"""Entries that change how those before them are shown."""


def view(entries: Sequence[Entry], zone: tzinfo) -> tuple[Message, ...]:
    """Return the messages to send: summary first where there is one, each user message with its time stamp in ``zone``.

    The result begins with a user message (or is empty), holds no failed answers, and has behind every tool call exactly one
    result, in the order of the calls.
    """
    return repaired(unrepaired(entries, zone))


def unrepaired(entries: Sequence[Entry], zone: tzinfo) -> list[Message]:
    """Return the messages to send, as far as they are in the transcript: with what is useless, and calls that lack a result."""
    return [stamped(message, zone) for message in with_recent_pictures(_visible(entries))]


def _visible(entries: Sequence[Entry]) -> list[Message]:
    compaction = next((i for i in range(len(entries) - 1, -1, -1) if isinstance(entries[i].body, Compacted)), None)
    messages: list[Message] = []
    start, waiting = 0, set[str]()
    if compaction is not None:
        body = entries[compaction].body
        assert isinstance(body, Compacted)
        start, waiting = (
            next((i for i, entry in enumerate(entries) if entry.id == body.first_kept), compaction),
            {*body.waiting},
        )
        messages.append(UserMessage(content=(Text(text=_summary_text(body)),), at=entries[compaction].at))
    views = views_of_results(entries)
    resumed = _resumed(entries)
    changed = max((i for i, entry in enumerate(entries) if isinstance(entry.body, SHRINKING)), default=0)
    withdrawn = {one for entry in entries if isinstance(entry.body, Unanswered) for one in entry.body.withdrawn}
    for index, entry in enumerate(entries):
        if (index < start and entry.id not in waiting) or entry.id in resumed:
            continue
        match entry.body:
            case Said() if entry.id in withdrawn:
                continue
            case Said(message=message) if entry.id in views or index < changed:
                shown = views[entry.id].apply(message) if entry.id in views else message
                messages += _with_aside(_without_usage(shown) if index < changed else shown, entry)
            case Pinned() | Unpinned() if compaction is not None and index <= compaction:
                continue
            case _:
                messages += shown_as_it_is(entry)
    return messages


def turn_of(entry: Entry) -> str:
    """The turn that an entry belongs to, also where it is a message that was let in on the way (``turn~name``)."""
    return entry.id.rpartition(":")[0].partition("~")[0]


def _resumed(entries: Sequence[Entry]) -> set[str]:
    """The ids of stopped answers whose own turn went on afterwards: a restart cut them off, and nobody meant them to end."""
    last = {turn_of(entry): index for index, entry in enumerate(entries) if isinstance(entry.body, Said)}
    stopped = ((i, one) for i, one in enumerate(entries) if isinstance(one.body, Said) and is_stopped(one.body.message))
    return {one.id for index, one in stopped if last[turn_of(one)] > index}


def shown_as_it_is(entry: Entry) -> list[Message]:
    """Return what is shown of an entry behind which nothing changed how it is shown."""
    match entry.body:
        case Said(message=message):
            return _with_aside(message, entry)
        case Pinned(text=text):
            return [_aside(f"{PINNED} {text}", entry)]
        case Unpinned(text=text):
            return [_aside(f"{UNPINNED} {text}", entry)]
        case Unanswered(note=note) | FilesChanged(note=note):
            return [_aside(note, entry)]
        case _:
            return []


def _with_aside(message: Message, entry: Entry) -> list[Message]:
    if is_stopped(message):
        return [_marked_as_stopped(message)]
    cut = isinstance(message, AssistantMessage) and message.stop == "cut"
    return [message, _aside(CUT_OFF, entry)] if cut else [message]


def is_stopped(message: Message) -> TypeGuard[AssistantMessage]:
    """Whether an answer was not wanted any more before it was whole."""
    return isinstance(message, AssistantMessage) and message.stop == "cancelled" and message.failure is None


def _marked_as_stopped(answer: AssistantMessage) -> AssistantMessage:
    """Keep what was written of a stopped answer, and say that it was: else its question would stand there unanswered."""
    said = answer.text.strip()
    return replace(answer, content=(Text(text=f"{said}\n\n{STOPPED}" if said else STOPPED_SILENT),))


def _summary_text(body: Compacted) -> str:
    pins = "".join(f"\n- {pin}" for pin in body.pins)
    return f"{SUMMARY_HEAD}\n\n{body.summary or NOT_SHOWN}" + (f"\n\n{PINNED}{pins}" if pins else "")


def _aside(text: str, entry: Entry) -> UserMessage:
    return UserMessage(content=(Text(text=text),), at=entry.at)


class ResultView(Struct, frozen=True):
    """How a tool result is shown: its head and tail, or a placeholder."""

    head: int = 0
    tail: int = 0
    placeholder: str = ""
    cleared: bool = False

    def apply(self, message: Message) -> Message:
        """Return the message as it is shown. Only tool results change."""
        if not isinstance(message, ToolMessage):
            return message
        if not self.cleared:
            return replace(message, text=within(message.text, lambda text: trimmed(text, self.head, self.tail)))
        if len(message.text) <= len(self.placeholder) and not message.images:
            return message
        return replace(message, text=self.placeholder, images=())


def views_of_results(entries: Sequence[Entry]) -> dict[str, ResultView]:
    """Return how results are shown that are not shown whole, by the ids of their entries. Later marks count, cleared stays cleared."""
    views: dict[str, ResultView] = {}
    for index, entry in enumerate(entries):
        match entry.body:
            case Pruned() as mark:
                short = ResultView(mark.head_chars, mark.tail_chars)
                aged = ResultView(mark.aged_head_chars, mark.aged_tail_chars)
                views |= {one: short for one in mark.trimmed if one not in views}
                views |= {one: aged for one in mark.aged if not (one in views and views[one].cleared)}
                views |= dict.fromkeys(mark.cleared, ResultView(placeholder=mark.placeholder, cleared=True))
            case ResultsCleared(until=until):
                before = next((i for i, other in enumerate(entries) if other.id == until), 0)
                views |= {
                    other.id: ResultView(placeholder=CLEARED, cleared=True)
                    for other in entries[: min(before, index)]
                    if isinstance(other.body, Said)
                    and isinstance(other.body.message, ToolMessage)
                    and not (other.id in views and views[other.id].cleared)
                }
    return views


def trimmed(text: str, head: int, tail: int) -> str:
    """Return the head and the tail of a text with a note of its size between them, or the text where that is no shorter."""
    note = f"\n...\n[trimmed: the first {head:,} and the last {tail:,} of {len(text):,} characters]\n"
    if len(text) <= head + tail + len(note):
        return text
    return text[:head] + note + (text[len(text) - tail :] if tail else "")


def _without_usage(message: Message) -> Message:
    """Forget what was reported before the context shrank: it no longer says how large the context is."""
    if isinstance(message, AssistantMessage) and message.usage is not None:
        return replace(message, usage=None)
    return message


def stamped(message: Message, zone: tzinfo) -> Message:
    """Put the time (and in shared rooms the speaker) before what a person said, as a part of its own."""
    if not isinstance(message, UserMessage):
        return message
    small = sum(len(part.text) if isinstance(part, Text) else LARGE_CHARS for part in message.content) < LARGE_CHARS
    return _stamped_small((message, zone)) if small else _stamped_anew((message, zone))


def _stamped_anew(said: tuple[UserMessage, tzinfo]) -> UserMessage:
    message, zone = said
    if message.runtime or message.text.startswith((SUMMARY_HEAD, PINNED, UNPINNED, CUT_OFF, UNANSWERED, FILES_CHANGED)):
        return message
    local = message.at.astimezone(zone)
    stamp = f"[{local:%a %Y-%m-%d %H:%M %Z}{', ' + message.sender if message.sender else ''}]"
    return replace(message, content=(Text(text=stamp), *message.content))


_stamped_small = RecentResults(_stamped_anew, lambda said: len(said[0].text))
"""The same for messages that are worth remembering: a view is made several times a turn, over the whole history."""


def repaired(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages made valid: failed answers and orphaned results dropped, every call paired with a result.

    A result counts for a call when it stands behind it and before the next answer that is kept; the first one wins.
    """
    kept = [message for message in messages if not useless(message)]
    while kept and not isinstance(kept[0], UserMessage):
        kept.pop(0)
    return tuple(paired(kept))


def paired(kept: Sequence[Message]) -> list[Message]:
    """Return messages with every call followed by its result, and without results of no call.

    A stopped answer is kept where a person spoke next. One that the same turn went on from, after a restart, never was one.
    """
    whole: list[Message] = []
    for index, message in enumerate(kept):
        if isinstance(message, ToolMessage) or (is_stopped(message) and not _a_person_speaks_next(kept, index)):
            continue
        whole.append(message)
        if isinstance(message, AssistantMessage) and message.calls:
            results = _results_behind(kept, index)
            whole.extend(results.get(call.id) or unknown(call) for call in message.calls)
    return whole


def useless(message: Message) -> bool:
    """Whether a message says nothing that a model could be shown."""
    if isinstance(message, AssistantMessage):
        failed = message.failure is not None or message.stop in {"error", "overflow"}
        return failed or not (message.text.strip() or message.calls)
    return isinstance(message, UserMessage) and not message.content


def _a_person_speaks_next(messages: Sequence[Message], index: int) -> bool:
    following = next((message for message in messages[index + 1 :] if not isinstance(message, ToolMessage)), None)
    return isinstance(following, UserMessage)


def _results_behind(messages: Sequence[Message], index: int) -> dict[str, ToolMessage]:
    results: dict[str, ToolMessage] = {}
    for message in messages[index + 1 :]:
        if isinstance(message, AssistantMessage) and not is_stopped(message):
            break
        if isinstance(message, ToolMessage):
            results.setdefault(message.call_id, message)
    return results


def unknown(call: ToolCall) -> ToolMessage:
    """Return the result that stands in for one that never came."""
    return ToolMessage(call_id=call.id, name=call.name, text=UNKNOWN_OUTCOME, is_error=True)


class RunningView:
    """The same as ``view``, computed incrementally for a transcript that grows."""

    def __init__(self) -> None:
        self._entries: Sequence[Entry] = ()
        self._zone: tzinfo | None = None
        self._seen = 0
        self._grows = True
        self._settled: list[Message] = []
        """What is shown before the last answer, with everything in its place."""
        self._stopped = ""
        """The turn of the latest stopped answer: if it goes on, that answer was none."""
        self._open: list[Message] = []
        """What is shown from the last answer on, before calls are paired with results that may still come."""
        self._end: list[Message] = []
        """The same with everything in its place."""
        self._shown: tuple[Message, ...] | None = None
        self._reported: int | None = None
        """Where in ``_settled`` the latest answer is that tells the size of the context."""

    def of(self, entries: Sequence[Entry], zone: tzinfo) -> tuple[Message, ...]:
        """Return the view of ``entries``: the sequence of the last time, perhaps with more at its end, or another one."""
        self._follow(entries, zone)
        if self._shown is None:
            self._shown = (*self._settled, *self._end)
        return self._shown

    def since_report(self, entries: Sequence[Entry], zone: tzinfo) -> tuple[Message, ...] | None:
        """Return the end of the view: from the latest answer on that tells the size of the context; None where none does."""
        self._follow(entries, zone)
        late = next((n for n in range(len(self._end) - 1, -1, -1) if tells_context(self._end[n])), None)
        if late is not None:
            return tuple(self._end[late:])
        return None if self._reported is None else (*self._settled[self._reported :], *self._end)

    def _follow(self, entries: Sequence[Entry], zone: tzinfo) -> None:
        if entries is not self._entries or zone is not self._zone or len(entries) < self._seen:
            self._anew(entries, zone)
        elif fresh := entries[self._seen :]:
            if not self._grows or any(self._reaches_back(entry) for entry in fresh):
                self._anew(entries, zone)
                return
            self._seen = len(entries)
            self._take([stamped(message, zone) for entry in fresh for message in shown_as_it_is(entry)])

    def _reaches_back(self, entry: Entry) -> bool:
        """Whether an entry may change how those before it are shown."""
        if isinstance(entry.body, Said):
            message = entry.body.message
            return is_stopped(message) or _has_pictures(message) or (self._stopped != "" and turn_of(entry) == self._stopped)
        return isinstance(entry.body, SHRINKING)

    def _anew(self, entries: Sequence[Entry], zone: tzinfo) -> None:
        messages = unrepaired(entries, zone)
        self._entries, self._zone, self._seen = entries, zone, len(entries)
        self._grows = not any(map(_has_pictures, messages))
        self._stopped = _stopped_turn(entries)
        self._settled, self._open, self._end, self._shown, self._reported = [], [], [], None, None
        self._take(messages)

    def _take(self, messages: Sequence[Message]) -> None:
        """Add messages, and settle what lies before the last answer: only behind it are results of its calls looked for."""
        if not messages:
            return
        self._open += [message for message in messages if not useless(message)]
        if not self._settled:
            while self._open and not isinstance(self._open[0], UserMessage):
                self._open.pop(0)
        answers = [n for n, one in enumerate(self._open) if isinstance(one, AssistantMessage) and not is_stopped(one)]
        last = answers[-1] if answers else 0  # a stopped answer settles nothing: it may still turn out to be none
        for message in paired(self._open[:last]):
            if tells_context(message):
                self._reported = len(self._settled)
            self._settled.append(message)
        self._open = self._open[last:]
        self._end, self._shown = paired(self._open), None


def _stopped_turn(entries: Sequence[Entry]) -> str:
    stopped = (entry for entry in reversed(entries) if isinstance(entry.body, Said) and is_stopped(entry.body.message))
    return next(map(turn_of, stopped), "")


def _has_pictures(message: Message) -> bool:
    if isinstance(message, UserMessage):
        return any(isinstance(part, Image) for part in message.content)
    return isinstance(message, ToolMessage) and bool(message.images)
