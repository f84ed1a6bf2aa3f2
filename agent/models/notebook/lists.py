"""What a message asks of the list of things to do, as calls of the tool ``todo``, and what came of them in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from agent.messages import ToolCall, ToolMessage
from memory.text.late_pattern import LatePattern

if TYPE_CHECKING:
    from agent.models.notebook.intents import Intent

NAME: Final = "todo"


@dataclass(frozen=True, slots=True)
class OnList:
    """Show a list, put ``texts`` on it, tick one off or take it off. ``section`` is the name of a list that is not the general one.

    ``otherwise`` is what is done where there is no such tool, and with a list that is asked for and empty.
    """

    what: Literal["list", "add", "done", "remove"]
    otherwise: Intent
    texts: tuple[str, ...] = ()
    section: str = ""


_POLITE: Final = (
    r"(?:(?:please|pls|hey|ok|okay|so|and|also|bitte)[\s,]+)*"
    r"(?:(?:can|could|would|will)\s+you\s+(?:please\s+)?|kannst\s+du\s+(?:bitte\s+)?)?"
)
_LIST: Final = (
    r"(?:(?:the|my|our|die|den|der|meine[nmr]?|unsere[nmr]?)\s+)?(?P<list>(?:[\w-]+\s+){0,2}?[\w-]*(?:list|liste|zettel))"
)
_SHOWN: Final = LatePattern(
    rf"""^{_POLITE}(?:
      what(?:['’]s|\s+is|\s+do\s+(?:i|we)\s+have)\s+(?:still\s+|left\s+)?on\s+{_LIST}
      |(?:show|list|read|open|zeig(?:e)?)\s+(?:me\s+|mir\s+|uns\s+)?{_LIST.replace("?P<list>", "?P<list2>")}
      |was\s+(?:steht|ist)\s+(?:noch\s+|alles\s+)?auf\s+{_LIST.replace("?P<list>", "?P<list3>")}
    )$""",
    re.IGNORECASE | re.VERBOSE,
)
_DONE: Final = LatePattern(
    rf"""^{_POLITE}(?:
      (?:tick|check|cross)\s+off\s+(?P<a>\S.*?)
      |(?:tick|check|cross)\s+(?P<b>\S.*?)\s+off(?:\s+{_LIST})?
      |mark\s+(?P<c>\S.*?)\s+(?:as\s+)?(?:done|finished)
      |(?:done|erledigt)\s*:\s*(?P<d>\S.*?)
      |hak(?:e)?\s+(?P<e>\S.*?)\s+ab
    )$""",
    re.IGNORECASE | re.VERBOSE,
)
_REMOVED: Final = LatePattern(
    rf"^{_POLITE}(?:remove|delete|take|drop|strike|nimm|streich(?:e)?|lösch(?:e)?|loesch(?:e)?|entfern(?:e)?)\s+(?P<what>\S.*?)\s+"
    rf"(?:off|from|off\s+of|von|aus)\s+{_LIST}(?:\s+(?:herunter|runter|weg))?$",
    re.IGNORECASE,
)
_GENERAL: Final = LatePattern(
    r"^(?:(?:to-?\s?do|task|general|allgemeine|aufgaben)[\s-]*)?(?:list|liste|zettel)$", re.IGNORECASE
)
_ROW: Final = LatePattern(r"^(?P<indent> *)[b-z]{4,12} (?P<text>\S.*)$")
_RESULT: Final = LatePattern(
    r"^(?:(?P<did>[a-z ]+): )?[b-z]{4,12} (?P<text>.*?)(?:: (?P<why>[a-z ]+); nothing was changed)?$", re.DOTALL
)


def section_of(name: str) -> str:
    """Return the section that a list with this name is; "" for the general one."""
    plain = " ".join(name.split())
    return "" if _GENERAL.match(plain) else plain[:1].upper() + plain[1:]


def other_wish(bare: str, otherwise: Intent) -> OnList | None:
    """Return what a message asks of a list, besides putting something on it. ``bare`` is the message without marks at its end."""
    if "\n" in bare:
        return None
    if found := _SHOWN.match(bare):
        return OnList("list", otherwise, section=section_of(found["list"] or found["list2"] or found["list3"]))
    if found := _DONE.match(bare):
        text = next(found[name] for name in "abcde" if found[name])
        return OnList("done", otherwise, (text,))
    if found := _REMOVED.match(bare):
        return OnList("remove", otherwise, (found["what"],))
    return None


def list_calls(wish: OnList) -> tuple[ToolCall, ...]:
    """Return the calls that a wish takes."""
    name = "item" if wish.what in {"done", "remove"} else "text"
    section = {"section": wish.section} if wish.section else {}
    return tuple(
        ToolCall(id="", name=NAME, arguments={"action": wish.what, **({name: text} if text else {}), **section})
        for text in wish.texts or ("",)
    )


def is_empty(result: ToolMessage) -> bool:
    """Say whether a list that was asked for has nothing to be done on it."""
    return not result.is_error and not any(_ROW.match(line) for line in result.text.splitlines())


def told_list(wish: OnList, results: Sequence[ToolMessage]) -> str:
    """Put the results of the calls into words."""
    return "\n".join(_answer_text(wish, result) for result in results) or "The list was not changed; please send it again."


def _answer_text(wish: OnList, result: ToolMessage) -> str:
    text = result.text.strip()
    if result.is_error:
        return f"I could not do that: {text}"
    if wish.what == "list":
        return _listed(wish, text)
    found = _RESULT.match(text)
    if found is None:
        return text
    where = f" ({wish.section})" if wish.section else ""
    if found["why"]:
        return f"“{found['text']}” {found['why']}."
    return {
        "add": f"📝 “{found['text']}” is on the list{where}.",
        "done": f"☑ “{found['text']}” is done.",
        "remove": f"“{found['text']}” is off the list.",
    }[wish.what]


def _listed(wish: OnList, text: str) -> str:
    rows = []
    for line in text.splitlines():
        if found := _ROW.match(line):
            rows.append(f"{found['indent']}- {found['text']}")
        elif line.startswith("## "):
            rows += ["", f"**{line[3:]}**", ""] if line[3:] != wish.section else []
        elif line.startswith("["):
            rows += ["", line.strip("[]")]
    return "\n".join([f"{wish.section or 'To do'}:", "", *rows])
