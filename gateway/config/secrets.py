"""Secrets: resolve references (``env:NAME``, ``file:PATH``, or the value itself) and mask values for display."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pydantic import BaseModel, SecretStr

from gateway.base.errors import access_hint

MASK = "********"
NAMES = re.compile(r"(?i)(token|secret|password|passphrase|credentials?|(api|access|private|signing)[-_]?key)$")
"""Names of keys that hold secrets in the settings of other packages, whose models are not known here."""
_MAX_BYTES = 65_536
_PASSWORD = re.compile(r"(?i)([a-z][a-z0-9+.-]*://[^\s/:@\"]*):([^\s/@\"]+)@")


class SecretMissing(LookupError):
    """Raised for a reference to a missing variable or file. ``hint`` says what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def mask_passwords(value: Any) -> Any:
    """Return a copy of plain values with passwords in URLs, as in ``http://ann:PASSWORD@host``, masked."""
    if isinstance(value, str):
        return _PASSWORD.sub(rf"\1:{MASK}@", value)
    if isinstance(value, Mapping):
        return {key: mask_passwords(one) for key, one in value.items()}
    return [mask_passwords(one) for one in value] if isinstance(value, list | tuple) else value


def passwords_in(text: str) -> Iterator[str]:
    """Yield the passwords of URLs in a text, as written and percent-decoded."""
    for _, password in _PASSWORD.findall(text):
        yield password
        yield unquote(password)


def resolve(reference: str, env: Mapping[str, str], beside: Path) -> SecretStr:
    """Return the secret of a reference; a relative ``file:`` path starts at ``beside``. Raises SecretMissing."""
    kind, _, name = reference.partition(":")
    if kind == "env" and name:
        if not env.get(name):
            raise SecretMissing(
                f"the environment variable {name} is not set", f"Set it where the gateway starts: export {name}=..."
            )
        return SecretStr(env[name])
    if kind == "file" and name:
        return SecretStr(_read(beside / Path(name).expanduser()))
    return SecretStr(reference)


def _read(path: Path) -> str:
    try:
        if not path.is_file():
            raise SecretMissing(f"there is no file {path}", "Put the secret, and nothing else, into that file (chmod 600).")
        with path.open("rb") as opened:
            value = opened.read(_MAX_BYTES).decode().strip()
    except OSError as error:
        hint = access_hint(path, "u+r") if error.errno == errno.EACCES else "Check that file."
        raise SecretMissing(f"{path} cannot be read: {error.strerror}", hint) from error
    except UnicodeDecodeError as error:
        raise SecretMissing(f"{path} is not UTF-8 text", "Put the secret, and nothing else, into that file.") from error
    if not value:
        raise SecretMissing(f"{path} is empty", "Put the secret, and nothing else, into that file (chmod 600).")
    return value


def secrets_of(value: Any) -> Iterator[str]:
    """Yield every secret that a section holds, wherever it stands."""
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from secrets_of(getattr(value, name))
    elif isinstance(value, Mapping):
        for child in value.values():
            yield from secrets_of(child)
    elif isinstance(value, list | tuple | set | frozenset):
        for child in value:
            yield from secrets_of(child)


def revealed(value: Any) -> Any:
    """Return plain values with their secrets unmasked, as another package needs them."""
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Mapping):
        return {key: revealed(child) for key, child in value.items()}
    return [revealed(child) for child in value] if isinstance(value, list) else value


def masked(value: Any) -> Any:
    """Return settings as plain JSON values with every secret masked."""
    if isinstance(value, SecretStr):
        return MASK
    if isinstance(value, BaseModel):
        return {info.alias or name: masked(getattr(value, name)) for name, info in type(value).model_fields.items()}
    if isinstance(value, Mapping):
        return {str(key): masked(child) for key, child in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [masked(child) for child in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
