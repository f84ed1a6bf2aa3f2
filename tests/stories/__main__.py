"""Stories: promises of the README and the docs, tried on the system clock with the shipped command and the wire alone.

    python -m tests.stories                  all of them, and a table
    python -m tests.stories outage-telegram  one
    python -m tests.stories --long           with the outages of five minutes

Nothing here imports the product: it is a command on the PATH. Exit code 1 when a promise did not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import random
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from tests.stories.stage import Row, Stage

if TYPE_CHECKING:
    from tests.stories.stage import Story

ROOMS = frozenset({"agent", "channels", "gateway", "memory", "workspace_templates"})


def _stories() -> dict[str, Story]:
    """Collect the stories of the modules beside this one."""
    found: dict[str, Story] = {}
    for file in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        found |= getattr(importlib.import_module(f"tests.stories.{file.stem}"), "STORIES", {})
    return found


STORIES = _stories()


async def told(name: str, folder: Path, *, long: bool, seed: int) -> list[Row]:
    """Tell one story and return what became of its promises."""
    story, began = STORIES[name], time.monotonic()
    stage = Stage(folder / name, long=long, seed=seed)
    stage.folder.mkdir(parents=True)
    limit = story.seconds + (900 if long else 0)
    try:
        async with asyncio.timeout(limit):
            await story.tell(stage)
    except TimeoutError:
        stage.hold("the story comes to its end", held=False, figures=f"given up after {limit:.0f} s")
    except Exception as error:  # noqa: BLE001  whatever happens in one story, the others are told and the table is printed
        traceback.print_exception(error)
        stage.hold("the story comes to its end", held=False, figures=f"{type(error).__name__}: {error}"[:300])
    print(f"told {name} in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)  # noqa: T201
    return stage.rows


async def all_told(names: list[str], folder: Path, *, long: bool, seed: int) -> dict[str, list[Row]]:
    """Tell the stories that wait beside each other, and the others one after another."""
    waiting = [name for name in names if STORIES[name].waits]
    rows = dict(
        zip(waiting, await asyncio.gather(*(told(name, folder, long=long, seed=seed) for name in waiting)), strict=True)
    )
    for name in names:
        if name not in rows:
            rows[name] = await told(name, folder, long=long, seed=seed)
    return {name: rows[name] for name in names}


def table(rows: dict[str, list[Row]]) -> str:
    """Return the table: story, promise, result, figures."""
    lines = ["| story | promise | result | figures |", "|---|---|---|---|"]
    for name, each in rows.items():
        lines += [f"| {name} | {row.promise} | {'held' if row.held else 'BROKEN'} | {row.figures} |" for row in each]
    return "\n".join(lines)


def main() -> int:
    """Tell what is asked for; return the exit code."""
    options = argparse.ArgumentParser(
        prog="make story", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("names", nargs="*", choices=[[], *STORIES], metavar="NAME", help=", ".join(STORIES))
    options.add_argument("--long", action="store_true", help="tell the outages of five minutes too")
    options.add_argument("--seed", type=int, default=None, help="of all dice; drawn and printed where it is not given")
    options.add_argument("--keep", type=Path, help="where the houses are built, and stay")
    given = options.parse_args()
    seed = random.randrange(10**6) if given.seed is None else given.seed
    folder = given.keep or Path(tempfile.mkdtemp(prefix="stories-"))
    began = time.monotonic()
    rows = asyncio.run(all_told(given.names or list(STORIES), folder, long=given.long, seed=seed))
    strangers = sorted(ROOMS & sys.modules.keys())
    rows["all"] = [Row("nothing of the product is imported", not strangers, ", ".join(strangers))]
    good = all(row.held for each in rows.values() for row in each)
    print(table(rows), flush=True)  # noqa: T201
    print(f"\n{'all held' if good else 'BROKEN'}; seed {seed}, {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201
    if good and given.keep is None:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"The houses are in {folder}.", file=sys.stderr)  # noqa: T201
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
