"""A bench for jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.jobs.bench import Bench

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path / "ledger.sqlite")
    async with made.process():
        yield made
