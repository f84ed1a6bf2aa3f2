"""Recognises what a message asks about reminders: to remind of something at a time, to list them, or to remove one."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final, Literal

from agent.models.notebook.said_time import NOTHING, Said
from agent.models.notebook.time_words import first_words, last_words
from memory.text.late_pattern import LatePattern


@dataclass(frozen=True, slots=True)
class Remind:
    """Remind of ``text`` when ``said`` says; either may be empty. ``fact`` is what was said, with the time words."""

    text: str
    said: Said
    fact: str


@dataclass(frozen=True, slots=True)
class Reminders:
    """Show the reminders, or remove one: by its number in the list, its id, its name, or words of it."""

    what: Literal["list", "remove"]
    which: str = ""


_POLITE: Final = r"(?:please|pls|hey|ok|okay|so|and|also|bitte)"
_CAN_YOU: Final = r"(?:(?:can|could|would|will)\s+you\s+(?:please\s+)?|i\s+want\s+you\s+to\s+|kannst\s+du\s+(?:bitte\s+)?)?"
_ORDER: Final = (
    r"(?:remind\s+me(?!\s+(?:what|where|when(?!\s+(?:i|we|you)\b)|who|how|which|why)\b)(?:\s+again)?|set\s+(?:me\s+)?(?:a|another)\s+reminder"
    r"|erinner(?:e|st)?\s+(?:du\s+)?mich(?!\s+(?:wo|was|wann|wer|wie)\b)|(?:stell|setz|mach)e?\s+(?:mir\s+)?eine\s+erinnerung)"
)
_REMIND: Final = LatePattern(
    rf"^(?:{_POLITE}[\s,]+)*{_CAN_YOU}{_ORDER}\b[\s,:]*(?:(?:please|bitte|noch|mal|for|für)\b[\s,]*)*(?P<fact>.*)$",
    re.IGNORECASE | re.DOTALL,
)
_TIME_FIRST: Final = LatePattern(
    rf"^(?:{_POLITE}[\s,]+)*(?P<when>\S.{{0,100}}?)[\s,]+{_CAN_YOU}{_ORDER}\b[\s,:]*(?:(?:please|bitte)\b[\s,]*)?(?P<fact>.*)$",
    re.IGNORECASE | re.DOTALL,
)
_VERB_LAST: Final = LatePattern(
    rf"^(?:{_POLITE}[\s,]+)*(?:kannst|könntest|koenntest|würdest|magst|willst)\s+du\s+(?:(?:bitte|mal|dann|noch)\s+)*mich\s+(?:bitte\s+)?"
    r"(?P<fact>\S.*?)\s+erinnern$",
    re.IGNORECASE | re.DOTALL,
)
_ASKED: Final = LatePattern(rf"^(?:{_POLITE}[\s,]+)*(?:can|could|would|will|kannst)\b", re.IGNORECASE)
_LINK: Final = LatePattern(
    r"^(?:(?P<about>about|of|regarding|an(?!\s+hour)|wegen)|to|that|daran\s*,?\s*(?:dass|zu)?|dass)\b[\s:,]*", re.IGNORECASE
)
"""What connects a reminder with its text. Behind "about" a time belongs to the text: "remind me tomorrow about the meeting at 3"."""
_ORDER_LAST: Final = LatePattern(
    rf"^(?P<fact>\S.*?)[\s,;.:–—-]+{_CAN_YOU}(?:remind\s+me|erinner(?:e|st)?\s+mich)(?:[\s,]+(?:{_POLITE}|of\s+(?:it|that)|daran))*[\s.!]*$",
    re.IGNORECASE | re.DOTALL,
)
"""What to be reminded of comes first: "buy milk tomorrow at 9, remind me"."""
_ON_EVENT: Final = LatePattern(
    rf"^(?:{_POLITE}[\s,]+)*{_CAN_YOU}(?:remind\s+me|erinner(?:e|st)?\s+mich)\b.*?\b"
    r"(?:(?:when|once|if|as\s+soon\s+as|before|after)\s+(?:i|we|you)|(?:wenn|sobald|falls|bevor|nachdem)\s+(?:ich|wir|du))\b",
    re.IGNORECASE | re.DOTALL,
)
_NO_EVENT: Final = "I can remind you at a time, not when something happens: “remind me at 18:00 to feed the dog”."
_ALIKE: Final = LatePattern(
    rf"^(?:{_POLITE}[\s,]+)*{_CAN_YOU}(?:don['’]?t\s+let\s+me\s+forget|lass\s+mich\s+nicht\s+vergessen"
    r"|(?P<wake>wake\s+me(?:\s+up)?|weck(?:e|st\s+du)?\s+mich))\b[\s,:]*(?P<fact>.*)$",
    re.IGNORECASE | re.DOTALL,
)
"""Other words for a reminder, where they name a time; without one they are something to note."""
_FORGET_NOT: Final = LatePattern(
    rf"^(?:{_POLITE}[\s,]+)*(?:vergiss\s+(?:bitte\s+)?nicht\b(?!\W*(?:dass|daß)\b)[\s:,]*|(?:don['’]?t|do\s+not)\s+forget(?:\s+to\b|\s*:)[\s,]*)"
    r"(?P<fact>.*)$",
    re.IGNORECASE | re.DOTALL,
)
_STATES: Final = LatePattern(r"\b(?:is|are|ist|sind|hat|habe|haben)\b", re.IGNORECASE)
"""What follows "vergiss nicht" with such a verb is something to note, whatever time it names."""
_SHARP: Final = LatePattern(r"^(?:sharp|on\s+the\s+dot|exactly|pünktlich|genau)\b[\s,]*", re.IGNORECASE)
_LIST: Final = LatePattern(
    r"""^(?:(?:what|which)\s+reminders\s+(?:do\s+i\s+have|have\s+i(?:\s+set)?|are\s+(?:there|set|open|coming(?:\s+up)?))
      |(?:(?:show|list|ls|see|read)\s+)?(?:me\s+)?(?:all\s+)?(?:of\s+)?(?:my\s+|the\s+|open\s+)?reminders|do\s+i\s+have\s+(?:any\s+)?reminders
      |what\s+(?:do\s+you|will\s+you|are\s+you\s+going\s+to)\s+remind\s+me\s+(?:of|about)|what\s+are\s+my\s+reminders
      |(?:welche|was\s+für)\s+erinnerungen\s+(?:habe\s+ich|gibt\s+es|sind\s+offen)|(?:zeig(?:e)?\s+(?:mir\s+)?)?(?:alle\s+)?(?:meine\s+)?erinnerungen
      |woran\s+erinnerst\s+du\s+mich|habe\s+ich\s+erinnerungen)$""",
    re.IGNORECASE | re.VERBOSE,
)
_REMOVE: Final = LatePattern(
    rf"""^(?:{_POLITE}[\s,]+)*{_CAN_YOU}(?:
      (?:delete|remove|cancel|drop|stop|clear)\s+(?:the\s+|my\s+|that\s+)?reminders?(?:\s+(?:number|no\.?))?\s*
      |(?:lösch(?:e|en)?|loesch(?:e|en)?|entfern(?:e|en)?|streich(?:e|en)?|storniere?)\s+(?:die\s+|meine\s+)?erinnerung(?:en)?(?:\s+(?:nummer|nr\.?))?\s*
      |vergiss\s+(?:die\s+)?erinnerung\s*
    )[:#]?\s*(?P<which>.*)$""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_OWN_WORDS: Final = LatePattern(
    r"^(?:reminder\s+)?(?:to|about|of|for|that|called|named|an(?:s|\s+(?:den|die|das))?|zu[mr]?|dass|für)\b\s*", re.IGNORECASE
)


def reminder_in(words: str, bare: str) -> Remind | Reminders | None:
    """Return what a message asks about reminders, or None. ``bare`` is the message without marks at its end."""
    if _LIST.match(bare):
        return Reminders("list")
    if found := _REMOVE.match(bare):
        return Reminders("remove", _OWN_WORDS.sub("", found["which"]).strip(" \"'“”„‚‘’."))
    if found := _VERB_LAST.match(bare) or _REMIND.match(bare if _ASKED.match(words) else words):
        wish = _cut(found["fact"], NOTHING, found["fact"])
        return replace(wish, said=Said(unclear=_NO_EVENT)) if wish.said == NOTHING and _ON_EVENT.match(words) else wish
    if found := _TIME_FIRST.match(words):
        said, rest = all_first(found["when"], NOTHING)
        if said != NOTHING and not rest.strip(" ,.:-–—!"):
            return _cut(found["fact"], said, words)
    return _said_otherwise(words)


def _said_otherwise(words: str) -> Remind | None:
    """Return a wish with a time that is put in another order or in other words."""
    if (found := _ORDER_LAST.match(words)) and (wish := _cut(found["fact"], NOTHING, words)).said != NOTHING:
        return wish
    if (found := _ALIKE.match(words)) and (wish := _cut(found["fact"], NOTHING, words)).said != NOTHING:
        return replace(wish, text=wish.text or "Wake up") if found["wake"] else wish
    if (found := _FORGET_NOT.match(words)) and not _STATES.search(found["fact"]):
        wish = _cut(found["fact"], NOTHING, words)
        soon = wish.said.timed or wish.said.ahead is not None or wish.said.minutes
        return wish if soon and not wish.said.repeats and wish.text else None
    return None


def all_first(text: str, said: Said) -> tuple[Said, str]:
    """Read all time words that a text begins with."""
    while (found := first_words(text)) is not None and (joined := said.joined(found[0])) is not None:
        said, text = joined, found[1]
        text = _SHARP.sub("", text) if said.time is not None else text
    return said, text


def _cut(fact: str, said: Said, whole: str) -> Remind:
    """Take the time words off both ends of what was said behind "remind me"."""
    said, fact = all_first(fact.strip(), said)
    link = _LINK.match(fact)
    fact = fact[link.end() :] if link else fact
    before = said
    if said == NOTHING:
        said, fact = all_first(fact, said)
    belongs = link is not None and link["about"] is not None and before != NOTHING
    while not belongs and (found := last_words(fact)) is not None:
        joined = said.joined(found[0])
        if joined is None or (before != NOTHING and (found[0].dated or before.timed)):
            break  # "at 9 to call the plumber on Friday": the day belongs to the plumber
        said, fact = joined, found[1]
    return Remind(_text(fact), said, whole.strip())


def _text(fact: str) -> str:
    """Return the text of a reminder: without the marks around it, and with a capital letter at its beginning."""
    text = fact.strip().strip(",;:–—").strip()
    text = re.sub(r"^(?:to|daran)\s*[,:]?\s+(?=\S)", "", text, flags=re.IGNORECASE).rstrip(".")
    return text[:1].upper() + text[1:]
