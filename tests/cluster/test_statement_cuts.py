"""Whole gateways whose connection to PostgreSQL is cut at a statement: what was said is answered and done once, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.statement_cuts import play
from tests.peers.statement_line import WAYS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.postgres


async def test_a_gateway_whose_line_is_cut_loses_and_doubles_nothing(tmp_path: Path) -> None:
    found, cut = await play("alone", [6], seed=6, folder=tmp_path, ways=["after"])
    assert found.wrong(timed=False) == {}
    assert cut.total() >= 4


@pytest.mark.long
@pytest.mark.parametrize(("kind", "first"), [("alone", 17), ("pair", 9)])
async def test_a_line_that_is_cut_anywhere_loses_and_doubles_nothing(kind: str, first: int, tmp_path: Path) -> None:
    found, cut = await play(kind, range(first, 1000, 61), seed=first, folder=tmp_path, ways=WAYS)
    assert found.wrong(timed=False) == {}
    assert cut.total() >= (15 if kind == "alone" else 9)
