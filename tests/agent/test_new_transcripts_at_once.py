"""Many transcripts that begin at once: each is durable when its append returns, and they share syncs of their folder."""

from __future__ import annotations

import os
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from agent.transcript.transcript_file import append_synced
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class FolderSyncs:
    """Stands in for ``os.fsync`` of folders: slow, and told by the times at which each began and ended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times: list[tuple[float, float]] = []
        self.failing = 0
        self.together = 0
        """How many files there must be in a folder before its sync goes on."""
        self._sync, self._lock = os.fsync, threading.Lock()
        monkeypatch.setattr(os, "fsync", self)

    def __call__(self, fd: int) -> None:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            self._sync(fd)
            return
        began = time.perf_counter()
        while len(os.listdir(fd)) < self.together and time.perf_counter() - began < PATIENCE:
            time.sleep(0.001)
        time.sleep(0.02)
        with self._lock:
            if self.failing:
                self.failing -= 1
                raise OSError(5, "input/output error")
            self.times.append((began, time.perf_counter()))


def begin(path: Path) -> tuple[float, float]:
    """Begin a transcript; return when its file was there, at the earliest, and when it was durable."""
    began = time.perf_counter()
    append_synced(path, b"{}\n")
    return began, time.perf_counter()


def test_each_is_durable_and_they_share_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = FolderSyncs(monkeypatch)
    syncs.together = 16
    with ThreadPoolExecutor(16) as threads:
        made = list(threads.map(begin, [tmp_path / f"{n}.jsonl" for n in range(16)]))
    for began, ended in made:
        assert any(began < first and last < ended for first, last in syncs.times)
    assert len(syncs.times) < 8, "one for the first, and few for those that came meanwhile"


def test_each_folder_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = FolderSyncs(monkeypatch)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(begin, [tmp_path / f"{n}" / "one.jsonl" for n in range(8)]))
    assert len(syncs.times) == 8


def test_a_sync_that_fails_counts_for_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = FolderSyncs(monkeypatch)
    syncs.failing = 3
    with ThreadPoolExecutor(16) as threads:
        done = [threads.submit(begin, tmp_path / f"{n}.jsonl") for n in range(32)]
    assert sum(one.exception() is not None for one in done) == 3
    for began, ended in (one.result() for one in done if one.exception() is None):
        assert any(began < first and last < ended for first, last in syncs.times)
