"""What a person wrote in a mail themselves, apart from what others wrote: the mail that they answer or pass on, and a signature.

Mail programs mark these in their own ways and languages; the ones here are those of the large programs in several languages. What stands
quoted is never the person's own, wherever it stands. Other words that are not recognised stay: a lost sentence is not harmless.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

_LONGEST_HEAD: Final = 4
"""Lines over which a program wraps the line above a quotation."""
_WROTE: Final = re.compile(
    r"(?:On\b.{4,300}\bwrote|Am\b.{4,300}\bschrieb\b.{0,200}|.{4,300}\bschrieb am\b.{4,100}|Le\b.{4,300}\ba écrit"
    r"|(?=.{0,300}\d)(?:El\b.{4,300}\bescribió|Il\b.{4,300}\bha scritto|Op\b.{4,300}\bschreef\b.{0,200}"
    r"|Em\b.{4,300}\bescreveu|Den\b.{4,300}\bskrev\b.{0,200}))\s*:",
    re.DOTALL,
)
"""The line above a quotation: Gmail, Apple Mail, Thunderbird, K-9."""
_ADDRESSED: Final = re.compile(r"(?=.{0,300}\d).{4,300}<[^<>\s]{1,200}@[^<>\s]{1,200}>.{0,60}[:：]")
"""The same in another language, where a quotation follows: a date and an address."""
_ORIGINAL: Final = re.compile(
    r"-{2,}\s*(?:Original Message|Original Appointment|Ursprüngliche Nachricht|Originalnachricht|Message d['’]origine|Message original"
    r"|Mensaje original|Messaggio originale|Oorspronkelijk bericht|Mensagem original|Ursprungligt meddelande|Originalmeddelande"
    r"|Oprindelig meddelelse|Opprinnelig melding|Oryginalna wiadomość|Wiadomość oryginalna)\s*-{2,}\s*(?P<more>[^\W\d_][^:]{0,24}:.*)?",
    re.IGNORECASE,
)
_FORWARDED: Final = re.compile(
    r"(?:-{2,}\s*(?:Forwarded message|Forwarded by|Weitergeleitete Nachricht|Message (?:transféré|réexpédié)|Mensaje reenviado"
    r"|Messaggio inoltrato|Doorgestuurd bericht|Mensagem (?:re)?encaminhada|Vidarebefordrat meddelande|Videresendt (?:meddelelse|melding)"
    r"|Przekazana wiadomość|Wiadomość przekazana)\b(?:.{0,80}?-{2,}\s*(?P<more>[^\W\d_][^:]{0,24}:.*)|.{0,80})"
    r"|(?:Begin forwarded message|Anfang der weitergeleiteten Nachricht|Début du message (?:transféré|réexpédié)"
    r"|Inicio del mensaje reenviado|Inizio (?:del )?messaggio inoltrato|Begin doorgestuurd bericht"
    r"|Início da mensagem (?:re)?encaminhada|Vidarebefordrat brev|Start på videresendt besked)\s?:)",
    re.IGNORECASE,
)
"""``more``: Samsung writes the fields into the same line."""
_DASHED: Final = re.compile(r"-{4,}\s*[^-\s].{1,80}?-{4,}\s*(?P<more>[^\W\d_][^:]{0,24}:.*)?")
"""The same in another language, where fields with an address follow."""
_ANY_FIELD: Final = re.compile(r"[^\W\d_][^:：]{0,24}[:：].+")
_RULE: Final = re.compile(r"_{20,}|-{3,}")
"""The line that Outlook draws above a mail, also as HTML's is told."""
_FIELD: Final = re.compile(
    r"[*_ ]{0,3}(From|Von|De|Da|Van|Från|Fra|Od|Sent|Date|Gesendet|Datum|Envoyé|Enviado|Enviado el|Enviado em|Enviada em|Fecha|Inviato|Data"
    r"|Verzonden|Skickat|Sendt|Dato|Wysłano|To|An|À|Para|A|Aan|Till|Til|Do|Subject|Betreff|Objet|Asunto|Oggetto|Onderwerp|Assunto|Ämne|Emne"
    r"|Temat|Cc|Kopie|Copie)[*_ ]{0,3}\s?[:：][*_ ]{0,3}(.*)",
    re.IGNORECASE,
)
_FIRST_FIELDS: Final = frozenset({"from", "von", "de", "da", "van", "från", "fra", "od"})
_NEXT_FIELDS: Final = (
    frozenset(
        {"sent", "date", "to", "gesendet", "datum", "an", "envoyé", "à", "enviado", "enviado el", "enviado em", "enviada em"}
    )
    | frozenset({"fecha", "para", "inviato", "data", "a", "verzonden", "aan", "skickat", "till", "sendt", "dato", "til"})
    | frozenset({"wysłano", "do"})
)
_SIGNED: Final = re.compile(
    r"(?:Sent from my \w[\w ]{1,30}|Sent from (?:Mail|Outlook|Yahoo Mail|Proton Mail)\b.{0,60}|Get Outlook for \w+.{0,60}"
    r"|Von meinem \w[\w ]{1,30} gesendet|Gesendet von (?:meinem|Mail|Outlook|Yahoo)\b.{0,60}"
    r"|Outlook für \w+ (?:herunterladen|beziehen).{0,60}"
    r"|Diese Nachricht wurde von meinem .{1,60} gesendet.{0,60}|Envoyé de mon \w+)\.?",
    re.IGNORECASE,
)
_QUOTED: Final = re.compile(r"\s*(?:>|(?:[-*+]|\d{1,3}[.)])[ \t]+> )")
"""A quoted line, also as the first one in a list."""
_ADDRESS: Final = re.compile(r"[^\s<>\"'(),:;]+@[^\s<>\"'(),:;]+\.[^\s<>\"'(),:;]+")
Kind = Literal["", "quoted", "forwarded"]
_HEADS: Final[tuple[tuple[re.Pattern[str], Kind], ...]] = ((_FORWARDED, "forwarded"), (_ORIGINAL, "quoted"))


@dataclass(frozen=True, slots=True)
class Written:
    """``own`` is the person's, ``rest`` what is quoted or forwarded. ``author`` wrote what was forwarded, if that is said.

    ``between``: the person wrote between quoted parts, and ``rest`` has the whole of it, so that it can be seen what they answer to what.
    """

    own: str
    kind: Kind = ""
    rest: str = ""
    author: str = ""
    between: bool = False


@dataclass(slots=True)
class _Part:
    """Lines that are the person's own, or that are not."""

    own: bool
    at: int
    lines: list[str]


def split(text: str, *, forwards: bool = False) -> Written:
    """Divide a mail. ``forwards``: its subject says that it passes another mail on.

    Each line of the text is in ``own`` or in ``rest``, but for signatures, blank lines around them and the lines that head a quotation.
    """
    found = _divided(text, forwards=forwards)
    if found.own.strip() or found.rest.strip():
        return found
    return Written("", found.kind, text.strip("\n")) if found.kind else Written(text.strip("\n"))


def _divided(text: str, *, forwards: bool) -> Written:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    parts, kind = _parts(lines)
    theirs = [part for part in parts if not part.own]
    told = [(part, _unsigned(part.lines)) for part in parts if part.own]
    own = "\n\n".join(said for _, said in told if said)
    if not theirs:
        return Written(own or _joined(lines))
    if not own and parts[0].own:
        own = _joined(parts[0].lines)
    if forwards or any(_FORWARDED.fullmatch(_bare(line.lstrip("> \t"))) for part in theirs for line in part.lines[:4]):
        kind = "forwarded"
    first, last = theirs[0].at, theirs[-1].at
    between = any(said and first < part.at < last for part, said in told)
    rest = _joined(lines[first:]) if between else "\n\n".join(filter(None, (_joined(part.lines) for part in theirs)))
    author = _author(lines[first:]) if kind == "forwarded" else ""
    return Written(own, kind, rest, author, between)


def _parts(lines: list[str]) -> tuple[list[_Part], Kind]:
    """Return the person's lines and those of others in turn, without the lines that head a quotation; and what the latter are."""
    parts: list[_Part] = []
    marked = _marked(lines)
    number = 0
    while number < len(lines):
        line = lines[number]
        if not marked[number]:
            if (passed := _passed_on(lines, number)) is not None:
                after, kind = passed
                if parts and parts[-1].own:
                    _remove_rule(parts[-1].lines)
                parts.append(_Part(own=False, at=number, lines=lines[after:]))
                return parts, kind
            if count := _length_of_head(lines, number):
                following = _next_said(lines, number + count)
                if following == len(lines) or not marked[following]:
                    parts.append(_Part(own=False, at=number, lines=lines[number + count :]))
                    return parts, "quoted"
                parts.append(_Part(own=False, at=number, lines=[]))
                number = following
                continue
        own = not marked[number] and not _heads_a_quotation(lines, marked, number)
        if parts and (parts[-1].own == own or not line.strip()):
            parts[-1].lines.append(line)
        else:
            parts.append(_Part(own, number, [line]))
        number += 1
    return parts, "quoted"


def _remove_rule(lines: list[str]) -> None:
    while lines and not lines[-1].strip():
        del lines[-1]
    if lines and _RULE.fullmatch(_bare(lines[-1])):
        del lines[-1]


def _marked(lines: list[str]) -> list[bool]:
    """Return which lines are marked as quoted. A code fence beside one is, too."""
    marked = [_QUOTED.match(line) is not None for line in lines]
    beside = [False, *marked, False]
    return [
        one or (line.strip() == "```" and (beside[number] or beside[number + 2]))
        for number, (line, one) in enumerate(zip(lines, marked, strict=True))
    ]


def _next_said(lines: list[str], number: int) -> int:
    while number < len(lines) and not lines[number].strip():
        number += 1
    return number


def _passed_on(lines: list[str], number: int) -> tuple[int, Kind] | None:
    """Return where a mail begins below the line at which its head begins, and whether it was forwarded; None where there is none."""
    line = _bare(lines[number])
    if not line:
        return None
    for pattern, kind in _HEADS:
        if found := pattern.fullmatch(line):
            return number if found["more"] else number + 1, kind
    if (
        line.startswith("----")
        and (found := _DASHED.fullmatch(line))
        and _has_fields(found["more"], lines[number + 1 : number + 13])
    ):
        return number if found["more"] else number + 1, "quoted"
    return (number, "quoted") if _is_block(lines, number) else None


def _has_fields(more: str | None, following: list[str]) -> bool:
    said = [_bare(one) for one in following if one.strip()][:5]
    if more is not None:
        return _ADDRESS.search(more) is not None
    fields = [one for one in said if _ANY_FIELD.fullmatch(one)]
    return len(fields) > 1 and any(_ADDRESS.search(one) for one in fields)


def _is_block(lines: list[str], number: int) -> bool:
    """Return whether the fields of a mail begin at a line, as Outlook writes them without any mark."""
    for at in range(number, min(number + 4, len(lines))):
        field = _FIELD.fullmatch(_bare(lines[at]))
        if field is None:
            return False
        if field[1].lower() in _FIRST_FIELDS:
            following = [_bare(one) for one in lines[at + 1 : at + 7] if one.strip()][:3]
            names = [found[1].lower() for one in (*lines[number:at], *following) if (found := _FIELD.fullmatch(_bare(one)))]
            return len(names) > 1 and bool(_NEXT_FIELDS.intersection(names))
    return False


def _length_of_head(lines: list[str], number: int) -> int:
    """Return how many lines head a quotation from a line on; 0 where none does."""
    for count in range(1, _LONGEST_HEAD + 1):
        head = [_bare(one) for one in lines[number : number + count]]
        if not all(head) or len(head) < count:
            return 0
        if _WROTE.fullmatch(" ".join(head)):
            return count
    return 0


def _heads_a_quotation(lines: list[str], marked: list[bool], number: int) -> bool:
    if _ADDRESSED.fullmatch(_bare(lines[number])) is None:
        return False
    following = _next_said(lines, number + 1)
    return following < len(lines) and marked[following]


def _unsigned(lines: list[str]) -> str:
    """Return the person's lines without a signature."""
    end = next((number for number, line in enumerate(lines) if _is_delimiter(line)), len(lines))
    while end and (not lines[end - 1].strip() or _SIGNED.fullmatch(_bare(lines[end - 1]))):
        end -= 1
    return _joined(lines[:end])


def _is_delimiter(line: str) -> bool:
    return line in {"-- ", "--", "\\--"} or line.rstrip("\n") == "--\u00a0"


def _author(lines: list[str]) -> str:
    """Return the address that a forwarded mail says it is from."""
    for line in lines[:12]:
        bare = _bare(line.lstrip("> \t"))
        if (one := _ORIGINAL.fullmatch(bare) or _FORWARDED.fullmatch(bare)) and one["more"]:
            bare = one["more"]
        field = _FIELD.fullmatch(bare)
        if field and field[1].lower() in _FIRST_FIELDS:
            found = _ADDRESS.search(field[2])
            return found[0] if found else ""
    return ""


def _bare(line: str) -> str:
    return line.strip().strip("*").strip()


def _joined(lines: list[str]) -> str:
    return "\n".join(line.rstrip() for line in lines).strip("\n")
