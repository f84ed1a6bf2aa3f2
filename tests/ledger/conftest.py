"""Tests of modules that open ledgers by ``open_at`` run on each engine, but for those that are about the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ledger import engines

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    either = hasattr(metafunc.module, "open_at") and not metafunc.definition.get_closest_marker("files")
    if either and "engine" in metafunc.fixturenames:
        marks = [] if metafunc.function.__name__ in AT_ONCE else [pytest.mark.long]
        on_postgres = pytest.param(engines.POSTGRES, marks=[pytest.mark.postgres, *marks])
        metafunc.parametrize("engine", [engines.SQLITE, on_postgres], indirect=True)


@pytest.fixture(autouse=True)
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """The engine on which a test runs."""
    engines.Current.engine = getattr(request, "param", engines.SQLITE)
    yield engines.Current.engine
    engines.Current.engine = engines.SQLITE
