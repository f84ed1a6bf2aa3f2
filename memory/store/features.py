"""Which parts of SQLite and of the machine the index can use, and in what order they are tried."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import apsw

    from memory.settings import VectorStoreSettings


@dataclass(frozen=True, slots=True)
class AllowedFeatures:
    """The optional parts that may be used where they are there; tests and cautious owners leave some out."""

    sqlite_vec: bool = True
    numpy: bool = True
    fts5: bool = True


@dataclass(frozen=True, slots=True)
class Features:
    """What is used. ``vectors`` is "vec0", else "numpy" (over a plain table), else "none"; ``note`` tells why it is not the best."""

    vectors: Literal["vec0", "numpy", "none"]
    keywords: bool
    scan: bool
    sqlite: str
    note: str = ""


def detect_features(connection: apsw.Connection, settings: VectorStoreSettings, parts: AllowedFeatures) -> Features:
    """Load sqlite-vec into ``connection`` if it may and can be, and say what the index is to use."""
    import apsw

    numpy = parts.numpy and importlib.util.find_spec("numpy") is not None
    note = _load_vec(connection, settings) if settings.enabled and parts.sqlite_vec else "sqlite-vec is switched off"
    vectors: Literal["vec0", "numpy", "none"] = "none"
    if not note:
        vectors = "vec0"
    elif numpy:
        vectors, note = "numpy", f"{note}; vectors are scanned with numpy"
    else:
        note = f"{note}, and numpy is missing: keywords only"
    keywords = parts.fts5 and "ENABLE_FTS5" in apsw.compile_options
    if not keywords:
        note = f"{note}; " * bool(note) + "this SQLite has no FTS5: vectors only"
    return Features(vectors, keywords, numpy, f"apsw {apsw.apsw_version()}, SQLite {apsw.sqlite_lib_version()}", note)


def _load_vec(connection: apsw.Connection, settings: VectorStoreSettings) -> str:
    """Load the extension; return why it could not be, or an empty string."""
    import apsw

    try:
        path = settings.extension_path
        if path is None:
            path = _bundled_extension()
        connection.enable_load_extension(True)  # noqa: FBT003 - apsw takes it by position only
        try:
            connection.load_extension(path)
        finally:
            connection.enable_load_extension(False)  # noqa: FBT003 - the same
        connection.execute("SELECT vec_version()").get  # noqa: B018 - fails if that library is something else
    except ImportError:
        return "sqlite-vec is not installed"
    except apsw.Error as error:
        return f"sqlite-vec cannot be loaded ({error})"
    return ""


def _bundled_extension() -> str:
    """Where the sqlite-vec package has its library. Importing the package to ask it would import numpy, which most houses never use.

    Raises ImportError when the package is not installed.
    """
    found = importlib.util.find_spec("sqlite_vec")
    if found is None or found.origin is None:
        raise ImportError("sqlite_vec")
    return str(Path(found.origin).parent / "vec0")
