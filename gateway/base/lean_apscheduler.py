"""Imports APScheduler without what reads the metadata of packages: it asks for plugins, which are not used here, and for its version.

Import it before there are other threads, which would be told of no packages, too. What stays unloaded takes 0.8 MB.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, cast

from gateway.base.lean_import import leaving_out


def _no_packages() -> ModuleType:
    """Return a stand-in by which no package is installed."""
    module: Any = ModuleType("importlib.metadata")

    def version(name: str) -> str:
        raise ModuleNotFoundError(name)

    module.PackageNotFoundError = ModuleNotFoundError
    module.version = version
    module.entry_points = lambda **_group: ()
    return cast("ModuleType", module)


with leaving_out("apscheduler.executors.pool", instead=(_no_packages(),)):  # the former: multiprocessing
    import apscheduler.schedulers.asyncio  # noqa: F401
