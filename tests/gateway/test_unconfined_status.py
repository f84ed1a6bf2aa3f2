"""Whoever asks how the gateway is hears how commands are confined, where it could be better."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from gateway.cli.status import confinement_lines

if TYPE_CHECKING:
    from pathlib import Path

    from tests.gateway.conftest import Street

Make = Callable[..., "Street"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sandbox": "off"}, "Commands are not confined, so I ask about every one"),
        ({"sandbox": "bwrap"}, "Commands cannot run"),
        ({}, ""),
    ],
)
async def test_status_says_how_commands_are_confined_where_it_could_be_better(
    street: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict, said: str
) -> None:
    if not said and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    if settings.get("sandbox") == "bwrap":
        (tmp_path / "bin").mkdir()
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    s = street(tools={"exec": settings})
    async with s.house() as (house, talk):
        await house.sandbox.standing("main")
        status = (await talk.ask("/status"))["reply"]
        facts = await house.status.status()
    assert said in status
    assert ("ommands are" in status or "ommands cannot" in status) == bool(said)
    assert facts["commands"]["main"]["rung"] == ("bwrap" if not said else "off")


def test_the_status_of_the_command_line_says_it_too() -> None:
    reason = {"reason": "bubblewrap is not installed", "hint": "Install it: sudo apt install bubblewrap"}
    assert confinement_lines(None) == []
    assert confinement_lines({"rung": "bwrap", "usable": True, "reason": "", "hint": ""}) == []
    shown = confinement_lines({"rung": "off", "usable": True} | reason)
    assert "NOT CONFINED" in shown[0]
    assert "apt install" in shown[1]
    assert "Landlock" in confinement_lines({"rung": "landlock", "usable": True} | reason)[0]
    assert "not run at all" in confinement_lines({"rung": "off", "usable": False} | reason)[0]
