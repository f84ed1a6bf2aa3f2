"""Takes a message that a model is shown apart again: what its sender said, whose other words it brings, and the gateway's own lines."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from agent.taint import source

_CONTEXT_ENDS: Final = re.compile(r"^\[The message\]\n?", re.MULTILINE)
"""What stands between the lines that are told with a message and the message. Where a person wrote it, a backslash is in it."""
_FENCE: Final = re.compile(
    r"(?P<head>^\[[^\n]*\]\n)?^<untrusted (?P<mark>[0-9a-z]+) from=\"(?P<source>[^\"\n]*)\">\n(?P<text>.*?)^</untrusted (?P=mark)>$\n?"
    r"(?P<cut>^\[[^\n]*\]$\n?)*",
    re.DOTALL | re.MULTILINE,
)
_EDITED: Final = re.compile(r"^\[(?:(?P<who>[^\[\]\n]{1,80}) )?edited: (?P<text>(?:(?!\]$).)*)\]$\n?", re.DOTALL | re.MULTILINE)
_OURS: Final = re.compile(
    r"^\[(?:file: |with files that |\d+ more files |it (?:cannot|could not|was not) |what (?:another model sees|is said) in it\]$|cut: "
    r"|In reply to: |pressed: |forwarded\]$|sticker\b|something that (?:\w+ does not show|cannot be read here:) "
    r"|this mail is HTML|the HTML of this mail |[^\w\s\[\]]+ shows \d+\]$"
    r"|(?:game|story|paid media), which bots cannot see\]$)[^\n]*(?:\n|\Z)",
    re.MULTILINE,
)
"""Lines of the gateway in a message that say nothing of what its sender said."""
_FILE: Final = re.compile(r"^\[file: (?P<file>[^\n]*)\]$", re.MULTILINE)
_NOT_THERE: Final = " could not be downloaded: "
_SPOKEN: Final = re.compile(r"^\[voice message[^\]\n]*\][ \t]*", re.MULTILINE)
_DESCRIBED: Final = re.compile(
    r"^\[(?P<what>contact|place|location|live location|poll|checklist|answer to a form): (?P<text>[^\n]*)\]$", re.MULTILINE
)
_NAMED: Final = "from "
_BEFORE: Final = "[Said in this group before"
_NAMELESS: Final = frozenset({"somebody", "a_contact", "a_map", "a_shared_poll", "a_shared_checklist"})


class Brought(Struct, frozen=True):
    """Words that are not the sender's own. ``whose`` says so ("Forwarded from Ben"), and is empty where they say it themselves."""

    whose: str
    text: str

    @property
    def lines(self) -> tuple[str, ...]:
        """The words, line by line, each with whose they are."""
        bare = [line.strip() for line in self.text.splitlines()]
        return tuple(f"{self.whose}: {line}" if self.whose else line for line in bare if line)


class Edit(Struct, frozen=True):
    """What a message was changed into. ``who`` changed it, in a group."""

    text: str
    who: str = ""


class SaidWords(Struct, frozen=True):
    """``own`` is what the sender wrote or spoke; ``edits`` what they changed earlier messages into.

    ``before`` are lines that were said in a group to others, each with its speaker; ``files`` name files that arrived, with their paths.
    """

    own: str
    edits: tuple[Edit, ...] = ()
    brought: tuple[Brought, ...] = ()
    before: str = ""
    files: tuple[str, ...] = ()


def said_words(text: str) -> SaidWords:
    """Take apart the text of a message from a person, without its stamp."""
    ends = _CONTEXT_ENDS.search(text)
    context, words = ("", text) if ends is None else (text[: ends.start()], text[ends.end() :])
    edits: list[Edit] = []
    brought: list[Brought] = []
    before: list[str] = []
    for found in _FENCE.finditer(context):
        head = found["head"] or ""
        if head.startswith(_BEFORE):
            before.append(found["text"].strip("\n"))
        elif head.rstrip().endswith("edited: words of somebody]"):
            brought.append(_brought(found))
    edits += [
        Edit(_plain(found["text"]), (found["who"] or "").strip("“” ")) for found in _EDITED.finditer(_FENCE.sub("", context))
    ]
    brought += [_brought(found) for found in _FENCE.finditer(words)]
    own = _plain(_FENCE.sub(_before_fence, words))
    return SaidWords(
        own,
        edits=tuple(one for one in edits if one.text),
        brought=tuple(one for one in brought if one.text),
        before="\n".join(before),
        files=tuple(found["file"] for found in _FILE.finditer(words) if _NOT_THERE not in found["file"]),
    )


def _before_fence(fence: re.Match[str]) -> str:
    """Return what stands before a fence that belongs to the sender: a line in brackets is the gateway's or theirs."""
    head = fence["head"] or ""
    return "" if _OURS.match(head) else head


def _plain(text: str) -> str:
    """Return words without the gateway's lines, descriptions without their brackets."""
    return _DESCRIBED.sub(_description, _SPOKEN.sub("", _OURS.sub("", text))).strip()


def _description(found: re.Match[str]) -> str:
    return f"{found['what'][:1].upper()}{found['what'][1:]}: {found['text']}"


def _brought(fence: re.Match[str]) -> Brought:
    kind, _, name = fence["source"].partition(",")[0].partition(":")
    match kind:
        case "file":
            whose = f"From the file {name}"
        case "forwarded":
            whose = "Forwarded" if name in _NAMELESS else f"Forwarded from {name.replace('_', ' ')}"
        case "edit":
            whose = "Edited"
        case _:
            whose = f"From {kind} {name}".rstrip()
    text = _plain(fence["text"])
    if text.startswith(_NAMED) and source(kind, text.removeprefix(_NAMED)) == f"{kind}:{name}":
        text = ""  # the gateway's own line: nothing else was forwarded with it
    described = name in _NAMELESS and _DESCRIBED.match(fence["text"].lstrip()) is not None
    return Brought("" if described else whose, text)
