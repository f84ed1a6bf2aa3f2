from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.fire.loop import Fire
from tests.fire.world import Nursery, missing_tools, told_missing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say so where fewer kills are made than could be."""
    if told := told_missing():
        terminalreporter.write_line(f"tests/fire: {told}", yellow=True)


def _or_skip(missing: bool) -> None:
    """Where kills cannot be made: fail where they must be, skip elsewhere, and say why."""
    if missing and os.environ.get("CI") == "true":
        pytest.fail(told_missing())
    if missing:
        pytest.skip(told_missing())


@pytest.fixture
async def fire(tmp_path: Path) -> AsyncIterator[Fire]:
    """Give a fire, where gateways can be killed at all."""
    _or_skip("Linux with pidfd" in missing_tools())
    if missing_tools():
        _or_skip(os.environ.get("CI") == "true")
    async with Nursery.opened() as nursery:
        yield Fire(tmp_path, nursery)


@pytest.fixture
def traced() -> None:
    """Ask for kills at system calls, where the named places do not do."""
    _or_skip(bool(missing_tools()))
