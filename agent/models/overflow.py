"""Recognises context overflow in a provider's error, and the window it names: from fields first, then from the wording.

Few providers have a field for it, so their sentences are known here, with the figures in them.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

_FIELDS = frozenset(
    {
        "context_length_exceeded",
        "exceed_context_size_error",  # llama.cpp
        "string_above_max_length",
        "request_too_large",
        "request_body_too_large_after_decoding",
        "model_context_window_exceeded",
        "context_window_exceeded",
    }
)
_WORDS = re.compile(
    r"prompt is too long|prompt too long|context[ _](?:length|window|size|limit)|maximum context|too many tokens|input is too long"
    r"|exceeds? the (?:available )?context|exceeds? (?:the )?max(?:imum)? (?:length|context|number of tokens|input)"
    r"|max(?:imum)?[ _](?:model|sequence|input|prompt)[ _]len|input length and .?max_tokens.? exceed"
    r"|token count .{0,40}exceeds|reduce the length of|range of input length|exceeded model token limit"
    r"|inputs?.{0,3} (?:tokens \+|must have less than)|size limit exceeded by \d+ tokens|tokens to keep from the initial prompt"
    r"|longer than the (?:model'?s|maximum) |request too large for model|too large for model with",
    re.IGNORECASE,
)
_NUMBER = r"[`'\"]?(\d[\d,_]*)"
_WINDOWS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"n_ctx\W+{_NUMBER}",
        rf"maximum (?:context|prompt|model|sequence) length (?:is|of) {_NUMBER}",
        rf"{_NUMBER} maximum context length",
        rf"available context size \({_NUMBER}",
        rf"model token limit:? {_NUMBER}",
        rf"context length (?:is|of)(?: only)? {_NUMBER}",
        rf"context length \({_NUMBER}",
        rf"> {_NUMBER} maximum",
        rf"> {_NUMBER}$",
        rf"exceed context limit: [\d +]+> {_NUMBER}",
        rf"range of input length should be \[\d+, ?{_NUMBER}",
        rf"must have less than {_NUMBER} tokens",
        rf"must be <= {_NUMBER}",
        rf"maximum number of tokens allowed \({_NUMBER}",
        rf"limit for this model is {_NUMBER}",
        rf"exceeds the limit of {_NUMBER}",
        rf"while limit is {_NUMBER}",
        rf"limit {_NUMBER}, requested",
    )
)
_PROMPTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"n_prompt_tokens\W+{_NUMBER}",
        rf"request \({_NUMBER} tokens\)",
        rf"requested:? (?:about )?{_NUMBER}",
        rf"contains {_NUMBER} tokens",
        rf"prompt is too long: {_NUMBER} tokens",
        rf"resulted in {_NUMBER} tokens",
        rf"token count (?:of )?\(?{_NUMBER}",
        rf"given: {_NUMBER}",
        rf"input \({_NUMBER} tokens\)",
    )
)
LEAST, MOST = 256, 100_000_000
"""Figures beyond these are not of a window."""


class Overflow(Struct, frozen=True):
    """What a provider said of a prompt that was too long, in tokens; None where it did not say. ``window`` holds prompt and answer."""

    window: int | None = None
    prompt: int | None = None


def overflow(message: str, body: Any, fields: tuple[str, ...], *, worded: bool = True) -> Overflow | None:
    """Return what is known when the prompt was too long; None when it was something else.

    ``fields`` are the provider's types and codes, in small letters, and ``body`` its whole answer. ``worded`` says that the
    sentence may be gone by: not of an answer that says in a field or by its status that it is another failure.
    """
    inner = body.get("error", body) if isinstance(body, dict) else None
    figures = inner if isinstance(inner, dict) else {}
    shaped = bool(_FIELDS.intersection(fields)) or {"n_ctx", "n_prompt_tokens"} <= figures.keys()
    if not shaped and not (worded and _WORDS.search(message)):
        return None
    window = _plausible(figures.get("n_ctx")) or _first(_WINDOWS, message)
    prompt = _plausible(figures.get("n_prompt_tokens")) or _first(_PROMPTS, message)
    return Overflow(window, prompt)


def is_too_large_for_a_minute(message: str, status: int | None) -> bool:
    """Whether one request alone is more than a provider takes in a minute (Groq's 413): a shorter one would pass."""
    return status == 413 and bool(re.search(r"request too large", message, re.IGNORECASE))  # noqa: PLR2004  (HTTP: content too large)


def _first(patterns: tuple[re.Pattern[str], ...], message: str) -> int | None:
    for pattern in patterns:
        if (found := pattern.search(message)) and (figure := _plausible(int(re.sub(r"\D", "", found[1])))):
            return figure
    return None


def _plausible(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and LEAST <= value <= MOST else None
