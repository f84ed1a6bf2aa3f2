"""Reads documents for the tool ``read``, each part in a confined process with limits: a hostile file costs a process and nothing else."""

from __future__ import annotations

import asyncio
import json
from typing import Final

from agent.tools.child_process import Spawn, answer_of_module
from agent.tools.documents import DocumentPart, DocumentRefused, DocumentWish

SECONDS: Final = 90.0
"""How long reading a part may take by the clock; the process itself ends after less CPU time."""
AT_ONCE: Final = 2
_MODULE: Final = "gateway.documents.parser"


class DocumentParser:
    """Implements ``agent.tools.documents.DocumentReader``."""

    def __init__(self, *, spawn: Spawn = asyncio.create_subprocess_exec, seconds: float = SECONDS) -> None:
        self._spawn = spawn
        self._seconds = seconds
        self._free = asyncio.Semaphore(AT_ONCE)

    def kind(self, data: bytes, name: str, *, received: bool) -> str | None:
        """Return the name of the kind of document that this is. See the Protocol."""
        from gateway.documents.kinds import kind_of, refusal_of

        found = kind_of(data, name, received=received)
        if found is None and (why := refusal_of(data)):
            raise DocumentRefused(why)
        return found

    async def read(self, data: bytes, wish: DocumentWish) -> DocumentPart:
        """Read a part. See the Protocol."""
        from gateway.documents.kinds import NAMES, missing_for

        kind = wish.kind
        if command := missing_for(kind):  # type: ignore[arg-type]
            raise DocumentRefused(
                f"in the format of {NAMES[kind]}, which needs an optional package; install it with: {command}"
            )
        asked = {"kind": kind, "page": wish.page, "offset": wish.offset, "limit": wish.limit, "room": wish.room}
        async with self._free:
            try:
                async with asyncio.timeout(self._seconds):
                    printed, code = await answer_of_module(self._spawn, _MODULE, json.dumps(asked).encode() + b"\n" + data)
            except TimeoutError:
                raise DocumentRefused(f"not read: that takes longer than {self._seconds:g} seconds") from None
            except OSError as error:
                raise DocumentRefused(f"not read: no process can be started for it ({error.strerror})") from error
        if code != 0:
            raise DocumentRefused("made so that it takes too long or too much memory to read")
        answer = json.loads(printed)
        if "error" in answer:
            further = f"; pages behind it may be readable: page {wish.page + 1}" if answer.get("slow") and kind == "pdf" else ""
            raise DocumentRefused(f"{answer['error']}{further}")
        following = answer["next"]
        return DocumentPart(
            kind=NAMES[kind],
            text=answer["text"],
            contents=answer["contents"],
            unit=answer["unit"],
            count=answer["count"],
            first=tuple(answer["first"]),
            last=tuple(answer["last"]),
            lines=answer["lines"],
            following=None if following is None else tuple(following),
            notes=tuple(answer["notes"]),
            confined_by=tuple(answer["sealed"]),
        )
