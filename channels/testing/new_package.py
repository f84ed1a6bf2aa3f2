"""Writes the package of a new channel: the example of docs/adding-a-channel.md under another name, which runs as it is."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

_EXAMPLE: Final = "linechat"
_CLASS: Final = "LineChat"
_HERE: Final = Path(__file__).resolve().parent
_LONGEST: Final = 30
RESERVED: Final = frozenset({"terminal", "api", "web", "silent", "plugins", "defaults", "channel", "homebody"})
"""Names that Homebody itself uses."""
_OF_WINDOWS: Final = re.compile(r"con|prn|aux|nul|(com|lpt)[0-9]")
"""Names of devices, which no folder can have there."""


def example() -> Path:
    """Return the folder of the example: beside this module in an installed package, in docs/ of a clone.

    Raises:
        FileNotFoundError: this installation lacks it.
    """
    places = (_HERE / "example", _HERE.parents[1] / "docs" / "examples" / _EXAMPLE)
    found = next((place for place in places if (place / "pyproject.toml").is_file()), None)
    if found is None:
        raise FileNotFoundError(f"the example of a channel is not part of this installation: {places[0]}")
    return found


def why_not(name: str, taken: Collection[str]) -> str:
    """Return why a channel cannot have a name; empty if it can. ``taken`` are the names of channels that there are."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or not 1 < len(name) <= _LONGEST:
        return f"{name!r} cannot be the name of a channel: use 2 to {_LONGEST} small letters, digits and single hyphens, a letter first"
    if name in RESERVED:
        return f"{name!r} is a name of Homebody's own"
    if _OF_WINDOWS.fullmatch(name):
        return f"{name!r} is the name of a device on Windows, where no folder can have it"
    return f"there is a channel {name!r} already" if name in taken else ""


def written(name: str) -> dict[str, str]:
    """Return the files of the package by their paths, such as ``homebody_irc/channel.py``. Raises OSError."""
    folder = example()
    paths = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.suffix in {".py", ".toml", ".md"})
    shown = [path for path in paths if not any(part.startswith(".") for part in path.parts)]
    return {renamed(str(path), name): renamed((folder / path).read_text("utf-8"), name) for path in shown}


def renamed(text: str, name: str) -> str:
    """Return a text of the example as that of a channel with another name."""
    module = name.replace("-", "_")
    spelled = {
        f"homebody_{_EXAMPLE}": f"homebody_{module}",
        f"test_{_EXAMPLE}": f"test_{module}",
        f"{_EXAMPLE.upper()}_": f"{module.upper()}_",
        _CLASS: "".join(part.capitalize() for part in name.split("-")),
        _EXAMPLE: name,
    }
    return re.sub("|".join(spelled), lambda found: spelled[found[0]], text)


def write(name: str, folder: Path) -> list[str]:
    """Write the package into a new or empty folder, and return the paths of its files.

    Raises:
        FileExistsError: there is something in that folder.
        OSError: it cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is there already, and is not empty")
    files = written(name)
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("x", encoding="utf-8") as file:
            file.write(text)
    return list(files)
