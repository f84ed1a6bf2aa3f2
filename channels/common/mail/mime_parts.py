"""The parts of a mail, from what the server says of its structure (BODYSTRUCTURE, RFC 3501 section 7.4.2), without its content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from email.header import decode_header, make_header
from itertools import takewhile
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from channels.common.control_characters import visible
from channels.common.mail.imap_values import Value

MOST_PARTS: Final = 500
_SHORTEST: Final = 7
"""Fields of a part that every server gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MimePart:
    """A part without parts of its own. ``section`` is its number, such as "1.2"; ``size`` counts bytes as they are transferred.

    ``flowed``: its lines are to be joined (``flowed_text``), with ``joined_without_space`` as languages without spaces want it.
    ``above`` are the parts around it, the outermost first: the number and the kind of each, such as ``("1", "alternative")``.
    """

    section: str
    media_type: str
    charset: str = ""
    encoding: str = ""
    size: int = 0
    name: str = ""
    attached: bool = False
    flowed: bool = False
    joined_without_space: bool = False
    above: tuple[tuple[str, str], ...] = ()

    @property
    def is_attachment(self) -> bool:
        """Whether it is shown as a file: by what the mail says, or because it is no text."""
        return self.attached or bool(self.name) or self.media_type not in {"text/plain", "text/html"}


def parts_of(structure: Value) -> list[MimePart]:
    """Return the parts of a mail in their order, at most ``MOST_PARTS``. Parts that make no sense are left out."""
    found: list[MimePart] = []
    if isinstance(structure, list):
        _collect(structure, "", (), found)
    return found


def _collect(structure: list[Any], section: str, above: tuple[tuple[str, str], ...], found: list[MimePart]) -> None:
    if len(found) >= MOST_PARTS or not structure:
        return
    if isinstance(structure[0], list):
        kind = next((_text(one).lower() for one in structure if isinstance(one, bytes)), "mixed")
        for number, child in enumerate(takewhile(lambda one: isinstance(one, list), structure), 1):
            _collect(child, f"{section}.{number}" if section else str(number), (*above, (section, kind)), found)
        return
    if len(structure) < _SHORTEST:
        return
    major, minor, params, _, _, encoding, size = structure[:7]
    media_type = f"{_text(major)}/{_text(minor)}".lower()
    given = _pairs(params)
    disposition, shown = _disposition(structure)
    name = _named(shown, "filename") or _named(given, "name")
    found.append(
        MimePart(
            section=section or "1",
            media_type=media_type,
            charset=given.get("charset", ""),
            encoding=_text(encoding).lower(),
            size=size if isinstance(size, int) else 0,
            name=name,
            attached=disposition == "attachment",
            flowed=media_type == "text/plain" and given.get("format", "").lower() == "flowed",
            joined_without_space=given.get("delsp", "").lower() == "yes",
            above=above,
        )
    )


def _disposition(structure: Sequence[Any]) -> tuple[str, dict[str, str]]:
    """Return the disposition of a part, which is at different places for texts, mails and others."""
    for value in structure[7:]:
        if (
            isinstance(value, list)
            and value
            and isinstance(value[0], bytes)
            and _text(value[0]).lower() in {"attachment", "inline"}
        ):
            return _text(value[0]).lower(), _pairs(value[1] if len(value) > 1 else None)
    return "", {}


def _pairs(value: Any) -> dict[str, str]:
    if not isinstance(value, list):
        return {}
    return {_text(name).lower(): _text(content) for name, content in zip(value[::2], value[1::2], strict=False)}


def _named(given: dict[str, str], key: str) -> str:
    """Return a name, in whichever of the three ways it is written: plain, RFC 2047, or RFC 2231 in pieces."""
    if (plain := given.get(key)) is not None:
        return decoded_words(plain)
    if (extended := given.get(f"{key}*")) is not None:
        return _extended(extended)
    pieces = [(part, given[part]) for number in range(20) for part in (f"{key}*{number}", f"{key}*{number}*") if part in given]
    if not pieces:
        return ""
    whole = "".join(text for _, text in pieces)
    return _extended(whole) if pieces[0][0].endswith("*") else decoded_words(whole)


def _extended(text: str) -> str:
    """Return a value of RFC 2231: charset, language and percent-encoded text between apostrophes."""
    charset, mark, rest = text.partition("'")
    value = rest.partition("'")[2] if mark else text
    data = unquote_to_bytes(value)
    try:
        return visible(data.decode(charset or "utf-8", "replace"))
    except LookupError:
        return visible(data.decode("utf-8", "replace"))


def decoded_words(text: str) -> str:
    """Return the text of a header with its encoded words decoded, as one line without invisible characters; never fail."""
    try:
        shown = str(make_header(decode_header(text)))
    except (LookupError, ValueError, TypeError, AssertionError):  # unknown encodings, broken base64, and what else is sent
        shown = text
    return " ".join(visible(shown.encode("utf-8", "replace").decode()).split())


def _text(value: Any) -> str:
    if isinstance(value, int):
        return str(value)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""
