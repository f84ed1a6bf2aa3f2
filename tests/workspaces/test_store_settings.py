"""What ``workspaceStore`` refuses."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gateway.settings.workspace_store_settings import WorkspaceStoreSettings


@pytest.mark.parametrize(
    ("remote", "token", "refused"),
    [
        ("https://git.example/me/notes.git", "t", ""),
        ("http://127.0.0.1:3000/notes.git", "t", ""),
        ("http://git.example/notes.git", None, ""),
        ("http://git.example/notes.git", "t", "unencrypted"),
        ("https://me:secret@git.example/notes.git", None, "has a password"),
        ("git.example", None, "no address of a repository"),
        ("ext::sh -c id", None, "no address of a repository"),
    ],
)
def test_addresses(remote: str, token: str | None, refused: str) -> None:
    given = {"type": "git", "remote": remote, "token": token}
    if not refused:
        WorkspaceStoreSettings.model_validate(given)
        return
    with pytest.raises(ValidationError, match=refused):
        WorkspaceStoreSettings.model_validate(given)
