from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.fire.loop import Fire
from tests.fire.world import Nursery, missing_tools

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def fire(tmp_path: Path) -> AsyncIterator[Fire]:
    """Give a fire; skip where kills cannot be placed, and fail where they must be."""
    if missing := missing_tools():
        told = f"kills at system calls need {' and '.join(missing)}"
        if os.environ.get("CI") == "true":
            pytest.fail(told)
        pytest.skip(told)
    async with Nursery.opened() as nursery:
        yield Fire(tmp_path, nursery)
