"""The pytest plugin through which channels of other packages are checked."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from channels.testing import CHECKS, Nonconforming
from channels.testing.conformance import Conformance, rules_named
from tests.channels.paper import Paper

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@asynccontextmanager
async def paper(flaw: str = "", lacks: Any = ()) -> AsyncIterator[Paper]:
    peer = Paper(flaw)
    peer.lacks = lacks
    yield peer


def rule(name: str) -> Any:
    [found] = rules_named([name])
    return found


def test_it_imports_nothing_that_pytest_has_not() -> None:
    """It is loaded at every start of pytest in an environment with Homebody."""
    code = (
        "import sys, pytest; had = set(sys.modules); import channels.conformance_plugin; print(*sorted(set(sys.modules) - had))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert told == ["channels", "channels.conformance_plugin"]


@pytest.mark.channel_conformance("keeps_the_order", "sends_in_order")
async def test_the_marker_names_the_rules(channel_conformance: Conformance) -> None:
    await channel_conformance(paper("never cuts"))
    assert channel_conformance.rule.__name__ in {"keeps_the_order", "sends_in_order"}


def test_a_rule_that_there_is_not_is_named() -> None:
    with pytest.raises(ValueError, match="there is no rule sends_in_odor"):
        rules_named(["sends_in_odor"])
    assert rules_named([]) == [*CHECKS]


async def test_a_flaw_fails_and_is_reported(tmp_path: Path) -> None:
    report = tmp_path / "report"
    with pytest.raises(Nonconforming):
        await Conformance(rule("cuts_what_is_too_long"), report=str(report))(paper("never cuts"))
    await Conformance(rule("cuts_what_is_too_long"), report=str(report))(paper())
    assert [json.loads(line)["result"] for line in report.read_text().splitlines()] == ["failed", "failed", "held"]


async def test_what_the_platform_makes_impossible_is_skipped_with_the_peers_reason(tmp_path: Path) -> None:
    report = tmp_path / "report"
    for lacks, why in ((("shows_typing",), "shows no typing"), ({"shows_typing": "letters are slow"}, "letters are slow")):
        with pytest.raises(pytest.skip.Exception, match=why):
            await Conformance(rule("shows_typing"), report=str(report))(paper(lacks=lacks))
    assert json.loads(report.read_text().splitlines()[1]) == {
        "channel": "paper",
        "rule": "shows_typing",
        "result": "lacks",
        "why": "letters are slow",
    }


async def test_a_rule_that_every_platform_makes_possible_is_not_skipped() -> None:
    with pytest.raises(Nonconforming, match="only these rules in"):
        await Conformance(rule("keeps_the_order"))(paper(lacks=("keeps_the_order",)))
