"""Guesses the encoding of a text that does not say it and is not UTF-8: by what its letters would be, as languages use them.

Of the 37 short texts of ``tests/documents/test_encodings.py`` charset-normalizer 3.5 reads 29 rightly, and chardet 7.7 reads 30.
"""

from __future__ import annotations

import codecs
import re
from itertools import pairwise
from typing import Final

WESTERN: Final = "cp1252"
NAMES: Final = {
    "cp932": "Shift-JIS",
    "euc_jp": "EUC-JP",
    "cp949": "EUC-KR",
    "gb18030": "GB18030",
    "big5": "Big5",
    "cp1251": "Windows-1251",
    "koi8-r": "KOI8-R",
    "cp866": "CP866",
    "iso8859-5": "ISO 8859-5",
    "cp1253": "Windows-1253",
    WESTERN: "Windows-1252",
}
_LOOKED_AT: Final = 64 * 1024
_FREQUENT: Final = {
    "cp1251": "оеаинтсрвлкмдпуя",
    "koi8-r": "оеаинтсрвлкмдпуя",
    "cp866": "оеаинтсрвлкмдпуя",
    "iso8859-5": "оеаинтсрвлкмдпуя",
    "cp1253": "αοιετσνηυρκπμλςάίόέή",
}
"""Alphabets that have the letters of one byte each, by their most frequent small letters."""
_OTHER_ALPHABET: Final = 0.4
"""So many of the letters are beyond ASCII in a text of another alphabet; far fewer in one of a Western language."""
_KANA: Final = re.compile("[\u3041-\u3096\u30a1-\u30fc]")
_HANGUL: Final = re.compile("[\uac00-\ud7a3]")
_COMMON_CHINESE: Final = {"gb18030": ("gb2312", 0xB0, 0xD7), "big5": ("big5", 0xA4, 0xC6)}
"""The first bytes of the characters that are used often, which both encodings have in a part of their own."""
_MARKS: Final = "，。、；：？！（）“”‘’《》「」—…·"
_SURE: Final = 0.75
_ENOUGH: Final = 0.5
_KANA_SHARE: Final = 0.15
_NEARLY_ALL: Final = 0.95
_FEWEST: Final = 6
"""Bytes beyond ASCII: of fewer nothing is concluded, but for kana."""
_WIDE: Final = 2
_ASCII_ENDS: Final = 0x80


def guessed(data: bytes) -> str:
    """Return Python's name of an encoding, one of ``NAMES``. Where nothing speaks for another one it is that of Western languages."""
    sample = data[:_LOOKED_AT]
    high = sum(byte >= _ASCII_ENDS for byte in sample)
    letters = high + sum(byte < _ASCII_ENDS and chr(byte).isalpha() for byte in sample)
    if japanese := _japanese(sample):
        return japanese
    if high < _FEWEST:
        return WESTERN
    if _is_korean(sample):
        return "cp949"
    chinese = next((one for one in _COMMON_CHINESE if _chinese(sample, one) >= _SURE), "")
    return chinese or (_of_one_byte(sample, high) if high >= _OTHER_ALPHABET * letters else WESTERN)


def _japanese(sample: bytes) -> str:
    shares = {name: _kana(_strictly(sample, name)) for name in ("cp932", "euc_jp")}
    name = max(shares, key=lambda one: shares[one])
    return name if shares[name] >= _KANA_SHARE else ""


def _kana(text: str) -> float:
    """Return how much of what is no ASCII are kana that are written in full width."""
    foreign = [char for char in text if char > "\x7f"]
    return len(_KANA.findall(text)) / len(foreign) if foreign else 0.0


def _is_korean(sample: bytes) -> bool:
    """Whether nearly all of it are syllables that are used often. Chinese has as many others, and a comma of its own."""
    text = _strictly(sample, "cp949")
    foreign = [char for char in text if char > "\x7f"]
    common = sum(len(char.encode("euc_kr", "ignore")) == _WIDE for char in _HANGUL.findall(text))
    return bool(foreign) and common >= _NEARLY_ALL * len(foreign) and "，" not in text


def _chinese(sample: bytes, name: str) -> float:
    """Return how much of what is no ASCII are Chinese characters that are used often, or marks of full width."""
    codec, first, last = _COMMON_CHINESE[name]
    foreign = [char for char in _strictly(sample, name) if char > "\x7f"]
    usual = 0
    for char in foreign:
        written = char.encode(codec, "ignore")
        usual += len(written) == _WIDE and (first <= written[0] <= last or char in _MARKS)
    return usual / len(foreign) if foreign else 0.0


def _of_one_byte(sample: bytes, high: int) -> str:
    shares = {name: _frequent(sample.decode(name, "replace"), letters) / high for name, letters in _FREQUENT.items()}
    name = max(shares, key=lambda one: shares[one])
    return name if shares[name] >= _ENOUGH else WESTERN


def _frequent(text: str, letters: str) -> int:
    """Count frequent letters, less what no language writes: a large letter behind a small one."""
    small = text.lower()
    mixed = sum(one.islower() and other.isupper() for one, other in pairwise(text))
    return sum(small.count(letter) for letter in letters) - 2 * mixed


def _strictly(sample: bytes, name: str) -> str:
    """Return the text, "" where the bytes are none in this encoding; its end may be cut within a character."""
    try:
        return codecs.getincrementaldecoder(name)("strict").decode(sample)
    except UnicodeError:
        return ""


for _name in NAMES:
    codecs.lookup(_name)  # their modules are loaded now, as processes that read foreign files can open none later
