"""The gateway's own sentences in the language of a page, where that is not English.

The English sentence is the key, as in gettext. ``{name}`` in it stands for what varies and is kept as it is; ``{=name}`` is a sentence or
word that is said in the other language, too, ``{+name}`` one that must be known or be a name in quotes (else the whole stays English), and
``{@name}`` when something is due. What the tables lack stays English. They are read when a page first asks for a language, and are no part
of an idle gateway.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

TABLES: Final = Path(__file__).with_name("phrases")
"""For each language: ``settings_help.json``, ``schedules.json`` (words that schedules are said in), and ``SENTENCES``."""
SENTENCES: Final = ("channels", "sentences")
"""Tables of whole sentences: why channels are off and messages were not sent (``channels``), and all else."""
LANGUAGES: Final = frozenset({"de"})
SCHEDULES: Final = frozenset({"words"})
"""Fields that say when a job is due: made of few words in many ways, so that these are looked up one by one."""
SAID: Final = frozenset(
    {
        *(
            "commands",
            "complaint",
            "default",
            "doc",
            "done",
            "failed",
            "hint",
            "lastOutcome",
            "mend",
            "message",
            "note",
            "notices",
        ),
        *("obstacle", "paused", "problem", "reason", "sending", "summary", "told", "trouble", "type", "waits", "warnings"),
        *("what", "whose", "why", "whyNotAlways"),
    }
)
"""Fields of answers that hold sentences of the gateway. Only a whole sentence of the tables is said otherwise: what people wrote stays."""
NAMES_IN: Final = {
    **dict.fromkeys(("context", "context.history", "context.prompt"), frozenset({"name"})),
    "memory.explain": frozenset({"notes"}),
}
"""Calls in whose answers names are the gateway's, too: those of the parts of a prompt, and the notes to a search."""
UNTOUCHED: Final = ("chat.", "doctor.findings", "logs.", "memory.read", "memory.diff", "memory.blame", "sessions.")
"""Calls whose answers are what people, models and the doctor wrote."""
_PLACE: Final = re.compile(r"\{([=@+]?)(\w+)\}")
_NAME: Final = r"""(?:'[^']*'|"[^"]*"|`[^`]*`|[0-9.]+)"""
_QUOTED: Final = re.compile(rf"{_NAME}(?:, {_NAME})*")
_ORDINAL: Final = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b")
_WORD: Final = re.compile(r"[A-Za-z]+")


def table(name: str, language: str, folder: Path = TABLES) -> dict[str, str]:
    """Return a table as it is written, by the English text. Blocking."""
    found: dict[str, str] = json.loads((folder / language / f"{name}.json").read_text("utf-8"))
    return found


class Phrases:
    """The tables of one language. Reading them blocks for a few milliseconds."""

    def __init__(self, language: str, folder: Path = TABLES) -> None:
        settings, words = (table(name, language, folder) for name in ("settings_help", "schedules"))
        sentences = {english: text for name in SENTENCES for english, text in table(name, language, folder).items()}
        self._exact = settings | {english: text for english, text in sentences.items() if not _PLACE.search(english)}
        self._patterns = [(_pattern(english), english, text) for english, text in sentences.items() if _PLACE.search(english)]
        self._words = {english.lower(): text for english, text in words.items()}
        longest_first = sorted(words, key=len, reverse=True)
        self._spoken = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)", re.IGNORECASE)

    def sentence(self, text: str) -> str:
        """Return a sentence of the gateway in this language; the same where it is none that is known."""
        if text in self._exact or not text:
            return self._exact.get(text, text)
        if "\n" in text:
            return "\n".join(self.sentence(line.strip()) for line in text.split("\n"))
        for pattern, english, other in self._patterns:
            if (found := pattern.fullmatch(text)) and self._knows(english, found):
                said = {name: self._part(mark, found[name]) for mark, name in _PLACE.findall(english)}
                return _PLACE.sub(lambda place, said=said: said[place[2]], other)  # type: ignore[misc]
        return text

    def _knows(self, english: str, found: re.Match[str]) -> bool:
        """Return whether what stands at ``{+name}`` is known, so that the whole is said in this language, or nothing of it."""
        parts = [found[name] for mark, name in _PLACE.findall(english) if mark == "+"]
        return all(_QUOTED.fullmatch(part) or self.sentence(part) != part or self._exact.get(part) == part for part in parts)

    def _part(self, mark: str, text: str) -> str:
        return self.sentence(text) if mark in {"=", "+"} else self.schedule(text) if mark == "@" else text

    def schedule(self, text: str) -> str:
        """Return when something is due, such as "At 09:00 on Monday"; the same where a word of it is not known."""
        head, zone = (text[: text.rindex(" (")], text[text.rindex(" (") :]) if text.endswith(")") else (text, "")
        head = _ORDINAL.sub(".", head)
        if _WORD.search(self._spoken.sub("", head)):
            return self.sentence(text)
        said = self._spoken.sub(lambda found: self._words[found[0].lower()], head)
        return said[:1].upper() + said[1:] + zone

    def answer(self, call: str, value: Any) -> Any:
        """Return the answer of a call with what the gateway says in it in this language."""
        return value if call.startswith(UNTOUCHED) else self._told(value, "", SAID | NAMES_IN.get(call, frozenset()))

    def _told(self, value: Any, field: str, fields: frozenset[str]) -> Any:
        if isinstance(value, str):
            return self.schedule(value) if field in SCHEDULES else self.sentence(value) if field in fields else value
        if isinstance(value, Mapping):
            return {key: self._told(one, str(key), fields) for key, one in value.items()}
        return [self._told(one, field, fields) for one in value] if isinstance(value, list | tuple) else value


@lru_cache(maxsize=len(LANGUAGES))
def phrases(language: str) -> Phrases:
    """Return the tables of a language of ``LANGUAGES``."""
    return Phrases(language)


def _pattern(english: str) -> re.Pattern[str]:
    parts = _PLACE.split(english)  # text, mark, name, text, ...
    texts, names = parts[::3], parts[2::3]
    made = re.escape(texts[0])
    for name, text in zip(names, texts[1:], strict=True):
        made += f"(?P<{name}>.+?){re.escape(text)}"
    return re.compile(made)
