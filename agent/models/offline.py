"""The notebook: what answers when no language model is configured.

It files what it is told and finds it again, by rules, through the same tools that a language model would use, so that
everything else in the house (transcript, memory, channels) works without a key. It never pretends to be more than it is.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING

from agent import tokens
from agent.events import TextDelta
from agent.messages import AssistantMessage, Text, ToolCall, ToolMessage, Usage, UserMessage
from agent.models.extract import extract
from agent.models.notebook import STAMP, Ask, File, Forget, Show, Talk, understand
from agent.models.recall import content_words, recall
from agent.wire import SUMMARY_HEAD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence

    from agent.messages import Message
    from agent.models.notebook import Intent
    from agent.models.protocol import Request
    from agent.models.recall import Line

NAME = "offline/notebook"

HOW_TO_ADD_A_MODEL = """\
To talk to a language model, set a key and start again:

    export ANTHROPIC_API_KEY=...

(`OPENAI_API_KEY`, `GEMINI_API_KEY` or `OPENROUTER_API_KEY` do as well), or use a model on your own machine:

    homebody config set agents.defaults.model ollama/qwen3"""

_NONE = "No language model is configured"
NOTICE = f"""\
{_NONE}, so for now I am only a notebook: I file what you tell me and find it again, word for word.
{HOW_TO_ADD_A_MODEL}"""

ABILITIES = """\
I can do three things:

- keep what you tell me: "remember that the spare key is under the blue pot"
- find it again: "where is the spare key?"
- show what there is: "show today", "list", "read MEMORY.md"

Everything is plain Markdown in your workspace, which you can read and edit yourself."""

BEYOND = """\
That needs a language model, and I have none. If it is something to keep, begin with "remember" or "note:"; if it is a question, \
end it with a question mark."""

_NOTHING = "I found nothing about that in your notes."
_SILENT = re.compile(r"\b(?:NO_REPLY|HEARTBEAT_OK)\b")
_SUMMARY = re.compile(
    r"\[Summary request\]|\b(?:summari[sz]e|summary)\b.{0,40}\b(?:conversation|chat|session|discussion)\b",
    re.IGNORECASE | re.DOTALL,
)
_HEADING = re.compile(r"^## \d{2}:\d{2}$", re.MULTILINE)
_FOLDER = re.compile(r"notes are kept in (memory/[\w/-]+)/")
_SECOND_WORDS = 3
"""Most words that are looked for one by one."""
_SHOWN_LINES = 40
_DATED = re.compile(r"(\d{4}-\d{2}-\d{2})[^/]*\.md$")


class OfflineModel:
    """A Model by rule. Deterministic: the same request gives the same answer; date and time come from the messages."""

    name = NAME
    window = 200_000
    max_output = 8_192

    async def stream(self, request: Request) -> AsyncIterator[TextDelta | AssistantMessage]:
        """Answer at once, line by line."""
        message = answer(request)
        for line in message.text.splitlines(keepends=True):
            yield TextDelta(line)
        yield message

    async def close(self) -> None:
        """Nothing is held."""


def answer(request: Request) -> AssistantMessage:
    """Return the notebook's answer: tool calls first where it needs any, words when it has their results."""
    asked, done = _since_last_answer(request.messages)
    if asked and (token := _SILENT.search(asked[-1].text)):
        return _message(request, token[0])
    if asked and _SUMMARY.search(asked[-1].text):
        return _message(request, extract(request.messages))
    tools = {tool.name for tool in request.tools}
    folder = _folder(request)
    place = _Place(folder, _headings(request.messages))
    turns = [_Turn.of(message, place, tools) for message in _from_people(asked)]
    wanted = {_key(call): call for turn in turns for call in turn.all_calls(done)}
    if missing := [call for key, call in wanted.items() if key not in done]:
        return _message(request, "", missing)
    replies = [_reply(turn, [done[_key(call)] for call in turn.all_calls(done)]) for turn in turns]
    told = any(isinstance(message, AssistantMessage) and _NONE in message.text for message in request.messages)
    if not told and not any(_NONE in reply for reply in replies):
        replies.append(NOTICE)
    return _message(request, "\n\n".join(dict.fromkeys(replies)))


def _folder(request: Request) -> str:
    """Where this conversation's notes are: the owner's memory, unless the system text says that others read along."""
    told = (_FOLDER.search(segment.text) for segment in request.system)
    return next((found[1] for found in told if found), "memory")


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
            told = call.arguments or {}
            if call.name == "write" and (found := _HEADING.search(str(told.get("content", "")))):
                headings[str(told.get("path"))] = found[0]
    return headings


def _is_answer(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and not message.calls


@dataclass(frozen=True, slots=True)
class _Turn:
    """One thing that was said: what it asks, when it was said, and the tool calls that it takes."""

    intent: Intent
    today: date
    folder: str
    calls: tuple[ToolCall, ...]
    lacks: str = ""

    @classmethod
    def of(cls, message: UserMessage, place: _Place, tools: Collection[str]) -> _Turn:
        """Understand a message. Its own stamp counts where it has one: that is in the owner's zone."""
        day, time = _moment(message)
        intent = understand(message.text)
        wanted = _calls(intent, place, day, time)
        missing = next((call.name for call in wanted if call.name not in tools), "")
        return cls(intent, day, place.folder, tuple(call for call in wanted if call.name in tools), missing)

    def all_calls(self, done: Mapping[str, ToolMessage]) -> tuple[ToolCall, ...]:
        """Return the calls, and those of a second search when the first is done and found nothing."""
        results = [done[_key(call)] for call in self.calls if _key(call) in done]
        return (*self.calls, *_second_search(self.intent, results))

    @property
    def page(self) -> str:
        """The file that this is written to, or that is shown."""
        if isinstance(self.intent, Show) and self.intent.what == "file":
            return self.intent.path
        yesterday = isinstance(self.intent, Show) and self.intent.what == "yesterday"
        return _page(self.folder, self.today - timedelta(days=1) if yesterday else self.today)


def _moment(message: UserMessage) -> tuple[date, str]:
    """Return the day and the time of a message."""
    stamp = STAMP.match(message.text.strip())
    try:
        return (date.fromisoformat(stamp["date"]), stamp["time"]) if stamp else (message.at.date(), f"{message.at:%H:%M}")
    except ValueError:  # the owner wrote something like a stamp
        return message.at.date(), f"{message.at:%H:%M}"


def _since_last_answer(messages: Sequence[Message]) -> tuple[list[UserMessage], dict[str, ToolMessage]]:
    """Return what was said since the last answer in words, and what every tool call since then came to.

    There may be several messages: some came together, others while tools were running.
    """
    asked: list[UserMessage] = []
    results: dict[str, ToolMessage] = {}
    done: dict[str, ToolMessage] = {}
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            asked.insert(0, message)
        elif isinstance(message, ToolMessage):
            results[message.call_id] = message
        elif _is_answer(message):
            break
        else:
            done |= {_key(call): results[call.id] for call in message.calls if call.id in results}
            results = {}
    return asked, done


def _key(call: ToolCall) -> str:
    """What makes two calls the same."""
    return json.dumps([call.name, call.arguments], sort_keys=True)


def _from_people(asked: Sequence[UserMessage]) -> list[UserMessage]:
    """Leave out what the runtime put there: a summary, or anything else without a stamp where stamps are set."""
    stamped = [message for message in asked if STAMP.match(message.text.strip())]
    return stamped or [message for message in asked if not message.text.startswith(SUMMARY_HEAD)]


def _message(request: Request, text: str, calls: Sequence[ToolCall] = ()) -> AssistantMessage:
    numbered = (replace(call, id=f"note_{len(request.messages)}_{place}") for place, call in enumerate(calls, 1))
    content = (*((Text(text=text),) if text else ()), *numbered)
    message = AssistantMessage(content=content, model=NAME, stop="tools" if calls else "end")
    return replace(message, usage=Usage(input=tokens.of_request(request), output=tokens.of_message(message), cost=0.0))


def _calls(intent: Intent, place: _Place, day: date, time: str) -> tuple[ToolCall, ...]:
    folder, page = place.folder, _page(place.folder, day)
    match intent:
        case File(lines=lines):
            return (_call("write", path=page, content=place.block(page, time, lines), mode="append"),)
        case Ask(query=query) | Forget(query=query):
            return (_call("memory_search", query=" ".join(content_words(query))),)
        case Show(what="all"):
            return (_call("list", path=folder), _call("read", path=page))
        case Show(what="file", path=path):
            return (_call("read", path=path),)
        case Show(what=what):
            return (_call("read", path=_page(folder, day if what == "today" else day - timedelta(days=1))),)
        case Talk():
            return ()


def _second_search(intent: Intent, results: Sequence[ToolMessage]) -> list[ToolCall]:
    """When a question found nothing, look for its longest words one by one: in many languages some of them are only grammar."""
    if not isinstance(intent, Ask | Forget) or not results or results[0].is_error:
        return []
    words = content_words(intent.query)
    if len(words) < 2 or '"results":[]' not in results[0].text.replace(" ", ""):  # noqa: PLR2004  (one word was the whole question)
        return []
    return [_call("memory_search", query=word) for word in sorted(dict.fromkeys(words), key=len, reverse=True)[:_SECOND_WORDS]]


def _call(name: str, **arguments: str) -> ToolCall:
    return ToolCall(id="", name=name, arguments=dict(arguments))


def _page(folder: str, day: date) -> str:
    return f"{folder}/{day.isoformat()}.md"


def _reply(turn: _Turn, results: Sequence[ToolMessage]) -> str:
    if turn.lacks:
        return f"I cannot do that here: the tool `{turn.lacks}` is not allowed in this conversation."
    match turn.intent:
        case File():
            return _filed(turn, results[0]) if results else "The note was not written; please send it again."
        case Ask():
            return _found(turn, results)
        case Forget():
            return _to_remove(turn, results)
        case Show():
            return _shown(turn, results)
        case Talk(kind=kind):
            return _TALK[kind]


def _filed(turn: _Turn, result: ToolMessage) -> str:
    assert isinstance(turn.intent, File)
    lines = turn.intent.lines
    if result.is_error:
        kept = "\n".join(f"> {line}" for line in lines)
        return f"I could not write that down: {result.text.strip()}\n\nSo that it is not lost, here it is again:\n\n{kept}"
    what = f"\u201c{_short(lines[0])}\u201d" if len(lines) == 1 else f"{len(lines)} lines"
    tail = " I cannot ring by myself, though: it is only written down." if turn.intent.wish == "remind" else ""
    return f"Noted in `{turn.page}`: {what}.{tail}"


def _found(turn: _Turn, results: Sequence[ToolMessage]) -> str:
    assert isinstance(turn.intent, Ask | Forget)
    answers = [result.text for result in results if not result.is_error]
    if not answers:
        reason = results[0].text.strip() if results else "the search gave no answer"
        return f"I could not search your notes: {reason}"
    try:
        found = recall(turn.intent.query, answers)
    except ValueError as error:
        return f"I could not read what the search found: {error}."
    if not found.lines:
        return _NOTHING
    if not found.sure:
        line = found.lines[0]
        return f"{_NOTHING[:-1]}; the nearest is \u201c{_short(line.text)}\u201d ({_where(line)})."
    if len(found.lines) == 1:
        line = found.lines[0]
        return f"{_when(line, turn.today)}: \u201c{line.text}\u201d ({_where(line)})."
    listed = "\n".join(f"- {_when(line, turn.today)}: \u201c{line.text}\u201d ({_where(line)})" for line in found.lines)
    return f"This is what your notes hold about that, newest first:\n\n{listed}"


def _to_remove(turn: _Turn, results: Sequence[ToolMessage]) -> str:
    said_so = _found(turn, results)
    if said_so.startswith((_NOTHING[:-1], "I could not")):
        return said_so
    return f"I take nothing out by myself. {said_so[0].upper()}{said_so[1:]}\n\nOpen the file and delete the line; I follow at once."


def _shown(turn: _Turn, results: Sequence[ToolMessage]) -> str:
    assert isinstance(turn.intent, Show)
    shown = [result for result in results if not result.is_error and result.text.strip()]
    if not shown:
        subject = {"today": "There is no page for today yet.", "yesterday": "There is no page for yesterday."}
        return subject.get(
            turn.intent.what, results[0].text.strip() if results and turn.intent.path else "There are no notes yet."
        )
    return "\n\n".join(_files(turn, result) if result.name == "list" else _text_of(turn, result) for result in shown)


def _files(turn: _Turn, result: ToolMessage) -> str:
    names = [line.split("  ")[0] for line in result.text.splitlines() if line.strip() and not line.startswith("[")]
    listed = "\n".join(f"- `{name}`" for name in names if "TEMPLATE-" not in name)
    return f"Your notes, as files in `{turn.folder}/`:\n\n{listed}" if listed else "There are no notes yet."


def _text_of(turn: _Turn, result: ToolMessage) -> str:
    return f"The page `{turn.page}`:\n\n{_cut(result.text)}"


def _cut(text: str) -> str:
    lines = text.strip().splitlines()
    if len(lines) <= _SHOWN_LINES:
        return "\n".join(lines)
    return "\n".join([*lines[:_SHOWN_LINES], f"… and {len(lines) - _SHOWN_LINES} lines more, in the file."])


def _where(line: Line) -> str:
    return f"`{line.path}`, line {line.number}"


def _when(line: Line, today: date) -> str:
    dated = _DATED.search(line.path)
    try:
        day = date.fromisoformat(dated[1]) if dated else None
    except ValueError:
        day = None
    if day is None:
        return "Your notes say"
    days = (today - day).days
    return {0: "You noted today", 1: "You noted yesterday"}.get(days, f"You noted on {day.day} {day:%B %Y}")


def _short(text: str, width: int = 200) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


_TALK = {
    "greeting": "Hello. Tell me something to remember, or ask me about something you told me.",
    "thanks": "You are welcome.",
    "help": f"{ABILITIES}\n\n{NOTICE}",
    "empty": "That message was empty. Tell me something to remember, or ask for it.",
    "beyond": BEYOND,
}
