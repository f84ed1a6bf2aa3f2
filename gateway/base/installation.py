"""How this program was installed, and so how it is updated and removed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

import gateway
from gateway.base.errors import IN_CONTAINER

Way = Literal["checkout", "pipx", "uv", "container", "pip"]
LINKS = Path(".local/bin")
"""In the home folder: where `make install` puts its link."""
_REBUILD = "docker compose -f docker/compose.yaml up --detach --build"


class Installation(Struct, frozen=True):
    """``root`` is the clone, or the environment that the package was installed into. ``source``: what pipx was given."""

    way: Way
    root: Path
    source: str = "homebody"

    @property
    def update_command(self) -> str:
        """The command that updates the program."""
        if self.way == "pipx":
            own = self.source == "homebody" or "://" in self.source
            return "pipx upgrade homebody" if own else f"pipx install --force {self.source}"
        return {
            "checkout": f"git -C {self.root} pull --ff-only && make -C {self.root} install",
            "uv": "uv tool upgrade homebody",
            "container": _REBUILD,
            "pip": f"{self.root / 'bin' / 'python'} -m pip install --upgrade homebody",
        }[self.way]

    def extra_command(self, name: str) -> str:
        """The command that adds one of the optional parts, such as ``mail``."""
        return {
            "checkout": f"make -C {self.root} {'meaning' if name == 'meaning' else 'extras'}",
            "pipx": f"pipx install --force '{self.source}[{name}]'",
            "uv": f"uv tool install --force 'homebody[{name}]'",
            "container": _REBUILD if name != "meaning" else f"HOMEBODY_MEANING=1 {_REBUILD}",
            "pip": f"{self.root / 'bin' / 'python'} -m pip install 'homebody[{name}]'",
        }[self.way]

    @property
    def remove_command(self) -> str:
        """The command that removes the program itself; for a clone, what to delete."""
        return {
            "checkout": f"rm -r {self.root}",
            "pipx": "pipx uninstall homebody",
            "uv": "uv tool uninstall homebody",
            "container": "docker compose -f docker/compose.yaml down   (with --volumes, notes and state go as well)",
            "pip": f"{self.root / 'bin' / 'python'} -m pip uninstall homebody",
        }[self.way]


def find_installation(
    env: Mapping[str, str] = os.environ, *, prefix: Path | None = None, package: Path | None = None
) -> Installation:
    """Return how this program was installed, by what lies around it."""
    place = prefix or Path(sys.prefix)
    code = (package or Path(gateway.__file__)).resolve().parent.parent
    if env.get(IN_CONTAINER):
        return Installation("container", place)
    if (code / "pyproject.toml").is_file() and (code / "Makefile").is_file():
        return Installation("checkout", code)
    if (place / "uv-receipt.toml").is_file():
        return Installation("uv", place)
    if (place / "pipx_metadata.json").is_file():
        return Installation("pipx", place, _pipx_source(place / "pipx_metadata.json"))
    return Installation("pip", place)


def how_to_add(extra: str) -> str:
    """Return the command that adds an optional part to this program, however it was installed."""
    return find_installation().extra_command(extra)


def links_of(home: Path, installation: Installation, path: str = "") -> list[Path]:
    """Return the links that `make install` made: in its usual folder, or in one of ``path`` (a PATH), where LINKS=FOLDER chose that."""
    if installation.way != "checkout":
        return []
    program = installation.root / ".venv" / "bin" / "homebody"
    folders = dict.fromkeys([home / LINKS, *(Path(folder) for folder in path.split(os.pathsep) if folder)])
    links = [folder / "homebody" for folder in folders]
    return [link for link in links if link.is_symlink() and link.readlink() == program]


def _pipx_source(file: Path) -> str:
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["main_package"]["package_or_url"])
    except (OSError, ValueError, KeyError, TypeError):
        return "homebody"
