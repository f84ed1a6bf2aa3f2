"""Checks for packages of others that have our names: `agent`, `channels`, `gateway` or `memory`."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import gateway
from gateway.doctor.checked_installation import Installation
from gateway.doctor.finding import Check, Finding, ok

OURS: Final = ("agent", "channels", "gateway", "memory")
_WHY: Final = "Python may import it in place of ours; then Homebody does not start, or fails strangely."


def _examine(installation: Installation) -> Iterator[Finding]:
    root = Path(gateway.__file__).resolve().parents[1]
    found = [
        *imported_in_place(root),
        *_beside(root, sys.path),
        *_in_working_folder(root, installation.cwd),
        *_of_environment(root, installation),
    ]
    yield from found or [ok(f"the program is in {root}, and nothing stands in its way")]


def imported_in_place(root: Path) -> Iterator[Finding]:
    """Packages that are imported in place of ours, in this very process."""
    for name in OURS:
        spec = importlib.util.find_spec(name)
        origin = Path(spec.origin).resolve() if spec is not None and spec.origin else None
        if origin is not None and not origin.is_relative_to(root):
            mend = "Remove it (pip uninstall the package that owns it), or install Homebody in an environment of its own: make install"
            yield Finding(
                level="error",
                what=f"the package {name} of another program is imported",
                where=str(origin.parent),
                why=_WHY,
                mend=mend,
            )


def _beside(root: Path, folders: Sequence[str]) -> Iterator[Finding]:
    for folder in dict.fromkeys(Path(one or os.curdir).resolve() for one in folders):
        for path in _named(folder, root):
            mend = "Uninstall the package that brought it, or run: make install (an environment of its own)"
            yield Finding(level="warning", what=f"another program's package {path.stem}", where=str(path), why=_WHY, mend=mend)


def _in_working_folder(root: Path, cwd: Path) -> Iterator[Finding]:
    if str(cwd.resolve()) in {str(Path(one or os.curdir).resolve()) for one in sys.path}:
        return
    for path in _named(cwd.resolve(), root):
        why = "The command `homebody` is not affected; `python -m gateway` in this folder would take it."
        mend = "Start it as `homebody`, or in another folder."
        yield Finding(
            level="note", what=f"the working folder has something of the name {path.stem}", where=str(path), why=why, mend=mend
        )


def _of_environment(root: Path, installation: Installation) -> Iterator[Finding]:
    for folder in filter(None, installation.env.get("PYTHONPATH", "").split(os.pathsep)):
        if Path(folder).resolve() not in {Path(one or os.curdir).resolve() for one in sys.path}:
            for path in _named(Path(folder).resolve(), root):
                yield Finding(
                    level="warning", what=f"PYTHONPATH leads to {path}", where="PYTHONPATH", why=_WHY, mend="unset PYTHONPATH"
                )


def _named(folder: Path, root: Path) -> Iterator[Path]:
    """Yield what Python would import from a folder under one of our names, and is not ours."""
    if folder == root:
        return
    for name in OURS:
        package, module = folder / name, folder / f"{name}.py"
        if (package / "__init__.py").is_file() and package.resolve() != root / name:
            yield package
        elif module.is_file():
            yield module


PACKAGES = Check(name="packages", examine=_examine, quick=True)
