"""The clock of one machine jumps by an hour, forward and back: its gateway gives everything up in order, and shares again afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.pair import NAMES, Pair, until

LIBRARY = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.long,
    pytest.mark.skipif(LIBRARY is None, reason="libfaketime is not installed (apt-get install libfaketime)"),
]


def test_a_gateway_whose_clock_jumps_gives_up_what_it_holds_until_it_is_right_again(url: str, tmp_path: Path) -> None:
    pair = Pair(tmp_path, url)
    pair.furnish()
    ahead = tmp_path / "ahead"
    ahead.write_text("+0\n")
    faked = {"LD_PRELOAD": str(LIBRARY), "FAKETIME_TIMESTAMP_FILE": str(ahead)}
    faked |= {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_NO_CACHE": "1"}
    with (tmp_path / "kitchen.log").open("ab") as log:  # a program of its own: what a fork loads is loaded already
        command = [sys.executable, "-m", "gateway", "gateway"]
        kitchen = subprocess.Popen(command, env=pair.env("kitchen") | faked, cwd=tmp_path, stdout=log, stderr=log)
    try:
        pair.start("cellar")
        until(lambda: set(pair.holders().values()) == set(NAMES))
        for jump, told in (("+3600", "ahead of"), ("-3600", "behind")):
            ahead.write_text(f"{jump}\n")
            until(lambda: set(pair.holders().values()) == {"cellar"})
            assert f"s {told} the database's" in pair.run("cellar", "cluster", "status")
            for agent in ("anna", "bob"):
                answer = pair.facts("cellar", "agent", "--agent", agent, "-m", f"the lamp of {agent} is lit")
                assert "lamp" in answer["reply"]
            ahead.write_text("+0\n")
            until(lambda: set(pair.holders().values()) == set(NAMES))
        log_of_kitchen = (tmp_path / "kitchen.log").read_text()
        assert log_of_kitchen.count("this gateway gives up what it holds and takes nothing") == 2
        assert "starts again" not in log_of_kitchen, "in order, and not because a lease was lost"
    finally:
        kitchen.terminate()
        kitchen.wait()
        for name in list(pair.running):
            pair.end(name)
