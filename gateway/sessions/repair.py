"""Repairs a transcript with unreadable lines: readable ones are kept, the original file is kept beside it."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

from agent.transcript.entries import InvalidEntry, decode
from gateway.base.errors import StorageFailed


def repair(path: Path, now: datetime) -> dict[str, Any]:
    """Mend the transcript at ``path`` and tell what was done, as JSON values. A sound one is left alone.

    The conversation must not be open anywhere. Blocking.

    Raises:
        StorageFailed: the file or its folder cannot be used; it is as it was.
    """
    try:
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        good = [line for line in lines if _is_sound(line)]
        facts: dict[str, Any] = {"transcript": str(path), "lines": len(lines), "bad": len(lines) - len(good), "kept": None}
        if len(good) < len(lines):
            facts["kept"] = str(_replace(path, b"".join(good), now))
    except OSError as error:
        raise StorageFailed.from_os(error, "repair the transcript", path) from error
    return facts


def _is_sound(line: bytes) -> bool:
    try:
        decode(line.rstrip(b"\r\n"))
    except InvalidEntry:
        return False
    return line.endswith(b"\n")


def _replace(path: Path, data: bytes, now: datetime) -> Path:
    """Write the mended file beside the bad one, then exchange them; return where the bad one is."""
    aside = path.with_name(f"{path.name}.bad-{now:%Y%m%dT%H%M%S%f}")
    fresh = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.link(path, aside)
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return aside
