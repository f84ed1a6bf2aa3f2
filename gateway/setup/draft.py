"""The settings and keys that setup is about to write, complete and checked before a file is touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from agent.models.catalog.provider_keys import Key
from gateway.base.errors import SettingsError
from gateway.base.paths import Paths
from gateway.config.document import Document, read_document, read_text
from gateway.config.edit import with_value
from gateway.config.effective import path_in_file
from gateway.config.load import check
from gateway.config.settings_file import change
from gateway.config.syntax_tree import KeyPath, dotted_key, plain
from gateway.models.key_profiles import Profile, Profiles
from gateway.settings.root import Settings

_HIDDEN = "(hidden)"


class Draft:
    """Values by key and keys by provider, on top of what the files hold now."""

    def __init__(self, paths: Paths, env: Mapping[str, str]) -> None:
        """Raises SettingsError where the present settings cannot be used."""
        self.paths = paths
        self.env = env
        self.file = paths.config_file()
        self._values: dict[KeyPath, Any] = {}
        self._secret: set[KeyPath] = set()
        self._keys: dict[str, Profile] = {}
        self._settings = self._checked()

    @property
    def settings(self) -> Settings:
        """The settings as they will be."""
        return self._settings

    @property
    def profiles(self) -> Profiles:
        """The saved keys as they will be."""
        return _WithNewKeys(self.paths, self._settings, tuple(self._keys.values()))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be written."""
        return not self._values and not self._keys

    def put(self, key: str, value: Any, *, secret: bool = False) -> None:
        """Set a dotted key. Raises SettingsError, and keeps what was, if the result would not be valid."""
        path: KeyPath = tuple(key.split("."))
        before = dict(self._values)
        self._values[path] = value
        if secret:
            self._secret.add(path)
        try:
            self._settings = self._checked()
        except SettingsError:
            self._values = before
            raise

    def drop(self, *keys: str) -> None:
        """Take back keys that were put."""
        for key in keys:
            self._values.pop(tuple(key.split(".")), None)
        self._settings = self._checked()

    def put_key(self, provider: str, secret: str) -> None:
        """Save a key of a model provider."""
        self._keys[provider] = Profile(f"{provider}:default", provider, "api_key", secret)

    def drop_key(self, provider: str) -> None:
        """Take back a key that did not work."""
        self._keys.pop(provider, None)

    def lines(self) -> list[str]:
        """Return what will be written and where, without secrets."""
        lines = [f"write {self.file}"] if self._values else []
        lines += [f"  {dotted_key(path)}: {_HIDDEN if path in self._secret else value}" for path, value in self._values.items()]
        lines += [f"write {self.profiles.file().path}"] if self._keys else []
        return lines + [f"  the key of {provider} {_HIDDEN}" for provider in self._keys]

    def write(self, now: datetime) -> Sequence[Path]:
        """Write keys, then settings; each file is replaced as a whole. Returns the files. Raises HomebodyError."""
        written: list[Path] = []
        if self._keys:
            self.paths.prepare()
            file = Profiles(self.paths, self._settings.auth).file()
            for profile in self._keys.values():
                file.put(profile)
            written.append(file.path)
        if self._values:
            self.paths.prepare()
            written.append(change(self.paths, self.env, now, self._edited).file)
        return written

    def _edited(self, document: Document) -> str:
        for path, value in self._values.items():
            document = read_document(with_value(document, path_in_file(plain(document.root), path), value), document.file)
        return document.text

    def _checked(self) -> Settings:
        try:
            text = read_text(self.file).replace("\r\n", "\n")
        except FileNotFoundError:
            text = ""
        checked = check(self._edited(read_document(text, str(self.file))), self.file, self.env, self.paths)
        if checked.settings is None or checked.problems:
            raise SettingsError(checked.problems, where=str(self.file), hint="Nothing was written.")
        return checked.settings.of_profile(self.paths.profile)


class _WithNewKeys(Profiles):
    """The saved keys, with those that are not saved yet before them."""

    def __init__(self, paths: Paths, settings: Settings, new: Sequence[Profile]) -> None:
        super().__init__(paths, settings.auth)
        self._new = new

    def keys(self, agent: str, provider: str) -> list[Key]:
        """See ``Profiles.keys``."""
        new = [Key(f"profile {one.id}", "profile", one.secret) for one in self._new if one.provider == provider]
        return new + [key for key in super().keys(agent, provider) if not any(one.label == key.label for one in new)]
