"""Opens the memory that ``--agent`` and ``--workspace`` name, formats search results as JSON, and shows progress bars."""

from __future__ import annotations

import os
import sys
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import TextIO

    from gateway.cli.invocation import Invocation
    from memory.protocol import SearchAnswer
    from memory.workspace_memory import WorkspaceMemory

_BAR = 30
_MEGABYTE = 1_000_000


class Bar:
    """A progress bar on a terminal; silent elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = 0

    def show(self, what: str, done: int, total: int) -> None:
        """Redraw it."""
        if total:
            self._draw(what, done / total, f"{done}/{total}")

    def download(self, name: str, done: int, total: int | None) -> None:
        """Redraw it for a download; ``total`` is 0 if unknown."""
        size = f"{done / _MEGABYTE:.0f} MB" + (f" of {total / _MEGABYTE:.0f}" if total else "")
        self._draw(f"downloading {name}", done / total if total else 0.0, size)

    def end(self) -> None:
        """End the line."""
        if self._shown:
            self._stream.write("\n")
        self._shown = 0

    def _draw(self, what: str, share: float, figures: str) -> None:
        if not self._stream.isatty():
            return
        filled = min(_BAR, int(_BAR * share))
        line = f"{what:8} [{'#' * filled}{'.' * (_BAR - filled)}] {figures}"
        self._stream.write(f"\r{line:{self._shown}}")
        self._stream.flush()
        self._shown = len(line)


@asynccontextmanager
async def opened(invocation: Invocation, options: dict[str, Any]) -> AsyncIterator[WorkspaceMemory]:
    """Open the memory that ``--agent`` and ``--workspace`` name; it is closed at the end.

    A folder other than the agent's workspace gets an index file of its own, so that the agent's index does not change.
    """
    from random import Random

    from gateway.agents.memory_stores import open_memory
    from gateway.base.clock import SystemClock

    settings = invocation.loaded.settings
    agent = options["agent"] or settings.default_agent
    profile = settings.agent(agent)
    folder: Path | None = options["workspace"]
    if folder is not None:
        folder = Path(os.path.realpath(folder))  # noqa: ASYNC240 - nothing else runs yet
        if str(folder) != os.path.realpath(profile.workspace.expanduser()):  # noqa: ASYNC240
            in_file = profile.memory.store.model_copy(update={"driver": "sqlite"})
            profile = replace(
                profile,
                workspace=folder,
                id=f"{agent}-{sha256(os.fsencode(folder)).hexdigest()[:12]}",
                memory=profile.memory.model_copy(update={"store": in_file}),
            )
    bar = Bar(sys.stderr)
    notes, choice = open_memory(
        profile,
        settings,
        invocation.paths,
        env=os.environ,
        clock=SystemClock(),
        random=Random(),  # noqa: S311 - only used to spread retries
        tell=lambda sentence: click.echo(f"homebody: {sentence}", err=True),
        progress=bar.download,
    )
    if options["verbose"]:
        click.echo(f"homebody: {choice.reason}", err=True)
    try:
        yield notes
    finally:
        bar.end()
        await notes.close()


def as_json(answer: SearchAnswer) -> dict[str, Any]:
    """Return an answer in the format of the ``memory_search`` tool."""
    from memory.search.retrieval import hit_facts

    results = [hit_facts(hit) for hit in answer.hits]
    rest = {
        "nearest": [hit_facts(hit) for hit in answer.nearest] or None,
        "fallback": answer.fallback,
        "stale": answer.stale or None,
        "note": answer.note,
    }
    given = {name: value for name, value in rest.items() if value is not None}
    return {"results": results, "provider": answer.provider, "model": answer.model, **given}
