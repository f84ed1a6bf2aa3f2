"""How often properties are tried."""

from __future__ import annotations

import hypothesis


def examples(thorough: int) -> int:
    """How many examples a property is tried with: ``thorough`` in `make thorough`, a part of them in `make test` (tests/conftest.py)."""
    return max(min(thorough, 5), thorough * hypothesis.settings.default.max_examples // 100)
