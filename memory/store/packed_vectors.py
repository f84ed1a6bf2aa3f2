"""Vectors as signed bytes, and how near those of a passage's lines are to a query: the same whatever stores them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from memory.store.candidates import LineCosines

_LEVELS = 127
_TINY = 1e-6


def packed(vector: Sequence[float]) -> bytes:
    """Return a vector as signed bytes, scaled so that its largest number is 127. Its length is lost, which cosines do not need.

    The cosine of two vectors changes by less than 0.001.
    """
    import numpy as np

    numbers = np.frombuffer(struct.pack(f"{len(vector)}d", *vector))  # in half the time of numpy's own reading of a list
    data: bytes = np.rint(numbers * (_LEVELS / (max(numbers.max(), -numbers.min()) or 1.0))).astype(np.int8).tobytes()
    return data


def line_cosines(query: Sequence[float], rows: Sequence[tuple[int, bytes]]) -> dict[int, LineCosines]:
    """Return how near the lines of some chunks are to a query.

    A row is the id of a chunk and the packed vector of a line of it. Those of a chunk stand together, in the order of its lines.
    """
    if not rows:
        return {}
    import numpy as np

    of = np.array([id_ for id_, _ in rows])
    lines = np.frombuffer(b"".join(vector for _, vector in rows), dtype=np.int8).reshape(len(rows), -1).astype(np.float32)
    lines /= np.maximum(np.linalg.norm(lines, axis=1, keepdims=True), 1.0)
    alone = lines @ np.asarray(query, dtype=np.float32)
    both = np.zeros_like(alone)
    if len(rows) > 1:
        both[1:] = (alone[1:] + alone[:-1]) / np.maximum(np.linalg.norm(lines[1:] + lines[:-1], axis=1), _TINY)
    starts = np.flatnonzero(np.concatenate(([True], of[1:] != of[:-1])))
    both[starts] = alone[starts]
    best, beside = np.maximum.reduceat(alone, starts).tolist(), np.maximum.reduceat(both, starts).tolist()
    each, ends = alone.tolist(), [*starts[1:].tolist(), len(rows)]
    found = zip(of[starts].tolist(), best, beside, starts.tolist(), ends, strict=True)
    return {id_: LineCosines(line, pair, tuple(each[start:end])) for id_, line, pair, start, end in found}
