"""Runs ``page_text`` in a process with limits on time and memory, so that a hostile page costs a process and nothing else."""

from __future__ import annotations

import asyncio
import json
from typing import Final

from msgspec import Struct

from agent.errors import FetchFailed
from agent.tools.child_process import Spawn, answer_of_module
from agent.tools.web.fetch_protocol import Fetched

SECONDS: Final = 60.0
"""How long reading one page may take by the clock; the process itself ends after less CPU time."""
AT_ONCE: Final = 2
_MODULE: Final = "agent.tools.web.page_text"


class PageText(Struct, frozen=True, kw_only=True):
    """The text of a page. ``notes`` say what is not in it, each a sentence without its full stop."""

    title: str
    text: str
    notes: tuple[str, ...] = ()


class PageReader:
    """Turns fetched pages into text, a few at once."""

    def __init__(self, *, spawn: Spawn = asyncio.create_subprocess_exec, seconds: float = SECONDS) -> None:
        self._spawn = spawn
        self._seconds = seconds
        self._free = asyncio.Semaphore(AT_ONCE)

    async def read(self, page: Fetched, *, marked: bool = True, whole: bool = False) -> PageText:
        """Read a page. ``marked``: as Markdown with links, rather than text alone. ``whole``: with navigation and the like.

        Raises:
            FetchFailed: it is damaged, binary, locked, or too much to read.
        """
        wish = {"kind": page.media_type, "charset": page.charset, "url": page.url, "marked": marked, "whole": whole}
        order = json.dumps(wish).encode() + b"\n" + page.body
        async with self._free:
            try:
                async with asyncio.timeout(self._seconds):
                    printed, code = await answer_of_module(self._spawn, _MODULE, order)
            except TimeoutError:
                raise FetchFailed(f"it takes longer than {self._seconds:g} seconds to read") from None
            except OSError as error:
                raise FetchFailed(f"no process can be started to read it ({error.strerror})") from error
        if code != 0:
            raise FetchFailed("it is made so that it takes too long or too much memory to read")
        answer = json.loads(printed)
        if "error" in answer:
            raise FetchFailed(f"it is {answer['error']}")
        return PageText(title=answer["title"], text=answer["text"], notes=(*answer["notes"], *([page.cut] if page.cut else [])))
