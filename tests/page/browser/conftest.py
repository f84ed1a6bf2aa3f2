"""These tests drive a real browser: `make page`. They are not part of `make test`, which needs no browser."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import pytest_asyncio

collect_ignore_glob = [] if os.environ.get("PAGE_TESTS") else ["test_*.py"]

if not collect_ignore_glob:
    from tests.page.browser.kit import screen, visit  # noqa: F401  (fixtures)


_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run these tests in one loop, in which the browser stays open from test to test."""
    for item in items:
        if item.path.is_relative_to(_HERE) and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
