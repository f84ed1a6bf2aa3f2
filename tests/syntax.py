"""Reads Python source, as tests do that look at all of it."""

from __future__ import annotations

import ast
import gc


def parsed(source: str) -> ast.Module:
    """Parse it. A search for garbage, of which a tree of syntax holds none, would take three times as long as that."""
    was = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if was:
            gc.enable()
