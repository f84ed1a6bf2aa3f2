"""A machine that writes and syncs until it is killed: FOLDER NAME ROUND. Prints each line of text that is safely in its folder."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.workspaces.clones import Clones

PATHS = ("MEMORY.md", "memory/2026-11-26.md", "data.bin")


def main() -> None:
    folder, name, number = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    clones = Clones(folder, make=False)
    one = clones.clone(name)
    for count in range(4):
        for path in PATHS:
            (one.root / path).parent.mkdir(exist_ok=True)
            line = f"{name} wrote {number}.{count}"
            with (one.root / path).open("a") as file:
                file.write(f"{line}\n")
            sys.stdout.write(f"{path}\t{line}\n")
            sys.stdout.flush()
        one.sync()


if __name__ == "__main__":
    main()
