from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.embedding.endpoint import retry_after
from memory.embedding.retry import Retries
from memory.errors import EmbeddingFailed
from tests.embedding.conftest import ImpatientClock

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def failing(times: int, **how: object) -> Callable[[float], object]:
    left = [times]

    async def call(_seconds: float) -> str:
        await asyncio.sleep(0)
        if left[0]:
            left[0] -= 1
            raise EmbeddingFailed("told to fail", passing=True, **how)  # type: ignore[arg-type]
        return "done"

    return call


@given(st.floats(0, 0.999999), st.integers(0, 3))
async def test_waits_double_within_a_fifth_either_way(luck: float, failures: int) -> None:
    clock = ImpatientClock()
    assert await Retries(clock, lambda: luck).run(failing(failures), limit=60) == "done"  # type: ignore[arg-type]
    assert len(clock.slept) == failures
    for wait, plain in zip(clock.slept, (0.5, 1.0, 2.0), strict=False):
        assert 0.8 * plain - 1e-9 <= wait <= 1.2 * plain


async def test_waits_that_would_pass_the_limit_are_not_begun(clock: ImpatientClock) -> None:
    with pytest.raises(EmbeddingFailed):
        await Retries(clock, lambda: 0.5).run(failing(9, retry_after=40.0), limit=60)  # type: ignore[arg-type]
    assert clock.slept == [40.0]


async def test_a_call_that_hangs_is_given_up(clock: ImpatientClock) -> None:
    async def hang(_left: float) -> None:
        clock.elapsed += 100
        await asyncio.Event().wait()

    with pytest.raises(EmbeddingFailed, match=r"did not answer within 0\.01 seconds"):
        await Retries(clock, lambda: 0.5).run(hang, limit=0.01)


async def test_what_is_not_passing_is_not_tried_again(clock: ImpatientClock) -> None:
    calls = []

    async def call(_left: float) -> None:
        calls.append(1)
        raise EmbeddingFailed("no key")

    with pytest.raises(EmbeddingFailed):
        await Retries(clock, lambda: 0.5).run(call, limit=60)
    assert calls == [1]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "12"}, 12.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"Retry-After": "Sat, 21 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"Retry-After": "Sat, 21 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"Retry-After": "-5"}, 0.0),
        ({"Retry-After": "999999999"}, 3600.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "nan"}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds
