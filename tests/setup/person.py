"""A person in front of ``homebody setup``: their home, and how they answer a question in a terminal."""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.base.paths import Paths
from gateway.base.state_lock import describe
from tests import programs
from tests.service.conftest import HOMEBODY
from tests.stories.terminal import ENTER

if TYPE_CHECKING:
    from pathlib import Path

    from tests.stories.terminal import Terminal


@dataclass
class Home:
    """A home without anything, as `tests.stories.terminal` wants it."""

    folder: Path
    more: dict[str, str]

    def environ(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.folder), "HOMEBODY_HOME": str(self.state), "TERM": "xterm", **self.more}

    @property
    def state(self) -> Path:
        return self.folder / ".homebody"

    async def run(self, *arguments: str) -> tuple[int, str, str]:
        command = [HOMEBODY, *arguments]
        ran = await asyncio.to_thread(
            programs.run, command, env=self.environ(), cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        return ran.returncode, ran.stdout, ran.stderr

    def holder(self) -> int:
        found = describe(Paths(self.state).state / "gateway.lock")
        return found.pid if found else 0


async def answered(window: Terminal, question: str, keys: str, *, since: int = 0) -> int:
    """Wait for a question, press keys and Enter; return how much was shown before."""
    assert await window.until(question, since=since), f"{question!r} is not asked:\n{window.shown[-1500:]}"
    await asyncio.sleep(0.3)
    at = len(window.shown)
    window.press(keys)
    await asyncio.sleep(0.3)
    window.press(ENTER)
    return at
