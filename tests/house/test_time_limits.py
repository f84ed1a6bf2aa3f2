"""The product limits waits by ``asyncio.timeout``: ``asyncio.wait_for`` of Python 3.11 loses a cancellation that comes as the wait ends."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("agent", "channels", "gateway", "memory")


def waits(tree: ast.Module) -> list[int]:
    """The lines that use ``asyncio.wait_for``."""
    found = []
    for node in ast.walk(tree):
        named = isinstance(node, ast.Attribute) and node.attr == "wait_for" and getattr(node.value, "id", "") == "asyncio"
        taken = isinstance(node, ast.ImportFrom) and node.module == "asyncio" and "wait_for" in {one.name for one in node.names}
        if named or taken:
            found.append(node.lineno)
    return sorted(found)


def test_the_product_loses_no_cancellation_to_a_time_limit() -> None:
    files = [file for part in PRODUCT for file in sorted((ROOT / part).rglob("*.py"))]
    assert len(files) > 100
    found = [
        f"{file.relative_to(ROOT)}:{line}"
        for file in files
        if "wait_for" in (source := file.read_text(encoding="utf-8"))
        for line in waits(ast.parse(source))
    ]
    assert found == [], "use: async with asyncio.timeout(SECONDS)"


def test_a_use_is_seen() -> None:
    assert waits(ast.parse("asyncio.wait_for(x, 1)\nfrom asyncio import wait_for\ncondition.wait_for(x)")) == [1, 2]
