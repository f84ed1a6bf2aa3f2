"""Untrusted text: the names of its sources, and the fence in which a model is shown it.

A source is ``kind:name``, such as "web:example.org", "file:report.pdf", "person:Eve", "forwarded:Mal", "note:memory/2026-03-01.md".
A fence is two lines around the text that share a random mark, so that text cannot end its own fence:

    <untrusted 3f9c2a41b7 from="web:example.org">
    ...
    </untrusted 3f9c2a41b7>
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

Marks: TypeAlias = "Callable[[], str]"
"""Draws the mark of one fence: random, lower-case letters and figures."""
MOST_SOURCES: Final = 50
"""Sources that are kept by name; the others are kept as one."""
MORE: Final = "more"
_TRIES: Final = 8
_NAMED: Final = 3
"""Sources that a fence names."""
_LONGEST: Final = 60
FILE: Final = "[file: "
"""What the line begins with that names a file that came with a message."""
QUOTE: Final = "[In reply to: "
"""What the line begins with that quotes what a message replies to."""
_UNFIT: Final = re.compile(r"[^\w.:/@+~-]+")
_TAG: Final = r"[^\w<]{0,3}".join("untrusted")
_IMITATION: Final = re.compile(rf"[<\uff1c\ufe64\u2039\u3008\u27e8](?=\W{{0,8}}{_TAG})", re.IGNORECASE)
"""The bracket of what could be taken for a line of a fence, also with invisible characters in it."""
_BLOCK: Final = re.compile(r"^<untrusted ([0-9a-z]+) from=\"[^\"\n]*\">\n(.*?)^</untrusted \1>\n?", re.DOTALL | re.MULTILINE)
_FENCE: Final = re.compile(r"\A(<untrusted ([0-9a-z]+) from=\"[^\"\n]*\">\n)(.*)(\n</untrusted \2>)\Z", re.DOTALL)


def random_mark() -> str:
    """Draw a mark that nobody can guess."""
    return secrets.token_hex(5)


def source(kind: str, name: str) -> str:
    """Return the name of a source: one short word, whatever the ``name`` that others chose."""
    import unicodedata

    plain = _UNFIT.sub("_", unicodedata.normalize("NFKC", name)).strip("_") or "unknown"
    return f"{kind}:{plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + '…'}"


def merged(*groups: Iterable[str]) -> tuple[str, ...]:
    """Return sources in order of their names, each once; of very many the rest becomes ``MORE``."""
    found = sorted({one for group in groups for one in group})
    return tuple(found) if len(found) <= MOST_SOURCES else (*[one for one in found if one != MORE][:MOST_SOURCES], MORE)


def newest(sources: Iterable[str]) -> tuple[str, ...]:
    """Return sources in the order given, the newest first, each once; of very many the rest becomes ``MORE``."""
    found = tuple(dict.fromkeys(sources))
    return found if len(found) <= MOST_SOURCES else (*[one for one in found if one != MORE][:MOST_SOURCES], MORE)


def neutralised(text: str) -> str:
    """Return text in which nothing can be taken for the beginning or the end of a fence."""
    return _IMITATION.sub("(", text)


def fenced(text: str, sources: Iterable[str], marks: Marks = random_mark) -> str:
    """Return ``text`` in a fence that names its ``sources``."""
    named = [_UNFIT.sub("_", one) for one in sources]
    label = ", ".join(named[:_NAMED]) + (f" and {len(named) - _NAMED} more" if len(named) > _NAMED else "")
    plain = neutralised(text)
    drawn = [marks() for _ in range(_TRIES)] if (mark := marks()) in plain else [mark]
    mark = next((one for one in drawn if one not in plain), mark)
    return f'<untrusted {mark} from="{label}">\n{plain}\n</untrusted {mark}>'


def unfenced(text: str) -> str:
    """Return what is in a fence; text that is not one fence as it is. For programs: a model is shown the fence."""
    found = _FENCE.match(text)
    return text if found is None else found[3]


def apart(text: str) -> tuple[str, str]:
    """Return what stands outside of all fences in a text, and what stands inside."""
    inside = "\n".join(found[2].strip("\n") for found in _BLOCK.finditer(text))
    return (_BLOCK.sub("", text) if inside else text), inside


def within(text: str, change: Callable[[str], str]) -> str:
    """Apply ``change`` to what is in a fence, and keep the fence; text that is not one fence is changed as a whole."""
    found = _FENCE.match(text)
    return change(text) if found is None else f"{found[1]}{change(found[3])}{found[4]}"
