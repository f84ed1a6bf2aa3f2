"""Tests of modules that open ledgers by ``open_at`` run on each engine, but for those that are about the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.both_engines import engine, on_each

if TYPE_CHECKING:
    import pytest

__all__ = ["engine"]

AT_ONCE = {
    "test_a_redelivered_message_is_taken_once",
    "test_finishing_answers_the_message_and_queues_the_reply_once",
    "test_only_the_first_open_chunk_of_a_conversation_is_due",
    "test_a_send_cut_off_by_a_crash_is_ambiguous",
    "test_a_decision_resumes_the_turn_once",
    "test_a_prompt_fires_once_and_its_message_waits_in_the_inbox",
}
"""What `make test` runs on PostgreSQL, too; all others are long there."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on both engines."""
    on_each(metafunc, AT_ONCE)
