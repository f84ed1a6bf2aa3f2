"""Collects all known secrets: from the settings, the files they name, the HTTP token, key files and the environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from gateway.base.api_token import FILE_NAME
from gateway.base.paths import Paths
from gateway.config.secrets import passwords_in, secrets_of
from gateway.logs.redaction import secrets_in
from gateway.models.key_profiles import Profiles
from gateway.settings.root import Settings

_AT_MOST = 65_536
_SUFFIX = "_file"


def known_secrets(settings: Settings, paths: Paths, env: Mapping[str, str]) -> list[str]:
    """Return them all. Unreadable files are skipped; whoever needs them reports the error."""
    files = [paths.state / FILE_NAME, *_files_of(settings.channels)]
    return [
        *secrets_of(settings),
        *passwords_in(settings.model_dump_json()),
        *secrets_in(env),
        *Profiles(paths, settings.auth).secrets(settings.agent_ids),
        *(secret for file in files if (secret := _content(file))),
    ]


def _files_of(value: Any) -> Iterator[Path]:
    """Yield the files that a section names under keys such as ``tokenFile``, wherever they stand."""
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            found = getattr(value, name)
            if name.endswith(_SUFFIX) and isinstance(found, Path):
                yield found.expanduser()
            else:
                yield from _files_of(found)
    elif isinstance(value, Mapping):
        for child in value.values():
            yield from _files_of(child)
    elif isinstance(value, list | tuple):
        for child in value:
            yield from _files_of(child)


def _content(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(_AT_MOST).decode("utf-8", "replace").strip()
    except OSError:
        return ""
