"""The notebook: what answers when no language model is configured.

It files what it is told and finds it again, by rules, with the tools that a language model would use, so that transcript,
memory and channels work without a key. Words such as "tomorrow" are filed with their date; its summary of a history is what the
owner said, line by line, without small talk.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from msgspec import structs

from agent.events import TextDelta
from agent.messages import AssistantMessage, Message, Text, ToolCall, ToolMessage, Usage, UserMessage
from agent.models import token_estimate
from agent.models.notebook import NAME
from agent.models.notebook.intents import (
    STAMP,
    Ask,
    File,
    Forget,
    Intent,
    Show,
    Talk,
    lines_of,
    list_wish,
    understand,
    without_stamp,
)
from agent.models.notebook.lists import NAME as LISTS
from agent.models.notebook.lists import OnList, is_empty, list_calls
from agent.models.notebook.named_days import with_dates
from agent.models.notebook.owner_summary import summary_of
from agent.models.notebook.reminder_calls import CANNOT_RING, Due, calls_of, due_or_why
from agent.models.notebook.reminder_calls import NAME as REMINDERS
from agent.models.notebook.reminders import Remind, Reminders
from agent.models.notebook.replies import NO_MODEL, NOTICE, Asked, page_of, reply_to
from agent.models.notebook.said_time import NOTHING
from agent.models.notebook.search_ranking import content_words, forms, recall
from agent.models.protocol import Request
from agent.said_words import said_words
from agent.taint import unfenced
from agent.transcript.history_view import SUMMARY_HEAD

_SILENT = re.compile(r"\b(?:NO_REPLY|HEARTBEAT_OK)\b")
_SUMMARY = re.compile(
    r"\[Summary request\]|\b(?:summari[sz]e|summary)\b.{0,40}\b(?:conversation|chat|session|discussion)\b",
    re.IGNORECASE | re.DOTALL,
)
_HEADING = re.compile(r"^## \d{2}:\d{2}$", re.MULTILINE)
_FOLDER = re.compile(r"notes are kept in (memory/[\w/-]+)/")
_DECIDED = re.compile(
    r"\[Approval #(?P<approval>[^:\s]+): (?P<decision>[^\n]*?)"
    r"(?: Result of (?:[^\n]*?)(?P<failed>, which failed)?:\]\n(?P<result>.*)| It was not run: .*\])$",
    re.DOTALL,
)
"""The message that tells what came of a call that waited for its owner."""
_SECOND_WORDS = 3
"""Most words that are looked for one by one."""
_LETTERS_WITHIN = 4
"""Letters of a word from which on it is looked for within other words."""


class NotebookModel:
    """A ``Model`` that answers by rule. Deterministic: the same request gives the same answer; date and time come from the messages."""

    name = NAME
    window = 200_000
    max_output = 8_192

    def __init__(self, *, chosen: bool = False) -> None:
        """``chosen`` says that a person asked for it, so that nothing is said of a language model that is missing."""
        self._chosen = chosen

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | AssistantMessage]:
        """Answer at once, line by line."""
        message = answer(request, notice=not self._chosen)
        for line in message.text.splitlines(keepends=True):
            yield TextDelta(line)
        yield message

    async def close(self) -> None:
        """Nothing is held."""


def answer(request: Request, *, notice: bool = True) -> AssistantMessage:
    """Return the notebook's answer: tool calls first where it needs any, words when it has their results.

    ``notice`` has it say once in a conversation that no language model is configured.
    """
    asked, done, decided = _since_last_answer(request.messages)
    if asked and (token := _SILENT.search(asked[-1].text)):
        return _message(request, token[0])
    if asked and _SUMMARY.search(asked[-1].text):
        return _message(request, summary_of(request.messages))
    tools = {tool.name for tool in request.tools}
    folder = _folder(request)
    place = _Place(folder, _headings(request.messages))
    turns = [turn for message in _from_people(asked) for turn in _Turn.all_of(message, place, tools)]
    if not turns and decided:  # the question was decided when the talk had gone on
        return _message(request, "\n\n".join(decided))
    wanted = {_key(call): call for turn in turns for call in turn.all_calls(done)}
    if missing := [call for key, call in wanted.items() if key not in done]:
        return _message(request, "", missing)
    replies = [reply_to(turn.asked, [done[_key(call)] for call in turn.all_calls(done)]) for turn in turns]
    introduced = any(isinstance(message, AssistantMessage) and NO_MODEL in message.text for message in request.messages)
    if notice and not introduced and not any(NO_MODEL in reply for reply in replies):
        replies.append(NOTICE)
    return _message(request, "\n\n".join(dict.fromkeys(replies)))


def _folder(request: Request) -> str:
    """Where this conversation's notes are: the owner's memory, unless the system text says that others read along."""
    folders = (_FOLDER.search(segment.text) for segment in request.system)
    return next((found[1] for found in folders if found), "memory")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where notes go: the folder, and the last heading that this conversation wrote into each page."""

    folder: str
    headings: Mapping[str, str]

    def block(self, page: str, time: str, lines: Sequence[str]) -> str:
        """Return the text to append: under a heading with the time, unless the last one says the same."""
        bullets = "\n".join(f"- {line}" for line in lines)
        last = self.headings.get(page)
        if last == f"## {time}":
            return bullets
        return f"{'' if last is None else chr(10)}## {time}\n\n{bullets}"


def _headings(messages: Sequence[Message]) -> dict[str, str]:
    """Return the last heading that was written to each page before the last answer in words."""
    end = next((i for i in range(len(messages) - 1, -1, -1) if _is_answer(messages[i])), 0)
    headings: dict[str, str] = {}
    for message in messages[:end]:
        for call in message.calls if isinstance(message, AssistantMessage) else ():
            arguments = call.arguments or {}
            if call.name == "write" and (found := _HEADING.search(str(arguments.get("content", "")))):
                headings[str(arguments.get("path"))] = found[0]
    return headings


def _is_answer(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and not message.calls


@dataclass(frozen=True, slots=True)
class _Turn:
    """One thing that was said: what it asks, when it was said, and the tool calls that it takes."""

    asked: Asked
    calls: tuple[ToolCall, ...]

    @classmethod
    def all_of(cls, message: UserMessage, place: _Place, tools: Collection[str]) -> list[_Turn]:
        """Return what a message asks, and a note of what it corrects, of the words of others that it brings, and of its files."""
        if message.automation:
            return [cls.of(message, place, tools)]
        words = said_words(without_stamp(message.text))
        day, time = _moment(message)
        lines = [f"Correction: {with_dates(line, day)}" for one in words.edits for line in _corrected(one.text)]
        lines += [line for one in words.brought for line in one.lines]
        lines += [f"File: {file}" for file in words.files]
        own = [cls.of(message, place, tools)] if words.own or not lines else []
        if not lines:
            return own
        then = ""
        if own and isinstance(filed := own[0].asked.intent, File):
            lines, then, own = [*filed.lines, *lines], filed.then, []
        note = File(tuple(lines), then)
        wanted = _calls(note, place, day, time)
        missing = next((call.name for call in wanted if call.name not in tools), "")
        return [cls(Asked(note, day, time, place.folder, lacks=missing), () if missing else wanted), *own]

    @classmethod
    def of(cls, message: UserMessage, place: _Place, tools: Collection[str]) -> _Turn:
        """Understand a message. Its own stamp counts where it has one: that is in the owner's zone."""
        day, time = _moment(message)
        understood = understand(message.text)
        wish = (list_wish(message.text, understood) if LISTS in tools else None) or understood
        looks = isinstance(wish, Ask | Show) or (isinstance(wish, OnList) and wish.what == "list")
        if message.automation and not looks:
            wish = Talk("task")
        intent = _possible(wish, datetime.fromisoformat(f"{day.isoformat()}T{time}"), tools)
        if isinstance(intent, File):
            intent = replace(intent, lines=tuple(with_dates(line, day) for line in intent.lines))
        elif isinstance(intent, Due) and not intent.when.repeats:
            intent = replace(intent, text=with_dates(intent.text, day))
        elif isinstance(intent, OnList) and intent.what == "add":
            intent = replace(intent, texts=tuple(_dated(text, day) for text in intent.texts))
        wanted = calls_of(intent, {}, _key) if isinstance(intent, Due | Reminders) else _calls(intent, place, day, time)
        missing = next((call.name for call in wanted if call.name not in tools), "")
        asked = Asked(intent, day, time, place.folder, lacks=missing)
        return cls(asked, tuple(call for call in wanted if call.name in tools))

    def all_calls(self, done: Mapping[str, ToolMessage]) -> tuple[ToolCall, ...]:
        """Return the calls, and those of a second search when the first is done and found nothing."""
        if isinstance(self.asked.intent, Due | Reminders):
            return () if self.asked.lacks else calls_of(self.asked.intent, done, _key)
        if isinstance(self.asked.intent, OnList):
            return (*self.calls, *self._elsewhere(self.asked.intent, done))
        results = [done[_key(call)] for call in self.calls if _key(call) in done]
        more = _second_search(self.asked.intent, results)
        searched = [done[_key(call)] for call in more if _key(call) in done]
        last = (
            _within_words(self.asked.intent, place=self.asked.folder)
            if len(searched) == len(more) and _found_nothing(self.asked.intent, [*results, *searched])
            else []
        )
        return (*self.calls, *more, *last)

    def _elsewhere(self, wish: OnList, done: Mapping[str, ToolMessage]) -> tuple[ToolCall, ...]:
        """Return the calls that look for a list in the notes: where it is empty, and for tasks that stand there."""
        if wish.what != "list" or not self.calls or _key(self.calls[0]) not in done:
            return ()
        tasks = wish.otherwise == Show("tasks") and self.asked.folder == "memory"
        place = _Place(self.asked.folder, {})
        return (
            _calls(wish.otherwise, place, self.asked.today, self.asked.time)
            if tasks or is_empty(done[_key(self.calls[0])])
            else ()
        )


def _corrected(text: str) -> tuple[str, ...]:
    """Return the lines of an edited message, unless it is a question or talk."""
    understood = understand(text)
    if isinstance(understood, File):
        return understood.lines
    asks = isinstance(understood, Show | Forget) or (isinstance(understood, Ask) and not understood.bare)
    return () if asks or (isinstance(understood, Talk) and understood.kind != "beyond") else lines_of(text)


def _dated(text: str, day: date) -> str:
    """Return the text of an item, with the day on which it is due behind a word that names it."""
    dated = with_dates(text, day)
    return text if dated == text else re.sub(r"\((\d{4}-\d{2}-\d{2})\)", r"(due \1)", dated, count=1)


def _possible(intent: Intent | OnList, now: datetime, tools: Collection[str]) -> Intent | OnList | Due:
    """Make a reminder of the wish for one, or a note where none can be set."""
    if not isinstance(intent, Remind):
        return intent
    if not intent.text and intent.said == NOTHING:
        return Talk("reminder")
    due = due_or_why(intent, now) if REMINDERS in tools else CANNOT_RING
    return due if isinstance(due, Due) else File(lines_of(intent.fact), then=due)


def _moment(message: UserMessage) -> tuple[date, str]:
    """Return the day and the time of a message."""
    stamp = STAMP.match(message.text.strip())
    try:
        return (date.fromisoformat(stamp["date"]), stamp["time"]) if stamp else (message.at.date(), f"{message.at:%H:%M}")
    except ValueError:  # the owner wrote something like a stamp
        return message.at.date(), f"{message.at:%H:%M}"


def _since_last_answer(messages: Sequence[Message]) -> tuple[list[UserMessage], dict[str, ToolMessage], list[str]]:
    """Return what was said since the last answer in words, what every tool call since then came to, and what was decided of older ones.

    There may be several messages: some came together, others while tools were running.
    """
    asked: list[UserMessage] = []
    results: dict[str, ToolMessage] = {}
    done: dict[str, ToolMessage] = {}
    decided: dict[str, re.Match[str]] = {}
    for message in reversed(messages):
        if isinstance(message, UserMessage) and message.runtime and (found := _DECIDED.match(unfenced(message.text))):
            decided[found["approval"]] = found
        elif isinstance(message, UserMessage):
            asked.insert(0, message)
        elif isinstance(message, ToolMessage):
            results[message.call_id] = _settled(structs.replace(message, text=unfenced(message.text)), decided)
        elif _is_answer(message):
            break
        else:
            done |= {_key(call): results[call.id] for call in message.calls if call.id in results}
            results = {}
    return asked, done, [_outcome(found) for found in reversed(decided.values())]


def _settled(result: ToolMessage, decided: Mapping[str, re.Match[str]]) -> ToolMessage:
    """Put what came of a call that waited for its owner in the place of its placeholder."""
    found = decided.get(str(result.details.get("approval", "")))
    if found is None:
        return result
    failed = found["result"] is None or found["failed"] is not None
    return structs.replace(result, text=_outcome(found), is_error=failed, details={})


def _outcome(found: re.Match[str]) -> str:
    return found["result"] or found["decision"].strip()


def _key(call: ToolCall) -> str:
    """What makes two calls the same."""
    return json.dumps([call.name, call.arguments], sort_keys=True)


def _from_people(asked: Sequence[UserMessage]) -> list[UserMessage]:
    """Leave out what the runtime put there: a summary, or anything else without a stamp where stamps are set."""
    stamped = [message for message in asked if STAMP.match(message.text.strip())]
    return stamped or [message for message in asked if not message.text.startswith(SUMMARY_HEAD)]


def _message(request: Request, text: str, calls: Sequence[ToolCall] = ()) -> AssistantMessage:
    numbered = (structs.replace(call, id=f"note_{len(request.messages)}_{place}") for place, call in enumerate(calls, 1))
    content = (*((Text(text=text),) if text else ()), *numbered)
    message = AssistantMessage(content=content, model=NAME, stop="tools" if calls else "end")
    return structs.replace(
        message,
        usage=Usage(
            input=token_estimate.weight_of_request(request).total, output=token_estimate.weight_of(message).total, cost=0.0
        ),
    )


def _calls(intent: Intent | OnList, place: _Place, day: date, time: str) -> tuple[ToolCall, ...]:  # noqa: PLR0911 - a case each
    folder, page = place.folder, page_of(place.folder, day)
    if isinstance(intent, OnList):
        return list_calls(intent)
    match intent:
        case File(lines=lines):
            return (_call("write", path=page, content=place.block(page, time, lines), mode="append"),)
        case Ask(query=query) | Forget(query=query):
            return (_call("memory_search", query=" ".join(content_words(query))),)
        case Show(what="all"):
            return (_call("list", path=folder), _call("read", path=page))
        case Show(what="tasks"):
            return (_call("grep", pattern=r"^\s*[-*] \[ \]", path=folder),)
        case Talk() | Show(what="clock") | Remind() | Reminders():
            return ()
        case Show(what=what, path=path):
            return (_call("read", path=path or page_of(folder, day if what == "today" else day - timedelta(days=1))),)


def _second_search(intent: Intent | OnList | Due, results: Sequence[ToolMessage]) -> list[ToolCall]:
    """When a question found nothing, look for its longest words one by one: in many languages some of them are only grammar."""
    if not isinstance(intent, Ask | Forget) or not results or results[0].is_error:
        return []
    words = content_words(intent.query)
    if len(words) < 2 or not _found_nothing(intent, results[:1]):  # noqa: PLR2004  (one word was the whole question)
        return []
    longest = sorted(dict.fromkeys(words), key=len, reverse=True)[:_SECOND_WORDS]
    return [_call("memory_search", query=" ".join(forms(word))) for word in longest]


def _found_nothing(intent: Intent | OnList | Due, results: Sequence[ToolMessage]) -> bool:
    """Say whether searches brought no line that would be shown: a hit in a conversation, or without a shared word, is none."""
    if not isinstance(intent, Ask | Forget) or not results:
        return False
    try:
        return not recall(intent.query, [one.text for one in results if not one.is_error]).lines
    except ValueError:
        return False


def _within_words(intent: Intent | OnList | Due, *, place: str) -> list[ToolCall]:
    """When no search found anything, look for the question's longest word within other words: compounds hold it in German."""
    words = [word for word in content_words(intent.query) if len(word) >= _LETTERS_WITHIN] if isinstance(intent, Ask) else []
    return [_call("grep", pattern=f"(?i){re.escape(max(words, key=len))}", path=place)] if words else []


def _call(name: str, **arguments: str) -> ToolCall:
    return ToolCall(id="", name=name, arguments=dict(arguments))
