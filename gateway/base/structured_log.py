"""Loads structlog without rich, which it would otherwise import for tracebacks that are not used here.

That takes a tenth of a short command's CPU time, and memory in each gateway. Modules that need structlog at run time import it from here.
"""

from __future__ import annotations

import sys

_absent = "rich" not in sys.modules
if _absent:
    sys.modules["rich"] = None  # type: ignore[assignment]  # Python's way to say that a module is not to be found
try:
    import structlog
finally:
    if _absent:
        del sys.modules["rich"]

__all__ = ["structlog"]
