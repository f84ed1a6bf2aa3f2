"""The kill loop of ``tests/fire/loop.py``, with a real homeserver (Synapse) as the platform, in rooms without and with encryption.

``make matrix-kills ARGS="--kills 240"`` installs Synapse, draws so many runs and prints the table. Everything that was said is to be
answered once: the homeserver takes a message with the same transaction id once, so that nothing needs a mark.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.fire.loop import main
from tests.matrix import house
from tests.matrix.synapse import Synapse, installed


async def on_synapse() -> int:
    if not installed():
        sys.exit("Synapse is not installed: sh tests/matrix/install")
    folder = Path(tempfile.mkdtemp(prefix="homebody-homeserver-"))
    try:
        async with Synapse(folder) as server:
            house.use(server)
            return await main(house.NAMES, again="make matrix-kills")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(asyncio.run(on_synapse()))
