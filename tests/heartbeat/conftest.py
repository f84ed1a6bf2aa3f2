"""Tests of a whole gateway with a heartbeat run on each engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.both_engines import engine, on_each

if TYPE_CHECKING:
    import pytest

__all__ = ["engine"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    on_each(metafunc, (), openers=("Beating",))
