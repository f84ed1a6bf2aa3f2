"""What a backup of one home is made from, by its paths and settings: where things are, who may open it, and which secrets are left out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gateway.backup.age_encryption import Lock, key_file, own_recipient
from gateway.backup.backup_folder import folder_of
from gateway.backup.contents import Sources
from gateway.backup.manifest import HOME
from gateway.backup.outside_files import named_files, place_of, texts_in
from gateway.base.errors import HomebodyError
from gateway.base.paths import YAML_NAME, Paths
from gateway.config.document import read_document, read_text
from gateway.config.edit import with_value
from gateway.config.load import Loaded
from gateway.config.secrets import passwords_in, secrets_of

REMOVED: Final = "env:REMOVED_FROM_BACKUP"
"""What stands in settings in place of a secret that was left out."""
_LONG: Final = 8


def sources_of(paths: Paths, loaded: Loaded, *, without_secrets: bool = False) -> Sources:
    """Return where everything is."""
    settings = loaded.settings
    return Sources(
        home=paths.home,
        profile=paths.profile,
        workspaces={agent: settings.agent(agent).workspace for agent in settings.agent_ids},
        secret_files=frozenset(_named(paths, loaded).values()),
        without_secrets=without_secrets,
        apart=(folder_of(paths, settings.backup),),
    )


def outside_files(paths: Paths, loaded: Loaded, sources: Sources) -> dict[str, Path]:
    """Return the files with secrets that lie outside of the home and the workspaces, by what the settings call them."""
    inside = (sources.home, *sources.workspaces.values())
    named = _named(paths, loaded).items()
    return {name: path for name, path in named if not any(path.is_relative_to(folder) for folder in inside)}


def _named(paths: Paths, loaded: Loaded) -> dict[str, Path]:
    beside = loaded.source.parent if loaded.source else paths.home
    return {name: place_of(name, beside) for _, name in named_files(loaded.given)}


def lock_of(paths: Paths, recipients: Sequence[str], *, passphrase: str, without_secrets: bool) -> tuple[Lock, bool]:
    """Return how a backup is encrypted, and whether a key was made for it just now. Blocking."""
    if passphrase:
        return Lock(passphrase=passphrase), False
    if without_secrets:
        return Lock(), False
    if recipients:
        return Lock(recipients=tuple(recipients)), False
    recipient, fresh = own_recipient(paths)
    return Lock(recipients=(recipient,)), fresh


def can_open(paths: Paths, lock: Lock) -> bool:
    """Return whether what is encrypted so can be opened on this machine without asking anybody."""
    if lock.passphrase or not lock.recipients:
        return True
    return key_file(paths).exists() and own_recipient(paths)[0] in lock.recipients


def settings_to_store(paths: Paths, loaded: Loaded, *, without_secrets: bool) -> tuple[str, bytes] | None:
    """Return the settings file by its path in the backup, where it cannot be copied as it is: from elsewhere, or with secrets in it.

    Raises HomebodyError for secrets that cannot be taken out.
    """
    if loaded.source is None or (not without_secrets and loaded.source in paths.config_names()):
        return None
    text = read_text(loaded.source)
    if without_secrets:
        text = _without_secrets(text, loaded)
    name = loaded.source.name if loaded.source in paths.config_names() else _name_for(loaded.source)
    return f"{HOME}/{name}", text.encode()


def _name_for(source: Path) -> str:
    return "homebody.json" if source.suffix in {".json", ".json5"} else YAML_NAME


def _without_secrets(text: str, loaded: Loaded) -> str:
    assert loaded.source is not None
    known = {secret for secret in secrets_of(loaded.settings) if secret}
    for path, value in list(texts_in(loaded.given)):
        if value in known or (re.search(r"://", value) and any(passwords_in(value))):
            text = with_value(read_document(text, str(loaded.source)), path, REMOVED)
    left = [secret for secret in known if len(secret) >= _LONG and secret in text]
    if left:
        hint = "Move the secrets to the environment (env:NAME) or to files (file:PATH), or make an encrypted backup."
        raise HomebodyError("a secret in the settings cannot be left out", where=str(loaded.source), hint=hint)
    return text
