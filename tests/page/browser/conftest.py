"""These tests drive a real browser: `make page`. They are not part of `make test`, which needs no browser."""

from __future__ import annotations

import os

collect_ignore_glob = [] if os.environ.get("PAGE_TESTS") else ["test_*.py"]

if not collect_ignore_glob:
    from tests.page.browser.kit import screen, visit  # noqa: F401  (fixtures)
