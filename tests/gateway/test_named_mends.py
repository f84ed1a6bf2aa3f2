"""Errors of commands name what is the matter and the command that mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gateway.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("resume", ("no gateway is running", "Start it: ", "homebody start")),
        ("memory search spare key", ("Put several words in quotation marks", "homebody memory search")),
        ("todo done 9", ("there is no item 9 in the list", "homebody todo list")),
    ],
)
def test_an_error_names_the_command_that_mends_it(
    command: str, told: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("HOMEBODY_HOME", str(home))
    home.mkdir(mode=0o700)
    (home / "homebody.yaml").write_text(f"agents: {{defaults: {{workspace: '{tmp_path / 'notes'}'}}}}\n")
    (home / "homebody.yaml").chmod(0o600)
    main(command.split())
    shown = capsys.readouterr().err
    for words in told:
        assert words in shown
