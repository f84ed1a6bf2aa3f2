"""Tests of modules that open memories by ``memory_at`` run on each engine, but for those that are about the file."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pytest

from tests.both_engines import on_each, running_on
from tests.memory.memory_engines import drop_all

if TYPE_CHECKING:
    from collections.abc import Iterator

AT_ONCE = {
    "test_notes_are_found_by_stem_by_ideographs_and_by_parts_of_a_code",
    "test_own_writes_are_found_at_once_and_their_vectors_follow",
    "test_a_new_model_takes_over_only_when_it_is_complete",
    "test_candidates_have_the_cosines_of_their_nearest_line_and_of_two_in_a_row",
}
"""What `make test` runs on PostgreSQL, too; all others are long there."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that can open a memory on both engines."""
    if inspect.iscoroutinefunction(metafunc.function):
        on_each(metafunc, AT_ONCE, openers=("memory_at",))


@pytest.fixture(autouse=True)
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """The engine on which a test runs."""
    yield from running_on(request, drop_all)
