"""What is not confined is asked about, whatever rules allow."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from agent.tools.protocol import Act
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.paths import Paths
from gateway.settings.root import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from agent.loop.gate import Verdict


async def judged(place: Path, settings: dict, *, tried: bool = True) -> Verdict:
    said = {"agents": {"defaults": {"workspace": str(place / "workspace")}}} | settings
    looking = Act(kind="exec", summary="run ls", command="ls", argv=("ls",), cwd=str(place / "workspace"))
    deps = Dependencies(settings=Settings.model_validate(said), paths=Paths(place / "home"), env={})
    house = await Gateway.open(deps)
    try:
        if tried:
            await house.sandbox.standing("main")
        return await asyncio.to_thread(house.rules.judge, "main", "owner", frozenset(), looking, tool="exec")
    finally:
        await house.close()


@pytest.mark.usefixtures("confining")
async def test_a_confined_command_that_only_looks_is_not_asked_about(tmp_path: Path) -> None:
    verdict = await judged(tmp_path, {})
    assert verdict.decision == "allow", verdict.reason


@pytest.mark.parametrize(
    "settings", [{"tools": {"exec": {"sandbox": "off"}}}, {"agents": {"defaults": {"sandbox": {"mode": "non-main"}}}}]
)
async def test_sec_54_an_unconfined_command_is_asked_about_whatever_rules_allow(tmp_path: Path, settings: dict) -> None:
    verdict = await judged(tmp_path, settings)
    assert verdict.decision == "ask"
    assert "not confined" in verdict.reason


async def test_sec_54_nothing_counts_as_confined_before_it_was_tried(tmp_path: Path) -> None:
    assert (await judged(tmp_path, {}, tried=False)).decision == "ask"


async def test_sec_54_a_means_that_does_not_work_confines_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert (await judged(tmp_path, {"tools": {"exec": {"sandbox": "bwrap"}}})).decision == "ask"
