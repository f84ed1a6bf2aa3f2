"""Saves a downloaded file block by block, within a size limit, and leaves nothing behind when it fails."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import BinaryIO

from channels.errors import NotFetched


async def save(blocks: AsyncIterator[bytes], path: Path, limit: int) -> None:
    """Write ``blocks`` to a new file at ``path``. The bytes are counted as they arrive. Errors of ``blocks`` are raised as they are.

    Raises:
        NotFetched: they are more than ``limit`` bytes, or cannot be written; nothing is left at ``path``.
    """
    with _not_saved():
        file = path.open("xb")
    whole, size = False, 0
    try:
        async for block in blocks:
            size += len(block)
            check_size(size, limit)
            with _not_saved():
                await asyncio.to_thread(file.write, block)
        with _not_saved():
            file.close()
        whole = True
    finally:
        if not whole:  # also when cancelled
            _remove(file, path)


def check_size(size: int, limit: int) -> None:
    """Raise NotFetched if a file is larger than allowed."""
    if size > limit:
        raise NotFetched(f"the file is larger than the limit of {limit:,} bytes")


def _remove(file: BinaryIO, path: Path) -> None:
    with contextlib.suppress(OSError):
        file.close()
    path.unlink(missing_ok=True)


@contextlib.contextmanager
def _not_saved() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NotFetched(f"the file could not be saved: {error}", permanent=False) from error
