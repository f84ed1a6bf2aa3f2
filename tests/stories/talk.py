"""What was said and what was shown, and the judge who compares the two.

Each message of a person holds a token; an answer holds the tokens that it answers. The judge knows nothing else.
"""

from __future__ import annotations

import random
import re
import string
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

MARK = re.compile(r"(?i)^\s*[_*]*\([^)\n]*(repeat|again|twice|second time|may have|already)[^)\n]*\)")
"""How a copy that may be the second one begins: a remark in parentheses that says so."""
RESTART = re.compile(r"(?i)\brestart")


@dataclass(frozen=True)
class Spoken:
    """One message of a person."""

    chat: str
    token: str
    at: float


@dataclass(frozen=True)
class Seen:
    """One message of the agent, as the people of the chat see it at the end."""

    chat: str
    text: str
    at: float


@dataclass(frozen=True)
class Talk:
    """All that was said by people, and all that they saw, each in its order."""

    spoken: tuple[Spoken, ...]
    seen: tuple[Seen, ...]


@dataclass(frozen=True)
class Findings:
    """What the judge found. All but ``told`` and ``marked`` must be empty."""

    lost: tuple[str, ...] = ()
    """Tokens that nobody heard of again."""
    told: tuple[str, ...] = ()
    """Tokens without an answer, but named in another message."""
    doubled: tuple[str, ...] = ()
    """Tokens with two answers that are not marked."""
    marked: tuple[str, ...] = ()
    """Tokens with an answer that says it may be a repetition."""
    astray: tuple[str, ...] = ()
    """Tokens answered in another chat."""
    disordered: tuple[str, ...] = ()
    """Chats in which first answers came in another order than what they answer."""

    @property
    def broken(self) -> dict[str, tuple[str, ...]]:
        """What must not be, by its name."""
        names = ("lost", "doubled", "astray", "disordered")
        return {name: getattr(self, name) for name in names if getattr(self, name)}

    def __str__(self) -> str:
        """Say it in figures."""
        counts = {name: len(getattr(self, name)) for name in ("lost", "doubled", "astray", "disordered", "told", "marked")}
        return ", ".join(f"{count} {name}" for name, count in counts.items())


def judge(talk: Talk) -> Findings:
    """Compare what was said with what was seen."""
    known = {one.token: one for one in talk.spoken}
    answers: dict[str, list[Seen]] = defaultdict(list)
    mentions: dict[str, list[Seen]] = defaultdict(list)
    first: dict[str, list[str]] = defaultdict(list)
    for seen in talk.seen:
        for token in dict.fromkeys(re.findall(r"\b[a-z0-9]{6}\b", seen.text)):
            if token not in known:
                continue
            mentions[token].append(seen)
            if _answers(seen.text):
                answers[token].append(seen)
                if token not in first[seen.chat]:
                    first[seen.chat].append(token)
    said: dict[str, list[str]] = defaultdict(list)
    for one in talk.spoken:
        said[one.chat].append(one.token)
    unmarked = {token: [one for one in found if not MARK.match(one.text)] for token, found in answers.items()}
    return Findings(
        lost=tuple(token for token in known if token not in mentions),
        told=tuple(token for token in known if token in mentions and token not in answers),
        doubled=tuple(token for token, found in unmarked.items() if len(found) > 1),
        marked=tuple(token for token, found in answers.items() if len(found) > len(unmarked[token])),
        astray=tuple(token for token, found in mentions.items() if any(one.chat != known[token].chat for one in found)),
        disordered=tuple(chat for chat, order in first.items() if order != [one for one in said[chat] if one in order]),
    )


def _answers(text: str) -> bool:
    return re.search(r"(?m)^answer\b", text) is not None


@dataclass
class Script:
    """Makes what people say, and keeps it."""

    seed: int
    spoken: list[Spoken] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)

    def line(self, chat: object, more: str = "please") -> str:
        """Return the next message for a chat."""
        token = "".join(self._dice.choices(string.ascii_lowercase + string.digits, k=6))
        self.spoken.append(Spoken(str(chat), token, time.time()))
        return f"say-{token} {more}"


def controls(talks: Iterable[Talk]) -> str:
    """Let the judge judge each talk with each sabotage in it; return what was not found or could not be tried, or nothing."""
    missed: set[str] = set()
    tried: set[str] = set()
    for talk in talks:
        before = judge(talk)
        for name, sabotage in SABOTAGES.items():
            broken = sabotage(talk, before)
            if broken is None:
                continue
            tried.add(name)
            if len(getattr(judge(broken), name)) <= len(getattr(before, name)):
                missed.add(name)
    return ", ".join(sorted(missed | SABOTAGES.keys() - tried))


def _plain_answers(talk: Talk) -> Sequence[Seen]:
    return [one for one in talk.seen if _answers(one.text) and not MARK.match(one.text)]


def _lose(talk: Talk, found: Findings) -> Talk | None:
    gone = next((one.token for one in talk.spoken if one.token not in found.lost), None)
    return (
        None if gone is None else Talk(talk.spoken, tuple(replace(one, text=one.text.replace(gone, "")) for one in talk.seen))
    )


def _double(talk: Talk, found: Findings) -> Talk | None:
    again = next((one for one in _plain_answers(talk) if not any(token in one.text for token in found.doubled)), None)
    return None if again is None else Talk(talk.spoken, (*talk.seen, again))


def _lead_astray(talk: Talk, found: Findings) -> Talk | None:
    one = next((one for one in _plain_answers(talk) if not any(token in one.text for token in found.astray)), None)
    return None if one is None else Talk(talk.spoken, (*talk.seen, replace(one, chat="elsewhere")))


def _swap(talk: Talk, found: Findings) -> Talk | None:
    """Show an answer before one that came sooner, in a chat of which nothing bad is known."""
    for chat in dict.fromkeys(one.chat for one in talk.spoken if one.chat not in found.disordered):
        answers = [one for one in talk.seen if one.chat == chat and _answers(one.text)]
        first, last = answers[0] if answers else None, answers[-1] if answers else None
        tokens = [[one.token for one in talk.spoken if each is not None and one.token in each.text] for each in (first, last)]
        if first is not None and last is not None and not set(tokens[0]) & set(tokens[1]):
            return Talk(talk.spoken, (last, *(one for one in talk.seen if one is not last)))
    return None


SABOTAGES: dict[str, Callable[[Talk, Findings], Talk | None]] = {
    "lost": _lose,
    "doubled": _double,
    "astray": _lead_astray,
    "disordered": _swap,
}
"""What a broken house would have done to a talk, by the finding that each must become."""
