"""Commands of Homebody itself, run by the gateway in a process of their own: their code and memory are gone when they end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from agent.tools.child_process import Spawn
from gateway.base.paths import Paths

MOST_PRINTED: Final = 1024 * 1024
"""Bytes that are kept of the end of what a command prints."""
_ROOT: Final = str(Path(__file__).parents[2])
_PROGRAM: Final = "import sys; sys.path.insert(0, sys.argv.pop(1)); from gateway.cli import main; sys.exit(main())"


class Printed(Struct, frozen=True):
    """What a command printed, and its exit code."""

    code: int
    out: bytes
    errors: bytes


class OwnCommand:
    """Runs ``homebody`` for one home."""

    def __init__(self, paths: Paths, env: Mapping[str, str], *, spawn: Spawn = asyncio.create_subprocess_exec) -> None:
        self._paths = paths
        self._env = env
        self._spawn = spawn

    async def run(self, *arguments: str, longest: float) -> Printed:
        """Run the command with these arguments. It ends with whoever waits for it.

        Raises:
            OSError: it cannot be started.
            TimeoutError: it took longer than ``longest`` seconds, and was ended.
        """
        paths = self._paths
        chosen = ["--config", str(paths.chosen_config)] if paths.chosen_config else []
        profile = ["--profile", paths.profile] if paths.profile else []
        process = await self._spawn(
            *(sys.executable, "-c", _PROGRAM, _ROOT, "--home", str(paths.home), *chosen, *profile),
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, **{name: value for name, value in self._env.items() if name.startswith("HOMEBODY_")}},
        )
        try:
            async with asyncio.timeout(longest):
                printed, errors = await process.communicate()
        except BaseException:  # also when cancelled: nothing goes on behind a gateway that ends
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 15)
            await process.wait()
            raise
        return Printed(process.returncode or 0, printed[-MOST_PRINTED:], errors[-MOST_PRINTED:])
