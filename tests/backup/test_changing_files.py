"""Files that are written to, replaced or deleted while a backup is made: each is whole, or named."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from gateway.backup.age_encryption import Keys, key_file
from gateway.backup.extraction import unpack, verify
from gateway.base.paths import Paths

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.backup.conftest import Lived

LINE = b'{"line": %d}\n'


class Writers:
    """Threads that change files until told to stop."""

    def __init__(self, *works: Callable[[int], object]) -> None:
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(work,)) for work in works]

    def _run(self, work: Callable[[int], object]) -> None:
        number = 0
        while not self._over.is_set():
            number += 1
            work(number)

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *error: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


def test_what_is_appended_ends_with_a_whole_line_and_what_is_replaced_is_one_of_its_versions(
    lived: Lived, tmp_path: Path
) -> None:
    growing, replaced, torn = (lived.home / "agents/main" / name for name in ("grows.jsonl", "replaced.json", "large.jsonl"))
    vanishing = lived.workspace / "vanishes.md"
    large = b"".join(LINE % number for number in range(400_000))
    torn.write_bytes(large + b'{"line": half')
    growing.touch()

    def append(number: int) -> None:
        with growing.open("ab", buffering=0) as file:
            line = LINE % number
            file.write(line[:7])
            file.write(line[7:])

    def replace(number: int) -> None:
        fresh = replaced.with_name("fresh")
        fresh.write_text(str(number) * 5000)
        fresh.rename(replaced)

    def vanish(_number: int) -> None:
        vanishing.write_text("here")
        vanishing.unlink()

    with Writers(append, replace, vanish):
        backups = [lived.make() for _ in range(3)]
    keys = Keys(files=(key_file(Paths(lived.home)),))
    for number, made in enumerate(backups):
        assert verify(made.path, keys).manifest.id == made.manifest.id
        home = tmp_path / str(number)
        unpack(made.path, keys, home, lambda agent, number=number: tmp_path / f"{number}-{agent}")
        lines = (home / "agents/main/grows.jsonl").read_bytes()
        assert lines == b"".join(LINE % line for line in range(1, lines.count(b"\n") + 1))
        assert (home / "agents/main/large.jsonl").read_bytes() == large
        text = (home / "agents/main/replaced.json").read_text()
        assert text == text[: len(text) // 5000] * 5000


def test_a_file_that_is_cut_while_it_is_copied_is_named(lived: Lived) -> None:
    large = lived.workspace / "recording.bin"

    large.write_bytes(b"x" * 12_800_000)

    def cut_and_grow(_number: int) -> None:
        os.truncate(large, 5_000_000)
        os.truncate(large, 12_800_000)

    with Writers(cut_and_grow):
        backups = [lived.make() for _ in range(2)]
    keys = Keys(files=(key_file(Paths(lived.home)),))
    for made in backups:
        verify(made.path, keys)
    assert all(made.manifest.files["workspace/main/recording.bin"].changed for made in backups)
