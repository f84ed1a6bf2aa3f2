"""What a person wrote in a mail themselves, without what their mail program put below it: the mail that they answer, a signature.

Mail programs mark these in their own ways and languages; the ones here are those of the large programs in English and German. What is not
recognised stays: too much text is harmless, a lost sentence is not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

_LONGEST_HEAD: Final = 4
"""Lines over which a program wraps the line above a quotation."""
_WROTE: Final = re.compile(
    r"(?:On\b.{4,300}\bwrote|Am\b.{4,300}\bschrieb\b.{0,200}|.{4,300}\bschrieb am\b.{4,100}|Le\b.{4,300}\ba écrit)\s*:",
    re.DOTALL,
)
"""The line above a quotation: Gmail, Apple Mail, Thunderbird, K-9."""
_ORIGINAL: Final = re.compile(
    r"-{2,}\s*(?:Original Message|Original Appointment|Ursprüngliche Nachricht|Originalnachricht|Message d'origine)\s*-{2,}",
    re.IGNORECASE,
)
_FORWARDED: Final = re.compile(
    r"(?:-{2,}\s*(?:Forwarded message|Weitergeleitete Nachricht|Forwarded by)\b.{0,80}|Begin forwarded message:"
    r"|Anfang der weitergeleiteten Nachricht:|-{2,}\s*Message transféré\s*-{2,})",
    re.IGNORECASE,
)
_RULE: Final = re.compile(r"_{20,}")
_FIELD: Final = re.compile(
    r"[*_ ]{0,3}(From|Sent|To|Date|Subject|Cc|Von|Gesendet|An|Datum|Betreff|Kopie)\s?:[*_ ]{0,3}(.*)", re.IGNORECASE
)
_FIRST_FIELDS: Final = frozenset({"from", "von"})
_NEXT_FIELDS: Final = frozenset({"sent", "date", "gesendet", "datum", "to", "an"})
_SIGNED: Final = re.compile(
    r"(?:Sent from my \w[\w ]{1,30}|Sent from (?:Mail|Outlook|Yahoo Mail|Proton Mail)\b.{0,60}|Get Outlook for \w+.{0,60}"
    r"|Von meinem \w[\w ]{1,30} gesendet|Gesendet von (?:meinem|Mail|Outlook|Yahoo)\b.{0,60}"
    r"|Outlook für \w+ (?:herunterladen|beziehen).{0,60}"
    r"|Diese Nachricht wurde von meinem .{1,60} gesendet.{0,60}|Envoyé de mon \w+)\.?",
    re.IGNORECASE,
)
_ADDRESS: Final = re.compile(r"[^\s<>\"'(),:;]+@[^\s<>\"'(),:;]+\.[^\s<>\"'(),:;]+")
Kind = Literal["", "quoted", "forwarded"]


@dataclass(frozen=True, slots=True)
class Written:
    """``own`` is the person's, ``rest`` what is quoted or forwarded below it. ``author`` wrote what was forwarded, if that is said."""

    own: str
    kind: Kind = ""
    rest: str = ""
    author: str = ""


def split(text: str, *, forwards: bool = False) -> Written:
    """Divide a mail. ``forwards``: its subject says that it passes another mail on.

    Each line of the text is in ``own`` or in ``rest``, but for signatures, blank lines around them and the lines that head a quotation.
    """
    found = _divided(text, forwards=forwards)
    return found if found.own.strip() or found.rest.strip() else Written(text.strip("\n"))


def _divided(text: str, *, forwards: bool) -> Written:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, line in enumerate(lines):
        if _FORWARDED.fullmatch(_bare(line)):
            rest = lines[number + 1 :]
            return Written(_signed_off(lines[:number]), "forwarded", _joined(rest), _author(rest))
        if (after := _after_head(lines, number)) is not None:
            own, rest = lines[:number], lines[after:]
            if own and _RULE.fullmatch(_bare(own[-1])):
                own = own[:-1]
            kind: Kind = "forwarded" if forwards else "quoted"
            return Written(_signed_off(own), kind, _joined(rest), _author(lines[number:]) if forwards else "")
    end = _quotation_at_end(lines)
    if end < len(lines):
        return Written(_signed_off(lines[:end]), "quoted", _joined(lines[end:]))
    return Written(_signed_off(lines))


def _after_head(lines: list[str], number: int) -> int | None:
    """Return where the quotation begins whose head begins at a line; None where there is none."""
    line = _bare(lines[number])
    if not line:
        return None
    if _ORIGINAL.fullmatch(line):
        return number + 1
    if (field := _FIELD.fullmatch(line)) and field[1].lower() in _FIRST_FIELDS:
        following = [found[1].lower() for one in lines[number + 1 : number + 4] if (found := _FIELD.fullmatch(_bare(one)))]
        return number if _NEXT_FIELDS.intersection(following) and len(following) > 1 else None
    for count in range(1, _LONGEST_HEAD + 1):
        head = [_bare(one) for one in lines[number : number + count]]
        if not all(head) or len(head) < count:
            return None
        if _WROTE.fullmatch(" ".join(head)):
            rest = lines[number + count :]
            return number + count if _is_quotation(rest) else None
    return None


def _is_quotation(rest: list[str]) -> bool:
    """Return whether all that follows is quoted: somebody may answer below each part, and that is theirs."""
    said = [line for line in rest if line.strip()]
    marked = [line.lstrip().startswith(">") for line in said]
    return not any(marked) or all(marked[: len(marked) - _signature_length(said)])


def _signature_length(said: list[str]) -> int:
    for number, line in enumerate(said):
        if _is_signature(line):
            return len(said) - number
    return 0


def _quotation_at_end(lines: list[str]) -> int:
    """Return where a quotation begins that nothing follows."""
    end = len(lines)
    while end and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith(">")):
        end -= 1
    return end if any(line.lstrip().startswith(">") for line in lines[end:]) and _has_text(lines[:end]) else len(lines)


def _has_text(lines: list[str]) -> bool:
    return any(line.strip() for line in lines)


def _signed_off(lines: list[str]) -> str:
    """Return the person's lines without a signature; with it where there is nothing else."""
    kept = lines
    for number, line in enumerate(lines):
        if _is_delimiter(line):
            kept = lines[:number]
            break
    while kept and (not kept[-1].strip() or _SIGNED.fullmatch(_bare(kept[-1]))):
        kept = kept[:-1]
    return _joined(kept) if _has_text(kept) else _joined(lines)


def _is_signature(line: str) -> bool:
    return _is_delimiter(line) or _SIGNED.fullmatch(_bare(line)) is not None


def _is_delimiter(line: str) -> bool:
    return line in {"-- ", "--", "\\--"} or line.rstrip("\n") == "--\u00a0"


def _author(lines: list[str]) -> str:
    """Return the address that a forwarded mail says it is from."""
    for line in lines[:8]:
        field = _FIELD.fullmatch(_bare(line))
        if field and field[1].lower() in _FIRST_FIELDS:
            found = _ADDRESS.search(field[2])
            return found[0] if found else ""
    return ""


def _bare(line: str) -> str:
    return line.strip().strip("*").strip()


def _joined(lines: list[str]) -> str:
    return "\n".join(line.rstrip() for line in lines).strip("\n")
