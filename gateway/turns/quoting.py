"""Escapes what people wrote so that it cannot imitate the gateway's own marks: names, quotations, fences, headers."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from agent.taint import Marks, fenced, random_mark, source
from gateway.routing.automation import Automation
from gateway.routing.routed_message import RoutedMessage

LONGEST_NAME: Final = 60
LONGEST_QUOTE: Final = 300
_NOT_IN_NAMES: Final = re.compile(r"[\[\]<>“”„\"`|]")
_FORWARDED: Final = re.compile(
    r"^(\[(?:forwarded(?: from ([^\n]*))?|made with (@[^\n]*))\])[ \t]*\n(.+)", re.DOTALL | re.MULTILINE
)
"""What channels put before words that are not the sender's own, and those words."""
_MARKS: Final = re.compile(
    r"^(?=[ \t>*_#-]*(?:"
    r"\[\s*(?:in reply to|said in this group|the message\]|the program through which|edited:|pressed:"
    r"|pinned|unpinned|forwarded|owner|system|summary|your owner"
    r"|[a-z]{3} \d{4}-\d\d-\d\d|[^\]\n]{0,120}\bto you\s*\]|[^\]\n]{0,120}\b(?:edited:|put )"
    r"|the answer above|not answered|no longer pinned|(?:scheduled )?job\b|webhook\b|from sub-?agent|sub-?agent\b|task\s*[“\"]|heartbeat\b)"
    r"|</?(?:said|file|forwarded|quoted|untrusted)\b))",
    re.IGNORECASE | re.MULTILINE,
)
"""Beginnings of lines that the agent is told by us alone. Where a person wrote one, a backslash stands before it."""


def name_of(name: str, otherwise: str) -> str:
    """Return a display name as one plain, short line; ``otherwise`` where nothing of it can be read."""
    seen = "".join(" " if unicodedata.category(letter)[0] in "CZ" else letter for letter in name)
    plain = " ".join(_NOT_IN_NAMES.sub("", seen).split())
    return (plain if len(plain) <= LONGEST_NAME else plain[: LONGEST_NAME - 1].rstrip() + "…") or otherwise


def head_of(arrived: RoutedMessage) -> str:
    """Return who speaks, for the head of a message: the name they chose in quotation marks, the platform's id, the role.

    Nothing for the owner in private, where nobody else speaks. For a message that no person wrote: what it comes from.
    """
    if arrived.automation is not None:
        label = label_of(arrived.automation)
        return f"from {label}" if label.startswith("sub-agent") else label
    if arrived.route.audience.kind == "owner":
        return ""
    inbound, actor = arrived.inbound, arrived.actor
    role = "owner" if actor.owner else "member" if inbound.conversation.kind == "group" else "guest"
    return f"“{name_of(inbound.sender.name, '?')}” {inbound.conversation.channel}:{name_of(inbound.sender.id, '?')}, {role}"


def label_of(automation: Automation) -> str:
    """Return what a message comes from that no person wrote, such as ``job “water the plants”``."""
    kind = automation.source.partition(":")[0]
    if kind == "heartbeat" and automation.origin != "agent":
        return kind
    what = {"schedule": "job", "webhook": "webhook"}.get(automation.origin)
    if what is None:
        what = "sub-agent" if automation.result_of or automation.parent is None else "task"
    return f"{what} “{name_of(automation.name, 'unnamed')}”"


def unmarked(text: str) -> str:
    """Return a text in which no line can be taken for a mark of ours."""
    return _MARKS.sub(r"\\", text)


def body(text: str, marks: Marks = random_mark) -> str:
    """Return a message's own text; what was forwarded is fenced. Whose words it is, a name that others chose, stands in the fence alone."""
    forwarded = _FORWARDED.search(text)
    if forwarded is None:
        return unmarked(text)
    own = unmarked(text[: forwarded.start()])
    return f"{own}[forwarded]\n{fenced(unmarked(forwarded[4]).strip(), forwarded_from(text), marks)}"


def forwarded_from(text: str) -> tuple[str, ...]:
    """Return the source of the words in a message that are not its sender's own, or nothing."""
    found = _FORWARDED.search(text)
    return () if found is None else (source("forwarded", found[2] or found[3] or "somebody"),)


def quoted(text: str, most: int = LONGEST_QUOTE) -> str:
    """Return the beginning of a text as a quotation of one line."""
    return f"“{one_line(text, most).replace('“', '‘').replace('”', '’')}”"


def one_line(text: str, most: int) -> str:
    """Return the beginning of a text without line breaks."""
    return cut(" ".join(text.split()), most)


def cut(text: str, most: int) -> str:
    """Return the beginning of a text, marked where it was cut."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
