"""Commands about a cluster in a home that is part of none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gateway.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("words", [("status",), ("rotate",), ("move", "main", "--to", "cellar")])
def test_without_a_database_it_is_told_that_there_is_no_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr("gateway.ledger.open_ledger.find_spec", lambda _name: None)
    monkeypatch.setenv("HOMEBODY_HOME", str(tmp_path))
    assert main(["cluster", *words, "--json"]) == 2
    told = json.loads(capsys.readouterr().err)
    assert told["error"] == "there is no cluster: no database is set in storage.url"
    assert "homebody status" in told["mend"]
    assert "homebody config set storage.url postgresql://" in told["mend"], "with a value"
