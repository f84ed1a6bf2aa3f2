"""Two machines and the repository that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.workspaces.clones import Clones

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def clones(tmp_path: Path) -> Iterator[Clones]:
    made = Clones(tmp_path)
    yield made
    made.close()
