"""Tells which files in folders change, from a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


class _Stop(threading.Event):
    """Ends a watch, which asks for it after each look at what the kernel reported. ``begun`` is called at the first time."""

    def __init__(self, begun: Callable[[], object]) -> None:
        super().__init__()
        self._begun: Callable[[], object] | None = begun

    def is_set(self) -> bool:
        if self._begun is not None:
            self._begun()
            self._begun = None
        return super().is_set()


async def changes(
    folders: Iterable[Path],
    wanted: Callable[[object, str], bool],
    *,
    debounce: int = 1_600,
    step: int = 50,
    recursive: bool = True,
    begun: Callable[[], None] = lambda: None,
) -> AsyncGenerator[frozenset[str], None]:
    """Yield the paths of changed files that are ``wanted``, given the kind of change and the path. Times are in milliseconds.

    ``step`` is how long nothing must have changed, and ``debounce`` the longest wait for that. Changes that come while the caller is
    busy are told as one. ``begun`` is called once no change is missed any more, or the watch failed. Whatever watchfiles raises,
    Rust's panics too, ends the generator; close it, which ends its thread.

    It does what ``watchfiles.awatch`` does, without AnyIO: an idle gateway would need its event loop and threads for nothing else.
    """
    from watchfiles import watch

    loop = asyncio.get_running_loop()
    news, stop = asyncio.Event(), _Stop(lambda: loop.call_soon_threadsafe(begun))
    paths: set[str] = set()

    def tell(found: frozenset[str]) -> None:
        paths.update(found)
        news.set()

    def look() -> None:
        found = watch(
            *folders,
            watch_filter=wanted,
            debounce=debounce,
            step=step,
            recursive=recursive,
            stop_event=stop,
            raise_interrupt=False,
        )
        try:
            for changed in found:
                loop.call_soon_threadsafe(tell, frozenset(path for _, path in changed))
        finally:
            stop.is_set()

    thread = ThreadPoolExecutor(1, "watch")
    watching = loop.run_in_executor(thread, look)
    watching.add_done_callback(lambda _: news.set())
    try:
        while True:
            await news.wait()
            news.clear()
            if watching.done():
                watching.result()
                return
            told = frozenset(paths)
            paths.clear()
            yield told
    finally:
        stop.set()
        thread.shutdown(wait=False)
        await asyncio.wait([watching])
        watching.exception()  # it was raised above, or comes too late to matter
        thread.shutdown()
