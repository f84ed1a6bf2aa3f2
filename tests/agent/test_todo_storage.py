"""A list of things to do, and the index of the notes, on a disk that takes nothing: a storage error, not wrong usage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.errors import StorageFailed, UsageError, as_homebody_error
from gateway.base.paths import Paths
from gateway.settings.root import Settings
from memory.errors import IndexBroken
from tests.full_disk import no_file_may_grow

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.files


async def test_an_item_that_a_full_disk_does_not_take_is_a_storage_error(tmp_path: Path) -> None:
    settings = Settings.model_validate({"agents": {"defaults": {"workspace": str(tmp_path / "workspace")}}})
    gateway = await Gateway.open(Dependencies(settings=settings, paths=Paths(tmp_path / "home"), env={}))
    try:
        change = gateway.agent_calls()["todo.change"]
        with no_file_may_grow(), pytest.raises(StorageFailed, match=r"TODO\.md"):
            await change(agent=None, do="add", text="milk")
        with pytest.raises(UsageError):
            await change(agent=None, do="done", item="milk")
    finally:
        await gateway.close()


def test_an_index_that_cannot_be_used_is_a_storage_error() -> None:
    known = as_homebody_error(IndexBroken("the disk is full; search uses the last indexed state", hint="free some disk space"))
    assert (type(known), known and known.hint) == (StorageFailed, "free some disk space")
