"""A gateway that is paused after crashes works for nothing while another one does, says so, and takes its part again by a command."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from tests.cluster.pair import LEASE, until

if TYPE_CHECKING:
    from tests.cluster.pair import Pair

pytestmark = [pytest.mark.postgres, pytest.mark.long]


def state(pair: Pair, name: str) -> str | None:
    gateways = pair.facts("kitchen", "cluster", "status")["gateways"]
    return next((str(one["state"]) for one in gateways if one["gateway"] == name and one["state"] != "away"), None)


def test_a_gateway_that_crashed_too_often_leaves_the_work_to_another_until_it_is_told_to_go_on(pair: Pair) -> None:
    pair.end("cellar")
    starts = pair.root / "state" / "gateways" / "cellar" / "starts.json"
    starts.write_text(json.dumps([(time.time(), False)] * 3))
    pair.start("cellar")
    until(lambda: state(pair, "cellar") == "resting")
    end = time.monotonic() + 2 * LEASE
    while time.monotonic() < end:
        assert set(pair.holders().values()) == {"kitchen"}
        time.sleep(0.5)
    said = pair.run("kitchen", "cluster", "status")
    assert "cellar (resting, since" in said
    assert "it crashed 3 times within 5 minutes; look at its log, then run: homebody resume" in said
    refused = pair.run("kitchen", "cluster", "move", "bob", "--to", "cellar", code=2)
    assert "the gateway cellar rests, and takes nothing: it crashed 3 times" in refused
    told = pair.run("kitchen", "status")
    assert "PAUSED: cellar: it crashed 3 times within 5 minutes" in told
    assert "Other gateways work for its agents meanwhile." in told
    found = pair.run("kitchen", "doctor", "--only", "cluster", code=0)
    assert "the gateway cellar rests" in found
    assert "Hello" in pair.run("kitchen", "agent", "--agent", "bob", "-m", "hello")
    assert "it was paused: cellar: it crashed 3 times" in pair.run("kitchen", "resume")
    pair.settle()
    assert state(pair, "cellar") == "working"
    assert "PAUSED" not in pair.run("kitchen", "status")
    assert "this gateway works again" in (pair.root / "cellar.log").read_text()
