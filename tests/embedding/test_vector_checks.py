from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.embedding.vector_checks import unit_vectors
from memory.errors import EmbeddingFailed

NUMBER = st.floats(-1e6, 1e6).filter(lambda x: x == 0 or abs(x) > 1e-6)


@given(
    st.integers(1, 12).flatmap(lambda n: st.lists(st.lists(NUMBER, min_size=n, max_size=n).filter(any), min_size=1, max_size=9))
)
async def test_vectors_keep_direction_and_order_and_get_unit_length(raw: list[list[float]]) -> None:
    for before, after in zip(raw, await unit_vectors(raw, count=len(raw), dims=None, who="x"), strict=True):
        assert math.isclose(math.hypot(*after), 1.0, rel_tol=1e-9)
        scale = math.hypot(*before)
        assert all(math.isclose(a * scale, b, rel_tol=1e-9, abs_tol=1e-9) for a, b in zip(after, before, strict=True))


@pytest.mark.parametrize(
    ("raw", "count", "dims", "message", "about_text"),
    [
        ([[1.0]], 2, None, "1 vectors for 2 texts", False),
        ([[1.0, 2.0], [1.0]], 2, None, "a vector of 1 numbers for text 2 of 2; 2 were expected", False),
        ([[1.0, 2.0]], 1, 3, "3 were expected", False),
        ([[]], 1, None, "0 were expected", False),
        ([[1.0], [0.0]], 2, None, "all-zero vector for text 2", True),
        ([[math.nan], [1.0]], 2, None, "NaN or infinite numbers for text 1", True),
        ([[math.inf]], 1, None, "NaN or infinite", True),
        ([["a"]], 1, None, "not a list of numbers", False),
    ],
)
async def test_what_is_not_a_vector_is_refused(
    raw: list[list[float]], count: int, dims: int | None, message: str, *, about_text: bool
) -> None:
    with pytest.raises(EmbeddingFailed, match=message) as failed:
        await unit_vectors(raw, count=count, dims=dims, who="x")
    assert failed.value.about_text is about_text


async def test_no_texts_give_no_vectors() -> None:
    assert await unit_vectors([], count=0, dims=None, who="x") == []
