"""Every state that was ever stored is read by this version: restored, loaded, and lived in."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from gateway.backup.age_encryption import Keys
from gateway.upgrade.rehearsal import rehearse
from tests.upgrade.make_state import STATES, facts_of, homebody

if TYPE_CHECKING:
    from pathlib import Path

NAMES = sorted(path.name.removesuffix(".tar.gz") for path in STATES.glob("*.tar.gz"))


def test_there_are_states() -> None:
    assert "2026-11" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_rehearsal_on_a_stored_state_finds_no_problem(name: str, tmp_path: Path) -> None:
    facts = json.loads((STATES / f"{name}.json").read_text())
    result = rehearse(STATES / f"{name}.tar.gz", Keys(), tmp_path, env=os.environ, now=datetime.now(UTC))
    assert result.problems == []
    assert result.jobs == len(facts["jobs"])
    assert result.sessions >= len(facts["sessions"])
    (ledger,) = [one for one in result.files if one["kind"] == "ledger"]
    assert ledger["version"] < ledger["known"], "it is shown as it was, not as the rehearsal left it"
    assert ledger["becomes"] == "migrated"
    assert {one["becomes"] for one in result.files} <= {"read", "migrated"}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_stored_state_is_lived_in_with_all_that_was_in_it(name: str, tmp_path: Path) -> None:
    wanted = json.loads((STATES / f"{name}.json").read_text())
    homebody(tmp_path, "backup", "restore", str(STATES / f"{name}.tar.gz"))
    found = facts_of(tmp_path)
    assert found.pop("changes") >= wanted.pop("changes"), "changes of notes; since then the files of prompts have them, too"
    assert found == wanted
    assert "blue pot" in homebody(tmp_path, "agent", "-m", "where is the spare key?")
    assert "plumber" in homebody(tmp_path, "todo", "list")
