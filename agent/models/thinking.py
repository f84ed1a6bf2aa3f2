"""Thinking levels: what each kind of API calls them, their token budgets, and which of them a model has refused.

Every provider counts thinking towards the longest answer, so each level adds tokens of its own (``THINKING_TOKENS``) to what a
request allows. A level that a model refuses is replaced by the next lower one; that is remembered, and reported once.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from agent.settings import Level

Style = Literal["", "effort", "budget", "adaptive"]
"""How a model's thinking is governed: not at all or not known, by an effort, by a budget of tokens, or by the model itself."""

LEVELS: tuple[Level, ...] = ("off", "minimal", "low", "medium", "high", "xhigh", "adaptive")
THINKING_TOKENS: dict[Level | None, int] = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16_384,
    "xhigh": 32_768,
    "adaptive": 8192,
}
"""Tokens for thinking, by level."""
_MEANT: dict[str, Level] = {"on": "low", "none": "off", "no": "off", "mid": "medium", "max": "xhigh", "auto": "adaptive"}
_DEPTHS: tuple[Level, ...] = ("minimal", "low", "medium", "high", "xhigh")
_DEFAULTS: dict[Style, Level] = {"effort": "low", "budget": "low", "adaptive": "adaptive"}
_ABOUT = re.compile(r"thinking|reasoning|effort|budget_tokens", re.IGNORECASE)
_ONE_VALUE = re.compile(r"\bvalues?\b|one of|level|must be|should be|budget|expected|enum", re.IGNORECASE)
_MISPLACED = re.compile(r"must start with a thinking block", re.IGNORECASE)
_REFUSALS = frozenset({400, 422})
_MUTE = 2
"""How many answers with calls and without thoughts, one after the other, say that a server gives none."""


def level_of(text: str | None) -> Level | None:
    """Return the level that a person means, or None."""
    wanted = (text or "").strip().casefold()
    return next((level for level in LEVELS if level == wanted), _MEANT.get(wanted))


def effort(level: Level | None) -> str | None:
    """Return what OpenAI calls a level; None: nothing is said, and the model's own habit counts."""
    return None if level in {None, "adaptive"} else "none" if level == "off" else level


def ladder(wanted: Level) -> tuple[Level | None, ...]:
    """Return what to ask for in turn: the level, the lower ones, then the least that can be had, then nothing at all."""
    if wanted == "adaptive":
        return "adaptive", "medium", "low", None
    at = _DEPTHS.index(wanted) if wanted in _DEPTHS else -1
    lower = tuple(reversed(_DEPTHS[: max(at, 0)]))
    first: tuple[Level, ...] = (wanted, *lower)
    return (*first, *(depth for depth in _DEPTHS[:2] if depth not in first), None)


class ThinkingSupport:
    """Which levels one model takes. ``style`` is how its thinking is controlled, as far as that is known."""

    def __init__(self, style: Style) -> None:
        self.style: Style = style
        self._refused: set[Level] = set()
        self._told: set[Level] = set()
        self._mute = 0

    def pick(self, wanted: Level | None) -> Level | None:
        """Return the level to ask for now. Without a wish it is the model's default; where nothing is known, nothing is said."""
        if self._mute >= _MUTE and self.style == "budget":
            return None
        wish = wanted or _DEFAULTS.get(self.style)
        return None if wish is None else next(level for level in ladder(wish) if level is None or level not in self._refused)

    def after(self, error: Exception, wanted: Level | None, asked: Level | None) -> tuple[Level | None] | None:
        """Take a refusal in, and return the level to ask for instead, in a tuple; None where it is not about thinking at all."""
        message = f"{getattr(error, 'message', '')} {getattr(error, 'body', '')}"
        if asked is None or getattr(error, "status_code", None) not in _REFUSALS or not _ABOUT.search(message):
            return None
        if _MISPLACED.search(message):
            return (None,)  # this one conversation stands in the middle of a loop that was begun without
        if self.style in {"adaptive", "budget"} and (other := _other_style(self.style, message)):
            self.style = other
        elif asked != "off" and not _ONE_VALUE.search(message):
            self._refused |= set(LEVELS)
        else:
            self._refused.add(asked)
        return (self.pick(wanted),)

    def record_answer(self, asked: Level | None, *, thought: bool, called: bool) -> None:
        """Take note of an answer. A server that lets calls go without the thoughts that were asked for is asked for none any more.

        A budget has to be left out where a loop of calls was begun without thinking, and each change of it voids the
        provider's cache of the whole history.
        """
        if thought:
            self._mute = 0
        elif called and asked not in {None, "off"}:
            self._mute += 1

    def word(self, model: str, wanted: Level | None, got: Level | None) -> str:
        """Return what to tell of a wish that was not met, once for each; an empty text when there is nothing to tell."""
        if wanted is None or wanted == got or wanted in self._told or wanted not in self._refused:
            return ""
        self._told.add(wanted)
        instead = "its own way" if got is None else f"“{got}”"
        return f"🧠 {model} does not take the thinking level “{wanted}”: it thinks {'in' if got is None else 'at'} {instead}."


def _other_style(style: Style, message: str) -> Style | None:
    """Anthropic's newer models want ``adaptive`` and its older ones a budget; which one a refusal says."""
    if style == "adaptive" and re.search(
        r"adaptive[^.]{0,60}not support|not support[^.]{0,60}adaptive", message, re.IGNORECASE
    ):
        return "budget"
    if style == "budget" and re.search(r"enabled[^.]{0,60}not support|use [^.]{0,40}adaptive", message, re.IGNORECASE):
        return "adaptive"
    return None


def of_capabilities(capabilities: Any) -> Style | None:
    """Read Anthropic's own word on a model (``ModelInfo.capabilities``); None where it says nothing."""
    thinking = getattr(capabilities, "thinking", None)
    if thinking is None:
        return None
    kinds = getattr(thinking, "types", None)
    if getattr(getattr(kinds, "adaptive", None), "supported", False):
        return "adaptive"
    return "budget" if getattr(getattr(kinds, "enabled", None), "supported", False) else ""
