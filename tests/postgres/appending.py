"""A program that appends numbered entries to a transcript in PostgreSQL, and says which are stored; it is killed at some moment."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agent.transcript.transcript import Transcript
from gateway.base.clock import SystemClock
from gateway.base.paths import Paths
from gateway.settings.storage_settings import StorageSettings
from gateway.storage.open_storage import open_storage
from tests.sessions.test_either_store import record, said


async def main(url: str, home: str) -> None:
    storage = await open_storage(Paths(Path(home)), StorageSettings.model_validate({"url": url}), SystemClock())
    store = storage.sessions("main")
    await store.load()
    transcript = await Transcript.load(store.transcript("s-main"), SystemClock())
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for number in range(len(transcript.entries), 1000):
        await transcript.append("t", said(str(number)))
        await store.put(record(turns=number))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
