"""A runner for the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gateway.base.clock import SystemClock
from gateway.runner.runner_client import Runner

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def runner() -> AsyncIterator[Runner]:
    made = Runner(SystemClock())
    yield made
    await made.close()
