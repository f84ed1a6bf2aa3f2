"""Loads structlog without packages that it imports when they are there, and that are not used here.

rich is for its tracebacks, and takes a tenth of a short command's CPU time; greenlet comes with a C++ library; colorama is for Windows.
Modules that need structlog at run time import it from here.
"""

from __future__ import annotations

from gateway.base.lean_import import leaving_out

with leaving_out(absent=("rich", "greenlet", "colorama")):
    import structlog

__all__ = ["structlog"]
