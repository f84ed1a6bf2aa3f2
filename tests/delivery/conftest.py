"""Tests of modules that open ledgers by ``open_at`` run on each engine, but for those that are about the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.both_engines import engine, on_each

if TYPE_CHECKING:
    import pytest

__all__ = ["engine"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    on_each(metafunc, ())
