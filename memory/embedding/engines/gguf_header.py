"""The one thing that must be known of a GGUF file before it is loaded: how many tokens its model was trained to read.

llama.cpp aborts the whole process when a model with learnt positions (all of the BERT family) is given more. The layout is
that of the GGUF specification, versions 2 and 3: magic, version, two counts, then keys with typed values.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from pathlib import Path

MAGIC = b"GGUF"

_FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_LONGEST_STRING = 1 << 24
_MOST_KEYS = 1 << 16


class NotGguf(ValueError):
    """Raised for a file that is not GGUF, or breaks off."""


def context_length(path: Path) -> int | None:
    """Return ``<architecture>.context_length``, or None where the file does not say. Raises ``NotGguf``, ``OSError``."""
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise NotGguf("it does not begin with GGUF")
        _number(file, "I")
        _number(file, "Q")
        keys = _number(file, "Q")
        if keys > _MOST_KEYS:
            raise NotGguf(f"it claims to have {keys} keys")
        for _ in range(int(keys)):
            name = _string(file)
            value = _value(file, int(_number(file, "I")))
            if name.endswith(".context_length") and isinstance(value, int):
                return value
    return None


def _value(file: BinaryIO, kind: int) -> float | str | None:
    """Read a value; of an array only its place is taken."""
    if kind == _STRING:
        return _string(file)
    if kind == _ARRAY:
        inner, count = int(_number(file, "I")), int(_number(file, "Q"))
        if inner in _FORMATS:
            file.seek(struct.calcsize(_FORMATS[inner]) * count, 1)
        else:
            for _ in range(count):
                _value(file, inner)
        return None
    if kind not in _FORMATS:
        raise NotGguf(f"it has a value of the unknown kind {kind}")
    return _number(file, _FORMATS[kind])


def _string(file: BinaryIO) -> str:
    length = int(_number(file, "Q"))
    if length > _LONGEST_STRING:
        raise NotGguf(f"it has a string of {length} bytes")
    return _exactly(file, length).decode("utf-8", "replace")


def _number(file: BinaryIO, kind: str) -> float:
    number: float = struct.unpack(f"<{kind}", _exactly(file, struct.calcsize(f"<{kind}")))[0]
    return number


def _exactly(file: BinaryIO, count: int) -> bytes:
    found = file.read(count)
    if len(found) != count:
        raise NotGguf("it breaks off")
    return found
