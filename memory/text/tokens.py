"""Estimates the number of tokens of a text by its script, without a tokenizer."""

from __future__ import annotations

from memory.text.late_pattern import LatePattern

_DENSE = LatePattern(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u30ff\u3100-\u312f\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff\U0001f000-\U0001faff]"
)
_OTHER = LatePattern(r"[^\x00-\x7f]")

ASCII_CHARS_PER_TOKEN = 4.0
OTHER_CHARS_PER_TOKEN = 2.5


def estimate(text: str) -> float:
    """Return the estimated tokens of ``text``.

    Four ASCII characters count as one token, and 2.5 characters of other alphabets; every ideograph, kana, Hangul or Thai
    character and every emoji counts as one.
    """
    if text.isascii():
        return len(text) / ASCII_CHARS_PER_TOKEN
    beyond = len(_OTHER.findall(text))
    dense = len(_DENSE.findall(text))
    return dense + (beyond - dense) / OTHER_CHARS_PER_TOKEN + (len(text) - beyond) / ASCII_CHARS_PER_TOKEN
