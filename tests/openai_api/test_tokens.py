"""Tokens of programs: the file that keeps them, and the commands."""

from __future__ import annotations

import json
import os
import stat
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from gateway.base.client_tokens import PREFIX, ClientTokens
from gateway.base.errors import StorageFailed, UsageError
from tests import programs

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def homebody(home: Path, *arguments: str, code: int = 0) -> Any:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "HOMEBODY_HOME": str(home / "h")}
    done = programs.run([sys.executable, "-m", "gateway", *arguments], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    told = done.stdout if code == 0 else done.stderr
    return json.loads(told) if "--json" in arguments else told


def test_a_token_is_found_by_its_secret_until_it_is_revoked(tmp_path: Path) -> None:
    there, elsewhere = ClientTokens(tmp_path), ClientTokens(tmp_path)
    made, secret = there.add("app", role="guest", guest="anna", agent="work", now=NOW)
    assert secret.startswith(PREFIX)
    assert elsewhere.find(secret.encode()) == made
    assert stat.S_IMODE(there.path.stat().st_mode) == 0o600
    assert secret not in there.path.read_text()
    _, fresh = there.rotate("app")
    assert elsewhere.find(secret.encode()) is None
    found = elsewhere.find(fresh.encode())
    assert found is not None
    assert found.id == made.id
    there.revoke("app")
    assert elsewhere.find(fresh.encode()) is None
    assert elsewhere.find(b"") is None


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    tokens = ClientTokens(tmp_path)
    tokens.add("app", role="owner", guest="", agent="", now=NOW)
    for name, guest in (("app", ""), ("", ""), ("App", ""), ("a b", ""), ("../x", ""), ("other", "owner"), ("other", "An na")):
        with pytest.raises(UsageError):
            tokens.add(name, role="guest" if guest else "owner", guest=guest, agent="", now=NOW)
    with pytest.raises(UsageError, match="no token"):
        tokens.revoke("other")
    with pytest.raises(UsageError, match="no token"):
        tokens.rotate("other")


def test_a_broken_file_lets_nobody_in_and_is_not_written_over(tmp_path: Path) -> None:
    tokens = ClientTokens(tmp_path)
    _, secret = tokens.add("app", role="owner", guest="", agent="", now=NOW)
    whole = tokens.path.read_text()
    for broken in ("", "{", "[]", '{"tokens": [1]}', whole.replace('"owner"', '"admin"'), whole.replace('"owner"', '"guest"')):
        tokens.path.write_text(broken)
        assert ClientTokens(tmp_path).find(secret.encode()) is None
        with pytest.raises(StorageFailed):
            tokens.add("other", role="owner", guest="", agent="", now=NOW)
        assert tokens.path.read_text() == broken


def test_the_commands_make_list_and_revoke(tmp_path: Path) -> None:
    told = homebody(tmp_path, "api", "tokens", "add", "webui", "--owner")
    assert "shown only now" in told
    assert "Switch it on: homebody config set gateway.openai.enabled true" in told
    homebody(tmp_path, "config", "set", "gateway.openai.enabled", "true")
    made = homebody(tmp_path, "api", "tokens", "add", "tablet", "--guest", "anna", "--agent", "main", "--json")
    assert (made["role"], made["guest"], made["agent"]) == ("guest", "anna", "main")
    assert made["token"].startswith(PREFIX)
    assert made["baseUrl"] == "http://127.0.0.1:18790/v1"
    listed = homebody(tmp_path, "api", "tokens", "list", "--json")
    assert listed["enabled"] is True
    assert [one["name"] for one in listed["tokens"]] == ["tablet", "webui"]
    assert "token" not in listed["tokens"][0]
    assert "hash" not in listed["tokens"][0]
    assert "guest anna" in homebody(tmp_path, "api", "tokens", "list")
    assert homebody(tmp_path, "api", "tokens", "rotate", "tablet", "--json")["token"] != made["token"]
    assert "revoked" in homebody(tmp_path, "api", "tokens", "revoke", "tablet")
    for wrong in (
        ("add", "x"),
        ("add", "x", "--owner", "--guest", "a"),
        ("add", "x", "--owner", "--agent", "none"),
        ("revoke", "tablet"),
    ):
        assert homebody(tmp_path, "api", "tokens", *wrong, "--json", code=2)["error"]
