"""The servers that setup asks, a home without anything, and a terminal."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.peers.compatible import compatible_peer  # noqa: F401 -- a fixture
from tests.setup.person import Home
from tests.stories.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    made = Home(tmp_path / "home", {})
    made.folder.mkdir()
    yield made
    if pid := made.holder():
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
async def window() -> AsyncIterator[Terminal]:
    made = Terminal()
    yield made
    await made.close()
