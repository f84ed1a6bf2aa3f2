"""Imports libraries without parts that they always load and that are not used here: what is loaded stays in each gateway's memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


class _StandIn(ModuleType):
    """A module whose every attribute is None."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


@contextmanager
def leaving_out(*parts: str, absent: tuple[str, ...] = (), instead: tuple[ModuleType, ...] = ()) -> Iterator[None]:
    """Within it, imported modules get stand-ins for ``parts``, and find the packages ``absent``, without which they work, not installed.

    ``instead`` are stand-ins, by their names, for modules that the library calls as it is loaded.
    Name what the imported library alone would import: other threads see it, too. What is loaded already is not changed.
    """
    kept: dict[str, ModuleType | None] = {name: _StandIn(name) for name in parts} | dict.fromkeys(absent)
    kept |= {module.__name__: module for module in instead}
    new = {name: module for name, module in kept.items() if name not in sys.modules}
    sys.modules.update(new)  # type: ignore[arg-type]  # None is Python's way to say that a module is not to be found
    try:
        yield
    finally:
        for name in new:
            del sys.modules[name]
