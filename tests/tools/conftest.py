"""A house for the tests of the tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.tools.house import House

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)
