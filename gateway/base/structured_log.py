"""Loads structlog without packages that it imports when they are there, and that are not used here.

rich is for its tracebacks, and takes a tenth of a short command's CPU time; greenlet comes with a C++ library. Both would stay in each
gateway's memory. Modules that need structlog at run time import it from here.
"""

from __future__ import annotations

import sys

_UNUSED = [name for name in ("rich", "greenlet") if name not in sys.modules]
for _name in _UNUSED:
    sys.modules[_name] = None  # type: ignore[assignment]  # Python's way to say that a module is not to be found
try:
    import structlog
finally:
    for _name in _UNUSED:
        del sys.modules[_name]

__all__ = ["structlog"]
