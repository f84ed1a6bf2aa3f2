"""Files with secrets that the settings name and that lie outside of the home and the workspaces, such as ``file:/etc/keys/model``.

They are stored in the folder ``outside`` of the home, by what the settings call them. A restore writes nothing outside of its folders:
where such a file is missing on the machine, the restored settings name the copy.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from gateway.base.atomic_file import write_atomically
from gateway.config.document import read_document, read_text
from gateway.config.edit import with_value
from gateway.config.syntax_tree import KeyPath, plain

FOLDER: Final = "outside"
LARGEST: Final = 1024 * 1024
"""Bytes of a file that is copied: a key is no longer."""
_FILE: Final = "file:"
_LONGEST: Final = 100


def texts_in(given: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Yield the texts in settings, with their keys."""
    if isinstance(given, Mapping):
        for key, value in given.items():
            yield from texts_in(value, (*path, str(key)))
    elif isinstance(given, list | tuple):
        for index, value in enumerate(given):
            yield from texts_in(value, (*path, index))
    elif isinstance(given, str):
        yield path, given


def named_files(given: Any) -> Iterator[tuple[KeyPath, str]]:
    """Yield what settings name as places of secrets, with their keys: ``file:PATH``, and keys such as ``tokenFile``."""
    for path, text in texts_in(given):
        if text.startswith(_FILE) or str(path[-1]).endswith("File"):
            yield path, text.removeprefix(_FILE)


def place_of(name: str, beside: Path) -> Path:
    """Return the file of a name in settings that lie in ``beside``; links stay as they are."""
    return Path(os.path.abspath(beside / Path(name).expanduser()))  # noqa: PTH100 - it would follow links


def stored_name(name: str) -> str:
    """Return the name of a copy in ``FOLDER``."""
    return f"{hashlib.sha256(os.fsencode(name)).hexdigest()[:12]}-{Path(name).name[-_LONGEST:]}"


def read(path: Path) -> bytes:
    """Return the content of a file. Raises OSError, also where it is none or too large for a secret."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(0, "it is not a plain file")
        if about.st_size > LARGEST:
            raise OSError(0, "it is too large for a key")
        return os.read(descriptor, LARGEST + 1)
    finally:
        os.close(descriptor)


def name_copies(settings: Path, beside: Path) -> dict[str, Path]:
    """Have restored settings name the copy of each file that is missing here; return the copies by what was named. Blocking.

    ``beside`` is the folder that relative names were relative to.
    """
    folder = settings.parent / FOLDER
    if not (settings.exists() and folder.is_dir()):
        return {}
    document = read_document(read_text(settings), str(settings))
    found: dict[str, Path] = {}
    for key, name in list(named_files(plain(document.root))):
        copy = folder / stored_name(name)
        if not copy.is_file() or os.access(place_of(name, beside), os.R_OK):
            continue
        prefix = "" if str(key[-1]).endswith("File") else _FILE
        document = read_document(with_value(document, key, f"{prefix}{copy}"), str(settings))
        found[name] = copy
    if found:
        write_atomically(settings, document.text)
    return found


def move_copies(settings: Path, old: Path, new: Path) -> None:
    """Have settings name the copies where they will be. Blocking."""
    write_atomically(settings, read_text(settings).replace(str(old / FOLDER), str(new / FOLDER)))
