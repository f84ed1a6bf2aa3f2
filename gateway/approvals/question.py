"""The text that asks an owner about an act, understandable alone: what, where, why, and what each answer does."""

from __future__ import annotations

import os
import re
import shlex
import unicodedata
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from agent.tools.protocol import Act, Origin
from gateway.approvals.program import leading_first
from gateway.approvals.shell_parts import shell_parts
from gateway.base.errors import for_chat

LONGEST: Final = 1900
"""Characters of a question: one message on every platform."""
_MOST_PARTS: Final = 12
_MOST_SOURCES: Final = 3
_MOST_LETTERS: Final = 5
_MOST_VARIABLES: Final = 12
_VARIABLES: Final = 500
"""Characters that the variables of a command may take."""
_MOST_RECIPIENTS: Final = 12
_PART: Final = 100
_HEAD: Final = 0.7
"""The share of a shortened command that shows its beginning; the rest shows its end."""
_NAMES: Final = {"\r": "CR", "\t": "TAB", "\x1b": "ESC", "\0": "NUL", "\x7f": "DEL"}
_ASKERS: Final[dict[Origin, str]] = {
    "owner": "",
    "guest": "Asked for by a guest.",
    "group": "Asked for in a group.",
    "schedule": "Asked for by a scheduled job.",
    "webhook": "Asked for by a webhook.",
    "agent": "Asked for by a sub-agent, or after the result of one.",
}
_CONFINED: Final = {"bwrap": "confined by bubblewrap", "landlock": "confined by Landlock", "off": "not confined"}
_WORDS: Final = re.compile(r"\S+")
_FORMATS: Final = re.compile(r"[`*\[\]<>~|\\#]|(?<!\w)_|_(?!\w)|://")
_RUNS: Final = re.compile("`{11,}")
"""A code block has a fence of more backticks than are in it."""


class Question(Struct, frozen=True, kw_only=True):
    """What an owner is asked. ``name`` is what the question is called; ``why_not_always`` why "always" cannot be the answer, if so.

    ``minutes``: how long it stays open. ``taint``: the sources of untrusted text that the agent has read, the newest first.
    """

    name: str
    agent: str
    act: Act
    origin: Origin = "owner"
    taint: tuple[str, ...] = ()
    reason: str = ""
    why_not_always: str | None = None
    minutes: int = 30


def question_text(question: Question, *, home: str, longest: int = LONGEST) -> str:
    """Return a question as Markdown of at most ``longest`` characters. ``home`` is the owner's home folder. Blocking."""
    around = _answers(question, home)
    why = _why(question)
    if question.act.kind != "exec":
        wants = f"🔐 {question.agent} wants to"
        if question.act.details:
            head = f"{wants} {_as_it_is(_shortened(visible(question.act.summary), longest // 6))}:"
            below = [*_cut_note(question, longest // 6), *_recipients(question.act, question.name), *why, "", *around]
            left = longest - sum(len(line) + 1 for line in (head, *below))
            return "\n".join([head, *_block(_RUNS.sub(_counted, question.act.details), question.name, left), *below])
        head = f"{wants} {_as_it_is(_shortened(visible(question.act.summary), longest // 3))}."
        target = [
            *_cut_note(question, longest // 3),
            *_target(question.act, question.name),
            *_recipients(question.act, question.name),
        ]
        return "\n".join([head, *target, *why, "", *around])[:longest]
    does = "run a command" if question.act.summary.startswith("run ") else _as_it_is(_one_line(question.act.summary))
    head = f"🔐 {question.agent} wants to {does}:"
    circumstances = _circumstances(question.act, home, question.name)
    below = [*circumstances, *_parts(question.act), *why, *odd_letters(question.act.command), "", *around]
    left = longest - sum(len(line) + 1 for line in (head, *below))
    if left < longest // 3:  # the list of parts gives way to the command itself
        below = [*circumstances, *why, *odd_letters(question.act.command), "", *around]
        left = longest - sum(len(line) + 1 for line in (head, *below))
    return "\n".join([head, *_block(question.act.command, question.name, left), *below])


def visible(text: str) -> str:
    """Return text in which each character that is not seen, or that changes how others are shown, is named instead: ``⟨U+202E⟩``."""
    return "".join(one if _is_seen(one) else f"⟨{_NAMES.get(one, f'U+{ord(one):04X}')}⟩" for one in text)


def _is_seen(char: str) -> bool:
    category = unicodedata.category(char)
    if category == "Zs":
        return char == " "
    variation = "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"
    blank = char in "\u115f\u1160\u2800\u3164\uffa0\u034f\u17b4\u17b5"
    return category[0] != "C" and category not in {"Zl", "Zp"} and not variation and not blank


def _counted(run: re.Match[str]) -> str:
    return f"⟨{len(run[0])} backticks⟩"


def _block(text: str, name: str, left: int) -> list[str]:
    """Return text as a code block of at most ``left`` characters, or a little more where that is too few for one."""
    shown = "\n".join(visible(line) for line in text.split("\n"))
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", shown) or [""]))
    note = _shortened_note(name)
    room = left - 2 * (len(fence) + 1)
    if len(shown) <= room:
        return [fence, shown, fence]
    return [fence, _shortened(shown, max(80, room - len(note) - 1)), fence, note]


def _all_of_it(name: str) -> str:
    """Return the command that prints a question whole."""
    return for_chat(f"homebody approvals show {name}")


def _shortened_note(name: str) -> str:
    return f"(shortened; all of it: {_all_of_it(name)})"


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    mark = f"\n… {len(text) - most:,} characters are not shown …\n"
    room = max(2, most - len(mark))
    head = int(room * _HEAD)
    return text[:head] + mark + text[len(text) - (room - head) :]


def _circumstances(act: Act, home: str, name: str) -> list[str]:
    """Say where and how a command would run. Where something of that is left out, the last line says so."""
    facts = [f"in the folder {_folder(act, home)}", "with the network" if act.network else "without the network"]
    whole = len(visible(_short(act.cwd, home))) <= 2 * _PART
    if act.env:
        shown, all_of_them = _variables(act.env)
        facts.append(f"with the variables {shown}")
        whole = whole and all_of_them
    if act.pty:
        facts.append("in a terminal")
    if act.into:
        facts += [_CONFINED[act.confinement]] if act.confinement in _CONFINED else []
        line = f"It would be typed into {_code(_one_line(act.into))}, which was started {', '.join(facts)}."
        whole = whole and not _one_line(act.into).endswith("…")
    else:
        line = f"It would {'run' if act.summary.startswith('run ') else 'happen'} {', '.join(facts)}."
    unclear = act.argv is not None and shlex.join(act.argv) != " ".join(act.command.split(" "))
    words = " ".join(_code(one) if one else "(empty)" for one in act.argv or ()) if unclear else ""
    return [
        line,
        *([] if whole else [f"⚠️ This line is shortened; all of it: {_all_of_it(name)}"]),
        *([f"Word by word: {_shortened(words, 4 * _PART)}"] if words else []),
    ]


def _variables(env: Sequence[tuple[str, str]]) -> tuple[str, bool]:
    """Return the variables of a command, those first that can change what runs, and whether that is all of them."""
    shown: list[str] = []
    room, whole = _VARIABLES, True
    for name, value in leading_first(env):
        text = _bounded(f"{name}={value}", _PART)
        room -= len(text)
        if shown and (room < 0 or len(shown) == _MOST_VARIABLES):
            break
        shown.append(_code(text))
        whole = whole and len(visible(f"{name}={value}")) <= _PART
    left = len(env) - len(shown)
    return ", ".join(shown) + (f" and {left} more" if left else ""), whole and not left


def _parts(act: Act) -> list[str]:
    parts = shell_parts(act.command) if act.argv is None else None
    if not parts or len(parts) < 2:  # noqa: PLR2004 -- one part is the command itself
        return []
    shown = [f"{number}. {_code(_one_line(part))}" for number, part in enumerate(parts[:_MOST_PARTS], 1)]
    more = [f"… and {len(parts) - _MOST_PARTS} more"] if len(parts) > _MOST_PARTS else []
    return ["Its parts:", *shown, *more, ""]  # what follows a list without a line between stands in its last item


def _cut_note(question: Question, most: int) -> list[str]:
    """Say where all of what an act does is, if it takes more characters than its question shows."""
    shortened = len(visible(question.act.summary)) > most
    return [_shortened_note(question.name)] if shortened else []


def _target(act: Act, name: str) -> list[str]:
    target = act.url or act.path
    if not target or target in act.summary:
        return []
    return [_shortened(_code(target), 6 * _PART), *([_shortened_note(name)] if len(_code(target)) > 6 * _PART else [])]


def _recipients(act: Act, name: str) -> list[str]:
    if not act.recipients:
        return []
    shown = ", ".join(_code(_bounded(one, _PART)) for one in act.recipients[:_MOST_RECIPIENTS])
    left = len(act.recipients) - _MOST_RECIPIENTS
    more = f" and ⚠️ {left} more (all of them: {_all_of_it(name)})" if left > 0 else ""
    return [f"It goes to: {shown}{more}", *odd_letters(" ".join(act.recipients))]


def _why(question: Question) -> list[str]:
    lines = [f"Why I ask: {_as_it_is(_bounded(question.reason, 3 * _PART))}."] if question.reason else []
    if question.taint:
        sources = question.taint
        more = f" and {len(sources) - _MOST_SOURCES} more" if len(sources) > _MOST_SOURCES else ""
        named = ", ".join(_as_it_is(_bounded(one, 60)) for one in sources[:_MOST_SOURCES])
        lines.append(f"⚠️ This conversation holds text from others, which may be behind this: {named}{more}.")
    asker = _ASKERS[question.origin]
    return [*lines, *([asker] if asker else [])]


def _answers(question: Question, home: str) -> list[str]:
    act, why_not = question.act, question.why_not_always
    if why_not is None:
        where = f" in {_folder(act, home)}{', with the network' if act.network else ''}, exactly so"
        what = f"{_code(_one_line(act.command))}{where}" if act.kind == "exec" else "this"
        always = f"**Always**: from now on without a question: {what}."
    else:
        always = (
            f"**Always** is not possible{'' if why_not == question.reason else f': {_as_it_is(_bounded(why_not, 2 * _PART))}'}."
        )
    return [
        "**Once**: do it now.",
        always,
        f"**Deny**: do not do it. No answer within {question.minutes} minutes counts as no.",
        f"Without buttons: `/approve {question.name} once`{', `always`' if why_not is None else ''} or `deny`.",
    ]


def odd_letters(command: str) -> list[str]:
    """Name letters of other alphabets that stand in one word with Latin ones, and may be taken for them."""
    odd = {
        char
        for word in _WORDS.findall(command)
        if any(char.isascii() and char.isalpha() for char in word) or len(word) == 1
        for char in word
        if not char.isascii() and char.isalnum() and not unicodedata.name(char, "").startswith("LATIN ")
    }
    if not odd:
        return []
    named = ", ".join(f"“{char}” is {unicodedata.name(char, 'unknown').lower()}" for char in sorted(odd)[:_MOST_LETTERS])
    return [f"⚠️ Some letters are not what they look like: {named}."]


def _one_line(text: str) -> str:
    """Return text as one line of limited length, with what is not seen named."""
    return _bounded(" ⏎ ".join(line.strip() for line in text.split("\n")), _PART)


def _bounded(text: str, most: int) -> str:
    """Return text with what is not seen named, cut to a length."""
    shown = visible(text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _folder(act: Act, home: str) -> str:
    return _code(_bounded(_short(act.cwd, home), 2 * _PART))


def _as_it_is(text: str) -> str:
    """Return text in which nothing becomes a link or is formatted, but for one piece of code: with signs of Markdown all is code."""
    before, tick, rest = text.partition("`")
    piece, closing, after = rest.partition("`")
    outside = f"{before}{after}" if tick and closing and piece else text
    return text if _FORMATS.search(outside) is None else _code(_RUNS.sub(_counted, text).replace("\n", " "))


def _code(text: str) -> str:
    """Return text as code in Markdown, whatever backticks it holds."""
    shown = visible(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def _short(path: str, home: str) -> str:
    relative = os.path.relpath(path, home) if home and path.startswith(home.rstrip("/") + "/") else ""
    return f"~/{relative}" if relative else path
