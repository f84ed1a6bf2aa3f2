"""Reads msgspec records in any thread.

msgspec collects what it knows of a class at the first use, without a lock: a second thread that reads one meanwhile ends the process
(msgspec 0.22, ``StructInfo``).
"""

from __future__ import annotations

import threading
from typing import Any, Final, Generic, TypeVar

import msgspec

T = TypeVar("T")
_COLLECTING: Final = threading.Lock()
"""Of all readers, as the classes of one may be parts of another's."""


class RecordReader(Generic[T]):
    """Reads records of a class, or of a union of classes. It is prepared at the first use."""

    def __init__(self, kind: Any, *, strict: bool = True) -> None:
        self._kind = kind
        self._strict = strict
        self._decoder: msgspec.json.Decoder[T] | None = None

    def from_json(self, text: bytes) -> T:
        """Return the record of a JSON text. Raises ``msgspec.DecodeError``, which is a ValueError."""
        return (self._decoder or self._prepared()).decode(text)

    def from_values(self, values: Any) -> T:
        """Return the record of what a JSON text holds. Raises ``msgspec.ValidationError``, which is a ValueError."""
        if self._decoder is None:
            self._prepared()
        record: T = msgspec.convert(values, self._kind, strict=self._strict)
        return record

    def _prepared(self) -> msgspec.json.Decoder[T]:
        with _COLLECTING:
            if self._decoder is None:
                self._decoder = msgspec.json.Decoder(self._kind, strict=self._strict)
            return self._decoder
