"""Confines the programs of servers by bubblewrap: what each of them may see, as the plan that ``gateway/sandbox/restrict.py`` applies."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from gateway.base.errors import HomebodyError
from gateway.mcp.errors import ServerFailed
from gateway.sandbox.bubblewrap import Bubblewrap
from gateway.sandbox.command import below
from gateway.sandbox.places import PROGRAMS, Places, why_not_readable
from gateway.sandbox.probe import try_bubblewrap
from gateway.sandbox.program_files import around, needed
from gateway.sandbox.protocol import Limits, Request
from gateway.settings.mcp_settings import McpServer

LIMITS: Final = Limits(cpu_seconds=1 << 30)
"""Those of a command, but for the time: a server runs for days."""


class Confinement:
    """Makes the plans. Whether bubblewrap works on this machine is tried with the first one. ``home`` is the state that nobody may see."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._bubblewrap: Bubblewrap | None = None

    def plan(self, name: str, server: McpServer, argv: Sequence[str], env: Mapping[str, str], folder: Path) -> str:
        """Return the plan for the program of a server that works in ``folder``. Blocking.

        Raises:
            ServerFailed: it cannot be confined as the settings say.
        """
        writable = [self._checked(name, "writePaths", path) for path in server.write_paths]
        readable = [self._checked(name, "readPaths", path) for path in server.read_paths]
        readable += [path for one in needed(argv, env.get("PATH", "")) for path in self._given(one)]
        where = os.path.realpath(folder)
        given = {**env, "HOME": where, "TMPDIR": "/tmp"}  # noqa: S108 -- a /tmp of its own
        request = Request(
            argv=tuple(argv), cwd=where, workspace=where, agent="", network=server.network, env=given, limits=LIMITS
        )
        kept = tuple(dict.fromkeys(path for path in readable if not any(below(path, one) for one in PROGRAMS)))
        places = Places(readable=kept, writable=tuple(writable), hidden=(str(self._home),))
        try:
            return json.dumps(self._works(name).confine(request, places, LIMITS).to_json())
        except HomebodyError as error:
            raise ServerFailed(f"the MCP server {name} cannot be confined: {error}", hint=error.hint) from error

    def _works(self, name: str) -> Bubblewrap:
        """Return bubblewrap, if it works here."""
        with self._lock:
            if self._bubblewrap is None:
                found, tried = asyncio.run(try_bubblewrap([str(Path.home()), str(self._home)]))
                if found is None:
                    hint = f"{tried.hint} Or run it unconfined: homebody config set mcp.servers.{name}.sandbox off"
                    raise ServerFailed(tried.reason, hint=hint.strip())
                self._bubblewrap = found
            return self._bubblewrap

    def _checked(self, name: str, key: str, given: str) -> str:
        path = os.path.expanduser(given)  # noqa: PTH111 -- kept as it is written otherwise
        why = (
            why_not_readable(path, (str(self._home),), str(Path.home()))
            if os.path.lexists(path)
            else "there is no such file or folder"
        )
        if why:
            raise ServerFailed(
                f"mcp.servers.{name}.{key} names {given}, which cannot be given to the program: {why}",
                hint=f"Correct mcp.servers.{name}.{key}.",
            )
        return path

    def _given(self, path: str) -> Iterator[str]:
        """Yield the folder that belongs to a file, or the file alone where that holds more."""
        for one in (*around(path), path):
            if not why_not_readable(one, (str(self._home),), str(Path.home())):
                yield one
                return
