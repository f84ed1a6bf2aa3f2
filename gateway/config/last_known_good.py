"""Last known good settings: a copy that the gateway falls back to when the settings file is no longer valid."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from gateway.base.atomic_file import write_atomically
from gateway.base.errors import SettingsError
from gateway.base.paths import Paths
from gateway.config.document import read_text
from gateway.config.load import Loaded, check, load

NAME = "settings.last-good"


def load_or_last_known_good(paths: Paths, env: Mapping[str, str]) -> tuple[Loaded, str | None]:
    """Load the settings, or those of the last good start together with a notice for the owner.

    Raises:
        SettingsError: the file is not valid, and there is no valid copy.
    """
    source = paths.config_file()
    kept = _place(source, paths)
    try:
        loaded = load(paths, env)
    except SettingsError as wrong:
        try:
            found = check(read_text(kept), source, env, paths)
        except (OSError, SettingsError):
            raise wrong from None
        if found.settings is None or found.problems:
            raise
        first = wrong.problems[0].as_text().splitlines()[0] if wrong.problems else str(wrong)
        notice = (
            f"{source} cannot be used ({len(wrong.problems)} errors; the first: {first}). I am running with the settings of the last "
            "good start. Fix the file (`homebody config validate` lists its errors) and restart me."
        )
        return Loaded(found.settings.of_profile(paths.profile), found.warnings, source, found.given), notice
    save_copy(loaded, paths)
    return loaded, None


def save_copy(loaded: Loaded, paths: Paths) -> None:
    """Copy the file, readable by its owner alone. A failure to copy is ignored: only the fallback is lost."""
    if loaded.source is None:
        return
    kept = _place(loaded.source, paths)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        text = loaded.source.read_bytes()
        if not kept.exists() or kept.read_bytes() != text:
            write_atomically(kept, text.decode())


def _place(source: Path, paths: Paths) -> Path:
    return paths.state / f"{NAME}{source.suffix}"
