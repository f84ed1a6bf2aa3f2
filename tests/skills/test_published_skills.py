"""The 52 skills of another program, as they are published on npm (``tests/peers/install`` fetches them), are read as their authors mean."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent.models.token_estimate import Calibration, weigh
from gateway.skills.agent_skills import AgentSkills

if TYPE_CHECKING:
    from tests.skills.conftest import Shelf

PUBLISHED = Path(__file__).resolve().parents[2] / ".cache/skills/package/skills"
METADATA = re.compile(r"^metadata: (\{.*\})$", re.MULTILINE)


@pytest.fixture
def published() -> Path:
    if not PUBLISHED.is_dir():
        told = "published skills are not there: run tests/peers/install"
        pytest.fail(told) if os.environ.get("CI") else pytest.skip(told)
    return PUBLISHED


def test_published_skills_load_wait_for_a_yes_and_say_what_they_lack(published: Path, shelf: Shelf) -> None:
    shelf.said["skills"] = {"load": {"extraDirs": [str(published)]}}
    found = shelf.own()
    assert len(found) == 52
    broken = {name: one.reason for name, one in found.items() if one.state == "broken"}
    assert list(broken) == ["canvas"], broken
    assert "no front matter" in broken["canvas"]
    assert not (published / "canvas" / "SKILL.md").read_text().startswith("---")
    loaded = {name: one for name, one in found.items() if name != "canvas"}
    assert {one.state for one in loaded.values()} == {"unapproved"}
    for name in loaded:
        shelf.approve(name)
    judged = {name: one for name, one in shelf.own().items() if name != "canvas"}
    assert {one.state for one in judged.values()} <= {"ready", "needs"}
    lacking = 0
    for name, one in judged.items():
        meant = required(published / name)
        assert one.header is not None
        assert sorted(one.header.needs.bins) == sorted(meant.get("bins", [])), name
        assert sorted(one.header.needs.any_bins) == sorted(meant.get("anyBins", [])), name
        assert sorted(one.header.needs.env) == sorted(meant.get("env", [])), name
        for variable in meant.get("env", []):
            assert any(variable in lack.what for lack in one.missing), name
            lacking += 1
        assert (one.state == "needs") == bool(one.missing and one.hint)
    assert lacking > 5, "variables are required, and nothing of the environment is taken for them"
    assert sum(bool(required(published / name)) for name in judged) > 30
    listing = AgentSkills(shelf.catalog, shelf).listing(200_000)
    assert Calibration().apply(weigh(listing)) <= 1000
    assert all(name in listing for name, one in judged.items() if one.state == "ready")


def required(folder: Path) -> dict[str, Any]:
    """What the metadata of a skill says that it requires, read without the product."""
    match = METADATA.search((folder / "SKILL.md").read_text())
    return dict(json.loads(match[1]).get("clawdbot", {}).get("requires", {})) if match else {}
