"""Whether a path that a command is given stays in the workspace."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct


def is_inside(path: str | Path, folder: str | Path) -> bool:
    """Whether a path leads into a folder or is the folder, after all symbolic links are followed."""
    real, root = os.path.realpath(path), os.path.realpath(folder)
    return real == root or real.startswith(root.rstrip("/") + "/")


class Place(Struct, frozen=True):
    """Where a command starts, and the workspace that it may look at. Both are absolute."""

    cwd: str
    workspace: str

    def holds(self, path: str) -> bool:
        """Whether a path stays in the workspace at each of its steps, without a symbolic link on the way.

        Where a link leads may depend on the process that follows it, so none is followed.
        """
        root, here = os.path.realpath(self.workspace), os.path.realpath(self.cwd)
        if path.startswith("/"):
            known = next((one for one in (self.workspace.rstrip("/"), root) if path == one or path.startswith(f"{one}/")), None)
            if known is None:
                return False
            path, here = path[len(known) :].lstrip("/"), root
        for step in ("", *path.split("/")):
            here = os.path.normpath(os.path.join(here, step))  # noqa: PTH118 -- text, one step at a time
            if not (here == root or here.startswith(f"{root.rstrip('/')}/")) or Path(here).is_symlink():
                return False
        return True
