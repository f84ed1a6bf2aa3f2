"""Reads the rows of a damaged ledger page by page, with the newer pages in its write-ahead log.

Formats: https://sqlite.org/fileformat2.html. SQLite does not use the file any more, so that it can be read as any other file.

A row is ``sure`` when its page is reachable from the root of its table and is valid. Pages that are not reachable are read too: their rows
are assigned to tables by the types of their columns. They may be older versions of other pages.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from gateway.ledger.sqlite_engine import read_log

_LEAF, _INTERIOR = 0x0D, 0x05
_DEEPEST: Final = 20
_LONGEST_ROW: Final = 256 * 1024 * 1024

SHAPES: Final = {
    "meta": "name:t value:t",
    "inbox": "id:k account:t pkey:t skey:t conversation:t session:t? sender:t payload:t? received_at:i state:t turn:t? reason:t? "
    "ended_at:i? message:t? attempts:i? edited:i?",
    "cursor": "account:t name:t value:t",
    "outbox": "id:k place:i key:t turn:t? account:t conversation:t target:t text:t reply_to:t? missed:t? state:t attempt:i doubts:i "
    "firm:i recorded:t? platform_id:t? reason:t? epoch:t created_at:i not_before:i expires:i ended_at:i? extras:t? "
    "unasked:i? quiet_from:i?",
    "unasked": "id:k key:t turn:t? agent:t source:t name:t conversation:t chunks:t state:t counts:i day:t told:i made_at:i ended_at:i?",
    "pairing": "channel:t account:t sender:t name:t code:t target:t requested_at:i expires:i",
    "approved": "channel:t account:t sender:t name:t role:t target:t approved_at:i",
    "spending": "id:k day:t at:i agent:t session:t model:t background:i settled:i tokens:i cost:r? input:i output:i cache_read:i "
    "cache_write:i origin:t? source:t?",
    "aside": "id:k conversation:t line:t noted_at:i sources:t? agent:t?",
    "approval": "id:t round:i turn:t? session:t transcript:t agent:t target:t call:t payload:t fingerprint:t state:t reason:t? "
    "always:i decided_by:t? asked_at:i expires:i decided_at:i?",
    "moved": "account:t former:t present:t moved_at:i",
    "subagent": "id:t name:t agent:t session:t parent:t request:t depth:i label:t payload:t state:t reason:t? messages:i "
    "created_at:i ended_at:i? archived:i usd:r?",
    "hook": "id:t name:t agent:t state:t token_hash:t? secret:t? rules:t created_at:i changed_at:i",
    "job": "id:t agent:t name:t state:t schedule:t zone:t asked_in:t reason:t details:t reckoned_in:t created_at:i changed_at:i "
    "next_at:i? last_at:i? skipped_from:i? skipped_to:i? unsure_until:i? skipped:t?",
}
"""The tables to recover and their columns: text, integer, real, the row's key (k), and which may be NULL (?)."""
_LATER: Final = {"inbox": 3, "outbox": 3, "aside": 2, "spending": 2, "job": 1}
"""How many columns at the end rows of earlier versions lack."""
_SCHEMA: Final = "type:t name:t tbl_name:t rootpage:i sql:t?"

_MAGIC: Final = b"SQLite format 3\0"
_USUAL_SIZE: Final = 4096
_SMALLEST, _LARGEST = 512, 65_536
_HEADER: Final = 100


class RawPages:
    """Reads pages by number, from 1. ``size`` is the bytes in a page, ``count`` how many pages there should be.

    Raises OSError when the disk refuses.
    """

    def __init__(self, path: Path) -> None:
        log_path = Path(f"{path}-wal")
        self._data = path.read_bytes() if path.exists() or not log_path.exists() else b""
        self._log = log_path.read_bytes() if log_path.exists() else b""
        log = read_log(self._log)
        self.size = _page_size(self._data) or log.size or _USUAL_SIZE
        self._frames = log.pages if log.size == self.size else {}
        self.count = (log.count if self._frames else 0) or -(-len(self._data) // self.size)
        head = self.page(1)
        self.has_header = head.startswith(_MAGIC)
        self.usable = self.size - (head[20] if self.has_header else 0)

    def page(self, number: int) -> bytes:
        """Return a page, or no bytes when it is missing or incomplete."""
        if (at := self._frames.get(number)) is not None:
            return self._log[at : at + self.size]
        page = self._data[(number - 1) * self.size : number * self.size] if number > 0 else b""
        return page if len(page) == self.size else b""

    def free(self) -> set[int]:
        """Return the pages on the free list, whose content is out of date. Empty when the list is damaged."""
        if not self.has_header:
            return set()
        trunk, count = struct.unpack(">II", self.page(1)[32:40])
        found: set[int] = set()
        while trunk and trunk not in found and (page := self.page(trunk)):
            found.add(trunk)
            trunk, leaves = struct.unpack(">II", page[:8])
            if leaves > self.size // 4 - 2:
                return set()
            found.update(struct.unpack(f">{leaves}I", page[8 : 8 + 4 * leaves]))
        return found if len(found) == count and not trunk else set()

    def header_size(self, number: int) -> int:
        """Return how many bytes at the start of a page are the file's header."""
        return _HEADER if number == 1 else 0


def _page_size(data: bytes) -> int:
    """Return the page size by the file's header, or 0 when that is invalid."""
    told = int.from_bytes(data[16:18], "big") if data.startswith(_MAGIC) else 0
    size = _LARGEST if told == 1 else told
    return size if _SMALLEST <= size <= _LARGEST and size & (size - 1) == 0 else 0


class Row(Struct, frozen=True):
    """A row that was found."""

    values: dict[str, Any]
    sure: bool


class _Broken(ValueError):
    """Raised for bytes that are not in the format."""


class RawTables:
    """The rows of a damaged ledger, by table. Reads when it is made; blocking."""

    def __init__(self, pages: RawPages) -> None:
        self._pages = pages
        self._seen: set[int] = set()
        self.tables: dict[str, list[Row]] = {name: [] for name in SHAPES}
        roots = dict(self._roots())
        for name, root in roots.items():
            for page in self._leaves(root):
                self.tables[name] += self._rows(page, name, sure=True)
        self._collect_strays()

    def _roots(self) -> Iterator[tuple[str, int]]:
        for page in self._leaves(1):
            for row in self._shaped(page, _SCHEMA, 0):
                if row["type"] == "table" and row["name"] in SHAPES:
                    yield row["name"], row["rootpage"]

    def _collect_strays(self) -> None:
        passed_over = self._seen | self._pages.free()
        for number in range(2, self._pages.count + 1):
            if number not in passed_over and self._pages.page(number)[:1] == bytes((_LEAF,)):
                for name in SHAPES:
                    self.tables[name] += self._rows(number, name, sure=False)

    def _leaves(self, root: int, depth: int = 0) -> list[int]:
        """Return the leaf pages below a page, as far as they are reachable."""
        page = self._pages.page(root)
        if root in self._seen or not page or depth > _DEEPEST:
            return []
        at = self._pages.header_size(root)
        if page[at] == _LEAF:
            self._seen.add(root)
            return [root]
        if page[at] != _INTERIOR:
            return []
        self._seen.add(root)
        count, last = int.from_bytes(page[at + 3 : at + 5], "big"), int.from_bytes(page[at + 8 : at + 12], "big")
        pointers = page[at + 12 : at + 12 + 2 * count]
        children = [
            int.from_bytes(page[cell : cell + 4], "big")
            for (cell,) in struct.iter_unpack(">H", pointers[: len(pointers) // 2 * 2])
        ]
        return [leaf for child in (*children, last) for leaf in self._leaves(child, depth + 1)]

    def _rows(self, page: int, name: str, *, sure: bool) -> list[Row]:
        found, sound = self._cells(page)
        rows = [_shaped(values, key, SHAPES[name], _LATER.get(name, 0)) for key, values in found]
        sound = sound and all(row is not None for row in rows)
        return [Row(row, sure=sure and sound) for row in rows if row is not None]

    def _shaped(self, page: int, shape: str, later: int) -> list[dict[str, Any]]:
        return [row for key, values in self._cells(page)[0] if (row := _shaped(values, key, shape, later)) is not None]

    def _cells(self, number: int) -> tuple[list[tuple[int, list[Any]]], bool]:
        """Return the rows of a leaf page with their keys, and whether the whole page is valid."""
        page, at = self._pages.page(number), self._pages.header_size(number)
        count = int.from_bytes(page[at + 3 : at + 5], "big")
        if at + 8 + 2 * count > len(page):
            return [], False
        found: list[tuple[int, list[Any]]] = []
        sound, before = True, None
        for (cell,) in struct.iter_unpack(">H", page[at + 8 : at + 8 + 2 * count]):
            try:
                key, values = self._cell(page, cell)
            except _Broken:
                sound = False
                continue
            sound = sound and cell >= at + 8 + 2 * count and (before is None or key > before)
            before = key
            found.append((key, values))
        return found, sound

    def _cell(self, page: bytes, at: int) -> tuple[int, list[Any]]:
        length, at = _varint(page, at)
        key, at = _varint(page, at)
        if length > _LONGEST_ROW:
            raise _Broken
        usable = self._pages.usable
        here = length
        if length > usable - 35:
            least = (usable - 12) * 32 // 255 - 23
            here = least + (length - least) % (usable - 4)
            here = here if here <= usable - 35 else least
        payload = page[at : at + here]
        if here < length:
            payload += self._overflow(int.from_bytes(page[at + here : at + here + 4], "big"), length - here)
        if len(payload) != length:
            raise _Broken
        return key - (1 << 64) if key >> 63 else key, _record(payload)

    def _overflow(self, number: int, left: int) -> bytes:
        parts: list[bytes] = []
        way: set[int] = set()
        while left > 0:
            page = self._pages.page(number)
            if not page or number in way:
                raise _Broken
            way.add(number)
            number = int.from_bytes(page[:4], "big")
            parts.append(page[4 : 4 + min(left, self._pages.usable - 4)])
            left -= len(parts[-1])
        if number:
            raise _Broken
        return b"".join(parts)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for count in range(9):
        if at + count >= len(data):
            raise _Broken
        byte = data[at + count]
        if count == 8:  # noqa: PLR2004  (the ninth byte counts whole)
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:  # noqa: PLR2004
            return value, at + count + 1
    raise _Broken


_INTEGERS: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_REAL, _ZERO, _ONE, _BLOB = 7, 8, 9, 12


def _record(payload: bytes) -> list[Any]:
    end, at = _varint(payload, 0)
    kinds: list[int] = []
    while at < end:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    if at != end:
        raise _Broken
    values: list[Any] = []
    for kind in kinds:
        value, at = _value(payload, at, kind)
        values.append(value)
    if at != len(payload):
        raise _Broken
    return values


def _value(payload: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in (0, _ZERO, _ONE):
        return {0: None, _ZERO: 0, _ONE: 1}[kind], at
    if kind in (10, 11):  # reserved
        raise _Broken
    length = _INTEGERS.get(kind) or (8 if kind == _REAL else (kind - _BLOB) // 2)
    raw = payload[at : at + length]
    if len(raw) != length:
        raise _Broken
    if kind in _INTEGERS:
        return int.from_bytes(raw, "big", signed=True), at + length
    if kind == _REAL:
        return struct.unpack(">d", raw)[0], at + length
    if kind % 2 == 0:
        return raw, at + length
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise _Broken from None
    if "\0" in text:
        raise _Broken
    return text, at + length


def _shaped(values: list[Any], key: int, shape: str, later: int) -> dict[str, Any] | None:
    """Return a row by the names of its columns, or None when the types do not fit the table."""
    columns = [column.split(":") for column in shape.split()]
    if not len(columns) - later <= len(values) <= len(columns):
        return None
    row: dict[str, Any] = {}
    for (name, kind), value in zip(columns, [*values, *[None] * (len(columns) - len(values))], strict=True):
        if kind == "k":
            if value is not None:
                return None
            row[name] = key
        elif value is None:
            if not kind.endswith("?"):
                return None
            row[name] = None
        elif kind[0] == "r" and isinstance(value, (int, float)):
            row[name] = float(value)
        elif isinstance(value, {"t": str, "i": int}.get(kind[0], ())):
            row[name] = value
        else:
            return None
    return row
