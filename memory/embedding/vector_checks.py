"""Checks the vectors that a provider returns and scales them to unit length."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

from memory.errors import EmbeddingFailed

_NOTHING = 1e-12
"""A shorter vector counts as zero: normalising it would only amplify rounding errors."""

_LENGTH_TOLERANCE = 1e-2


def is_unit_vector(vector: Sequence[float]) -> bool:
    """Return whether a vector is finite and of unit length, and so can be stored in the index."""
    return abs(math.hypot(*vector) - 1.0) <= _LENGTH_TOLERANCE


async def unit_vectors(raw: Sequence[Sequence[float]], *, count: int, dims: int | None, who: str) -> list[list[float]]:
    """Return ``raw`` scaled to unit length, computed off the event loop.

    Raises ``EmbeddingFailed`` unless there are ``count`` vectors of one length (``dims``, when known), all of them finite and
    none of them zero. ``who`` names the provider and model in the message.
    """
    return await asyncio.to_thread(_unit_vectors, raw, count, dims, who)


def _unit_vectors(raw: Sequence[Sequence[float]], count: int, dims: int | None, who: str) -> list[list[float]]:
    import numpy as np

    if len(raw) != count:
        raise EmbeddingFailed(f"{who} returned {len(raw)} vectors for {count} texts.", passing=True)
    if not raw:
        return []
    expected = dims or len(raw[0])
    for place, vector in enumerate(raw):
        if len(vector) != expected or not expected:
            raise EmbeddingFailed(
                f"{who} returned a vector of {len(vector)} numbers for text {place + 1} of {count}; {expected} were expected.",
                hint="Check memorySearch.remote.dimensions: not every model supports other lengths.",
            )
    try:
        matrix = np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise EmbeddingFailed(f"{who} returned something that is not a list of numbers.", passing=True) from error
    lengths = np.linalg.norm(matrix, axis=1)
    for bad in np.flatnonzero(~np.isfinite(lengths) | (lengths < _NOTHING)).tolist():
        kind = "an all-zero vector" if np.isfinite(lengths[bad]) else "a vector with NaN or infinite numbers"
        raise EmbeddingFailed(f"{who} returned {kind} for text {bad + 1} of {count}.", about_text=True)
    scaled: list[list[float]] = (matrix / lengths[:, None]).tolist()
    return scaled
