"""The watch on folders that tells of changes."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest

from memory.indexing.folder_watch import changes

if TYPE_CHECKING:
    from pathlib import Path


def wanted(_change: object, path: str) -> bool:
    return path.endswith(".md")


def watch_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("watch")}


async def test_a_wanted_change_is_told_and_the_thread_ends_with_the_generator(tmp_path: Path) -> None:
    begun, before = asyncio.Event(), watch_threads()
    watch = changes([tmp_path], wanted, debounce=100, step=20, begun=begun.set)
    async with aclosing(watch):
        told = asyncio.ensure_future(anext(watch))
        await begun.wait()
        (tmp_path / "a.txt").write_text("not asked for")
        await asyncio.sleep(0.3)
        assert not told.done()
        (tmp_path / "a.md").write_text("asked for")
        await told
        assert watch_threads() - before
    assert not watch_threads() - before


async def test_a_cancelled_caller_ends_the_thread(tmp_path: Path) -> None:
    begun, before = asyncio.Event(), watch_threads()

    async def follow() -> None:
        watch = changes([tmp_path], wanted, step=20, begun=begun.set)
        async with aclosing(watch):
            async for _ in watch:
                pass

    task = asyncio.create_task(follow())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not watch_threads() - before


async def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    begun = asyncio.Event()
    watch = changes([tmp_path / "missing"], wanted, step=20, begun=begun.set)
    async with aclosing(watch):
        with pytest.raises(FileNotFoundError):
            await anext(watch)
    assert begun.is_set()
