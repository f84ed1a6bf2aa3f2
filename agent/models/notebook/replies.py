"""The notebook's replies: tool results as sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

from agent.messages import ToolMessage
from agent.models.notebook.intents import Ask, File, Forget, Intent, Show, Talk
from agent.models.notebook.lists import NAME as LISTS
from agent.models.notebook.lists import OnList, is_empty, told_list
from agent.models.notebook.reminder_calls import Due, told_reminders
from agent.models.notebook.reminders import Remind, Reminders
from agent.models.notebook.search_ranking import Line, Recall, grepped, recall

ABILITIES = """\
I can do five things:

- keep what you tell me: "remember that the spare key is under the blue pot"
- find it again: "where is the spare key?"
- show what there is: "show today", "list", "my todos", "read MEMORY.md"
- keep lists: "add milk to the shopping list", "what is on my list?", "tick off milk"
- remind you: "remind me tomorrow at 9 to water the plants", "my reminders"

Everything is plain Markdown in your workspace, which you can read and edit yourself."""

BEYOND = """\
That needs a language model, and I have none, so I did not keep it. If it is something to keep, begin with "remember" or "note:"; \
if it is a question, end it with a question mark."""

_BY_MEANING = "`homebody memory status` says whether notes are found by their meaning too, and how to add that without a key."

_NOTHING = "I found nothing about that in your notes."

_SHOWN_LINES = 40

_MOST_LINES = 3
_MOST_LISTED = 12
"""Lines of an answer, and of one that is asked for as a list."""

_PERHAPS = 0.5
"""Share of the question's words from which on the nearest line is offered as the answer."""

_DATED = re.compile(r"(\d{4}-\d{2}-\d{2})[^/]*\.md$")

HOW_TO_ADD_A_MODEL = """\
To talk to a language model, run this on my machine:

    homebody setup model

(or `make setup` in the folder that you cloned). It takes a key of Anthropic, OpenAI, Gemini or OpenRouter, or finds Ollama, \
LM Studio or another server there."""

NO_MODEL = "No language model is configured"

NOTICE = f"""\
{NO_MODEL}, so for now I am only a notebook: I file what you tell me and find it again, word for word.
{HOW_TO_ADD_A_MODEL}"""


@dataclass(frozen=True, slots=True)
class Asked:
    """One thing that was said: what it asks, the day and time (HH:MM) it was said, and the folder of the notes.

    ``lacks`` names a tool that it would take and that is not allowed.
    """

    intent: Intent | OnList | Due
    today: date
    time: str
    folder: str
    lacks: str = ""

    @property
    def page(self) -> str:
        """The file that this is written to, or that is shown."""
        if isinstance(self.intent, Show) and self.intent.what == "file":
            return self.intent.path
        yesterday = isinstance(self.intent, Show) and self.intent.what == "yesterday"
        return page_of(self.folder, self.today - timedelta(days=1) if yesterday else self.today)


def page_of(folder: str, day: date) -> str:
    """Return the daily note of a folder."""
    return f"{folder}/{day.isoformat()}.md"


def reply_to(turn: Asked, results: Sequence[ToolMessage]) -> str:  # noqa: PLR0911 - a case each
    """Put the results of the tools into words."""
    if turn.lacks:
        return f"I cannot do that here: the tool `{turn.lacks}` is not allowed in this conversation."
    match turn.intent:
        case File():
            return _filed(turn, results[0]) if results else "The note was not written; please send it again."
        case Ask() | Forget():
            return _recalled(turn, results)
        case Show():
            return _shown(turn, results)
        case OnList():
            return _told_on_list(turn, turn.intent, results)
        case Due() | Reminders():
            return told_reminders(turn.intent, results)
        case Talk() | Remind():
            return _TALK[turn.intent.kind if isinstance(turn.intent, Talk) else "help"]


def _told_on_list(turn: Asked, wish: OnList, results: Sequence[ToolMessage]) -> str:
    """Tell a list, and what notes hold of it where they were searched."""
    own = [result for result in results if result.name == LISTS]
    rest = [result for result in results if result.name != LISTS]
    if not rest:
        return told_list(wish, own)
    notes = replace(turn, intent=wish.otherwise)
    if is_empty(own[0]):
        return reply_to(notes, rest)
    found = any(grepped(result.text) for result in rest if not result.is_error)
    return "\n\n".join([told_list(wish, own), *([reply_to(notes, rest)] if found else [])])


def _filed(turn: Asked, result: ToolMessage) -> str:
    assert isinstance(turn.intent, File)
    lines = turn.intent.lines
    if result.is_error:
        kept = "\n".join(f"> {line}" for line in lines)
        return f"I could not write that down: {result.text.strip()}\n\nSo that it is not lost, here it is again:\n\n{kept}"
    what = f"\u201c{_short(lines[0])}\u201d" if len(lines) == 1 else f"{len(lines)} lines"
    return " ".join(filter(None, [f"Noted in `{turn.page}`: {what}.", turn.intent.then]))


def _recalled(turn: Asked, results: Sequence[ToolMessage]) -> str:
    return _to_remove(turn, results) if isinstance(turn.intent, Forget) else _search_reply(turn, results)


def _search_reply(turn: Asked, results: Sequence[ToolMessage]) -> str:
    assert isinstance(turn.intent, Ask | Forget)
    searched = [result for result in results if result.name != "grep"]
    answers = [result.text for result in searched if not result.is_error]
    if not answers:
        reason = searched[0].text.strip() if searched else "the search gave no answer"
        return f"I could not search your notes: {reason}"
    try:
        found = recall(turn.intent.query, answers, most=_MOST_LISTED if _asks_for_list(turn.intent.query) else _MOST_LINES)
    except ValueError as error:
        return f"I could not read what the search found: {error}."
    within = [line for result in results if result.name == "grep" and not result.is_error for line in grepped(result.text)]
    if not found.lines:
        return (
            f"Perhaps this: {_listed(within[: -_MOST_LINES - 1 : -1], turn.today)}"
            if within
            else _nothing(turn.intent, found.note)
        )
    return _told_found(found, turn.today)


def _told_found(found: Recall, today: date) -> str:
    """Quote what was found, and say how sure it is."""
    if found.sure:
        head = "This is what your notes hold about that, newest first:\n\n" if len(found.lines) > 1 else ""
        return head + _listed(found.lines, today)
    line = found.lines[0]
    if line.share >= _PERHAPS:
        return f"Perhaps this: {_listed([line], today)}"
    return f"{_NOTHING[:-1]}; the nearest is \u201c{_short(line.text)}\u201d ({_where(line)})."


def _listed(lines: Sequence[Line], today: date) -> str:
    """Quote lines with their day and place: one as a sentence, several as a list."""
    quotes = [f"{_when(line, today)}: \u201c{line.text}\u201d ({_where(line)})" for line in lines]
    return f"{quotes[0]}." if len(quotes) == 1 else "\n".join(f"- {one}" for one in quotes)


def _nothing(intent: Ask | Forget, note: str) -> str:
    """Say that nothing was found, why that may be wrong, and how to keep what may have been meant as a note."""
    keep = f" To keep it as a note: \u201cnote: {intent.query}\u201d." if isinstance(intent, Ask) and intent.bare else ""
    return f"{_NOTHING}{keep}{f' ({note})' if note else ''}"


def _asks_for_list(query: str) -> bool:
    return bool(re.search(r"list|liste|zettel|all\b|alle\b|everything|alles", query, re.IGNORECASE))


def _to_remove(turn: Asked, results: Sequence[ToolMessage]) -> str:
    said_so = _search_reply(turn, results)
    if said_so.startswith((_NOTHING[:-1], "I could not")):
        return said_so
    hint = "Open the file and delete the line, or take a whole change back: `homebody memory log`, then `homebody memory undo NUMBER`."
    return f"I take nothing out by myself. {said_so}\n\n{hint}"


def _shown(turn: Asked, results: Sequence[ToolMessage]) -> str:
    assert isinstance(turn.intent, Show)
    if turn.intent.what == "clock":
        return f"It is {turn.time} on {turn.today:%A}, {turn.today.day} {turn.today:%B %Y}."
    if turn.intent.what == "tasks":
        return _tasks(results)
    shown = [result for result in results if not result.is_error and result.text.strip()]
    if not shown:
        subject = {"today": "There is no page for today yet.", "yesterday": "There is no page for yesterday."}
        return subject.get(
            turn.intent.what, results[0].text.strip() if results and turn.intent.path else "There are no notes yet."
        )
    return "\n\n".join(_files(turn, result) if result.name == "list" else _text_of(turn, result) for result in shown)


def _tasks(results: Sequence[ToolMessage]) -> str:
    found = [line for result in results if not result.is_error for line in grepped(result.text)]
    if not found:
        return "No task is open. `todo: paint the fence` adds one."
    listed = "\n".join(f"- {line.text} ({_where(line)})" for line in found)
    return f"Open tasks:\n\n{listed}\n\nA task is done when its line says `[x]`."


def _files(turn: Asked, result: ToolMessage) -> str:
    names = [line.split("  ")[0] for line in result.text.splitlines() if line.strip() and not line.startswith("[")]
    listed = "\n".join(f"- `{name}`" for name in names if "TEMPLATE-" not in name)
    return f"Your notes, as files in `{turn.folder}/`:\n\n{listed}" if listed else "There are no notes yet."


def _text_of(turn: Asked, result: ToolMessage) -> str:
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
    "smalltalk": "I am only a notebook, and doing fine. Tell me something to keep, or ask about something you told me.",
    "thanks": "You are welcome.",
    "help": f"{ABILITIES}\n\n{NOTICE}\n\n{_BY_MEANING}",
    "empty": "That message was empty. Tell me something to remember, or ask for it.",
    "wordless": "There is nothing in that message that I can note: no words, contact or place, and no file that arrived.",
    "reminder": "Say of what, and when: “remind me tomorrow at 9 to water the plants”.",
    "beyond": BEYOND,
    "task": f"{NO_MODEL}, so I could not do this.\n{HOW_TO_ADD_A_MODEL}",
}
