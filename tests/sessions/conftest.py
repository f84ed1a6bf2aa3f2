"""Tests of modules that open sessions by ``sessions_at`` run on each engine, but for those that are about files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.both_engines import engine, on_each

if TYPE_CHECKING:
    import pytest

__all__ = ["engine"]
AT_ONCE = {
    "test_what_was_put_is_there_after_a_restart_without_any_closing",
    "test_lines_are_read_from_any_place_as_of_one_file",
    "test_a_transcript_is_the_same_to_whoever_goes_on_with_it",
    "test_conversations_are_listed_searched_archived_and_forgotten",
    "test_a_line_that_cannot_be_read_is_taken_out_and_the_former_lines_are_kept",
}
"""What `make test` runs on PostgreSQL, too."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    on_each(metafunc, AT_ONCE)
