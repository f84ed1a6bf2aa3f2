"""What the doctor says of gateways that cannot work."""

from __future__ import annotations

from typing import Any

from gateway.cluster.overview import state_of
from gateway.doctor.cluster_check import findings_of


def facts(**gateways: tuple[str, str]) -> dict[str, Any]:
    listed = [{"gateway": name, "state": state, "trouble": trouble or None} for name, (state, trouble) in gateways.items()]
    return {"gateways": listed, "held": [], "settingsDiffer": False, "differing": [], "sameName": []}


def test_a_gateway_that_rests_is_a_warning_and_one_whose_work_nobody_takes_an_error() -> None:
    full = "no space is left"
    [rests] = findings_of(facts(kitchen=("working", ""), cellar=("resting", full)), [])
    assert (rests.level, rests.what) == ("warning", f"the gateway cellar rests: {full}")
    assert "HOMEBODY_GATEWAY=cellar homebody doctor" in rests.mend
    [paused] = findings_of(facts(cellar=("paused", full)), [])
    assert (paused.level, paused.what) == ("error", f"the gateway cellar is paused: {full}")
    [fine] = findings_of(facts(kitchen=("working", ""), cellar=("away", full)), [])
    assert fine.level == "ok"


def test_what_a_gateway_does_follows_from_its_row() -> None:
    assert state_of(alive=False, leaving=True, trouble="x") == "away"
    assert state_of(alive=True, leaving=True, trouble="x") == "resting"
    assert state_of(alive=True, leaving=True, trouble="") == "leaving"
    assert state_of(alive=True, leaving=False, trouble="x") == "paused"
    assert state_of(alive=True, leaving=False, trouble="") == "working"
