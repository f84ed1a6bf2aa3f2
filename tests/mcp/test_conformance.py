"""The official conformance suite for clients, run against a client made of ours.

Not run: the scenarios of OAuth, which is not supported, and the defaults of elicitation, which is refused.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from typing import TYPE_CHECKING

import pytest

from tests.mcp.house import PEERS, ROOT
from tests.patience import PATIENCE
from tests.peers.aimock import missing_part, node_path
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from pathlib import Path

CHECKS = {
    "initialize": {"mcp-client-initialization"},
    "tools_call": {"tool-add-numbers"},
    "sse-retry": {
        "client-sse-graceful-reconnect",
        "client-sse-last-event-id",
    },  # the third is about time, which a busy machine has not
}


@parametrize_some(1, "scenario", sorted(CHECKS))
async def test_the_official_suite_is_content(scenario: str, tmp_path: Path) -> None:
    suite, node = PEERS / "conformance/dist/index.js", node_path()
    if (reason := missing_part()) or node is None or not suite.exists():
        told = reason or "the conformance suite is not installed: run tests/peers/install"
        pytest.fail(told) if os.environ.get("CI") else pytest.skip(told)
    command = f"{sys.executable} {ROOT / 'tests/mcp/conformance_client.py'}"
    process = await asyncio.create_subprocess_exec(
        node,
        str(suite),
        *("client", "--command", command, "--scenario", scenario, "--timeout", str(int(PATIENCE * 1000))),
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "NO_COLOR": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed = (await process.communicate())[0].decode()
    plain = re.sub(r"\x1b\[\d+m", "", printed)
    passed = {name for name, result in re.findall(r"\[([\w-]+) *\] (\w+)", plain) if result == "SUCCESS"}
    assert passed >= CHECKS[scenario], printed
