"""Makes a large state folder of Clawdbot by repeating real transcripts, with broken lines among them.

python -m tests.migration.large_state FOLDER --megabytes 2000
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

REAL: Final = Path(__file__).parent / "clawdbot-2026.1.24-3"
_BROKEN: Final = 997
"""One line in so many is broken."""


def make(folder: Path, megabytes: int, sessions: int, *, seed: int = 7) -> None:
    """Write ``sessions`` current sessions, of which the first takes half of ``megabytes``: nothing in it was ever summarised."""
    shutil.copytree(REAL, folder)
    chance = random.Random(seed)
    place = folder / "agents/main/sessions"
    pairs = [json.loads(line) for line in (place / "s2.jsonl").read_text().splitlines() if '"message"' in line]
    keys = ["agent:main:main", *(f"agent:main:telegram:group:-{number}" for number in range(1, sessions))]
    records = {}
    for number, key in enumerate(keys):
        size = megabytes * 500_000 if number == 0 else megabytes * 500_000 // max(1, sessions - 1)
        with (place / f"large-{number}.jsonl").open("wb") as file:
            for line in _lines(pairs, size, chance):
                file.write(line)
        records[key] = {"sessionId": f"large-{number}", "updatedAt": 1795637911269}
    (place / "sessions.json").write_text(json.dumps(records))


def _lines(pairs: list[dict[str, object]], size: int, chance: random.Random) -> Iterator[bytes]:
    written, number, last = 0, 0, None
    while written < size:
        one = pairs[number % len(pairs)] | {"id": f"{number:08x}", "parentId": last}
        line = json.dumps(one).encode()
        if number % _BROKEN == _BROKEN - 1:
            line = (line[: chance.randrange(len(line))], bytes(len(line)), b"\xff" * 40)[number % 3]
        yield line + b"\n"
        written, number, last = written + len(line) + 1, number + 1, f"{number:08x}"


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--megabytes", type=int, default=2000)
    arguments.add_argument("--sessions", type=int, default=40)
    given = arguments.parse_args()
    make(given.folder, given.megabytes, given.sessions)
