"""Path validation: the checks that need no file system."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from urllib.parse import unquote

from agent.errors import PathNotAllowed

MAX_PATH_BYTES = 4096
"""PATH_MAX of Linux; longer paths cannot be opened."""
MAX_NAME_BYTES = 255
"""NAME_MAX of the usual file systems."""

_DRIVE_OR_SCHEME = re.compile(r"[A-Za-z]:|[A-Za-z][A-Za-z0-9+.-]+:/|file:", re.IGNORECASE)
_JOINERS = frozenset("\u200c\u200d")
_SHOWN = 120
_EXAMPLE = 'give a path relative to the workspace, such as "memory/2026-01-31.md"'


def workspace_path(raw: str) -> PurePosixPath:
    """Turn what a model wrote into a normalised relative path; "" and "." are the workspace itself.

    Never decodes anything: a path that would mean something else once decoded (percent signs, full-width dots) is refused, so
    that no later reader can be led elsewhere by it. Raises PathNotAllowed.
    """
    trouble = _trouble(raw) or ("it hides another path behind encoded characters" if _disguised(raw) else "")
    if trouble:
        raise PathNotAllowed(f"{_shown(raw)}: {trouble}; {_EXAMPLE}")
    return PurePosixPath(raw)


def _trouble(text: str) -> str:
    if len(text.encode("utf-8", "surrogatepass")) > MAX_PATH_BYTES:
        return "the path is too long"
    if any(_unfit(character) for character in text):
        return "the path has control, invisible or broken characters"
    for found, what in (
        (text.startswith("/"), "absolute paths are not opened"),
        (text.startswith("~"), "home folders are not opened"),
        ("\\" in text or _DRIVE_OR_SCHEME.match(text), "drives, addresses and backslashes are not opened"),
    ):
        if found:
            return what
    return next(filter(None, map(_name_trouble, text.split("/"))), "")


def _name_trouble(name: str) -> str:
    if name == "..":
        return "parent folders are not opened"
    if name not in {"", "."} and name != name.rstrip(" ."):
        return "a name may not end in a dot or a space"
    return "a name in it is too long" if len(name.encode()) > MAX_NAME_BYTES else ""


def _unfit(character: str) -> bool:
    if character.isascii():
        return not character.isprintable()
    from unicodedata import category as category_of

    category = category_of(character)
    return category in {"Cc", "Cs", "Zl", "Zp"} or character == "\ufffd" or (category == "Cf" and character not in _JOINERS)


def _disguised(text: str) -> bool:
    """Whether a text without trouble of its own would be another path, or none, once decoded."""
    from unicodedata import normalize

    slashes = text.count("/")
    form = text
    for _ in range(4):
        decoded = unquote(form)
        for candidate in (decoded, normalize("NFKC", decoded)):
            if candidate != text and (candidate.count("/") != slashes or _trouble(candidate)):
                return True
        if decoded == form:
            return False
        form = decoded
    return True


def _shown(raw: str) -> str:
    """Quote a path so that it stays one readable line."""
    cleaned = raw.encode("utf-8", "replace").decode()
    quoted = ascii(cleaned) if any(_unfit(character) for character in cleaned) else f'"{cleaned}"'
    return quoted if len(quoted) <= _SHOWN else quoted[:_SHOWN] + "..."
