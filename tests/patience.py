"""How long tests wait. A test passes or fails by what it sees, never by how long that took: a machine may be busy with twenty other things.

What ends a test that waits for nothing is ``PATIENCE``; one that works is bounded by CPU time (``CPU_SECONDS``, see tests/conftest.py).
"""

from __future__ import annotations

PATIENCE = 240.0
"""Seconds after which something that must come is taken for something that never comes. Below the ``timeout`` of pyproject.toml."""
CPU_SECONDS = 120.0
"""Most CPU time of one test in this process."""
