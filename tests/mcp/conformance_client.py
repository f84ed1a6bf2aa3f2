"""The client that the official conformance suite tests: our servers and tools, given an address.

``conformance_client.py URL`` with ``MCP_CONFORMANCE_SCENARIO``: connect, list the tools, and call those that the scenario has.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.mcp.house import servers  # noqa: E402 -- found only now

ARGUMENTS = {"mcp_peer_add_numbers": {"a": 5, "b": 3}}


async def main(url: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        async with servers(Path(folder), {"peer": {"url": url, "timeoutSec": 20}}, pin=False) as house:
            await house.servers.test("peer")
            outcomes = [await house.call(name, ARGUMENTS.get(name)) for name in house.tools()]
    for one in outcomes:
        sys.stdout.write(one.text + "\n")
    return int(any(one.is_error for one in outcomes))


sys.exit(asyncio.run(main(sys.argv[-1])))
