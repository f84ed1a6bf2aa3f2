"""What transcribing and speaking cost at OpenAI, where its price is published and nothing is said in the settings."""

from __future__ import annotations

from typing import Final

from agent.models.catalog.prices import is_own

AS_OF: Final = "2026-11-22"
"""When these were noted, from OpenAI's price list as LiteLLM 1.109.1 copies it."""
PER_MINUTE: Final = {
    "whisper-1": 0.006,
    "gpt-4o-transcribe": 0.006,
    "gpt-4o-mini-transcribe": 0.003,
}
"""USD for a minute of a recording."""
PER_THOUSAND: Final = {
    "tts-1": 0.015,
    "tts-1-hd": 0.030,
    "gpt-4o-mini-tts": 0.015,
}
"""USD for a thousand characters. The last is billed by tokens; this is what a thousand characters come to, about a minute of speech."""


def per_minute(model: str, base_url: str, said: float | None) -> tuple[float, bool]:
    """Return what a minute costs, and whether that is an estimate: the dearest known price for what is not known."""
    return _price(PER_MINUTE, model, base_url, said)


def per_thousand(model: str, base_url: str, said: float | None) -> tuple[float, bool]:
    """Return what a thousand characters cost, likewise."""
    return _price(PER_THOUSAND, model, base_url, said)


def _price(table: dict[str, float], model: str, base_url: str, said: float | None) -> tuple[float, bool]:
    if said is not None:
        return said, False
    if is_own(base_url):
        return 0.0, False
    return (table[model], False) if model in table else (max(table.values()), True)
