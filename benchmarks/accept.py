"""How long a message takes to be durable: one at a time, on the disk of the temporary folder. Prints p50 and p99 in milliseconds."""

import asyncio
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from gateway.base.clock import SystemClock
from gateway.ledger.rows import Arrival
from gateway.ledger.sqlite import SqliteLedger

COUNT = 2000


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledger = await SqliteLedger.open(Path(folder) / "ledger.sqlite", SystemClock())
        took = []
        for number in range(COUNT):
            arrival = Arrival(
                key=f"u:{number}",
                alias=f"m:{number}",
                conversation="telegram:default:direct:1",
                session="s",
                sender="1",
                payload="x" * 1000,
                received_at=datetime.now(UTC),
            )
            began = time.perf_counter()
            await ledger.inbox.accept("telegram:default", [arrival])
            took.append(1000 * (time.perf_counter() - began))
        await ledger.close()
    cuts = statistics.quantiles(took, n=100)
    print(f"durable accept of {COUNT} messages: p50 {cuts[49]:.2f} ms, p99 {cuts[98]:.2f} ms, longest {max(took):.1f} ms")


asyncio.run(main())
