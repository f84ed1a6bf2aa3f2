"""Modules of settings do without annotations as text: pydantic would compile each of 1,500 at every start, a tenth of that time."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(
    path
    for package in ("agent", "channels", "gateway", "memory")
    for path in (ROOT / package).rglob("*.py")
    if (path.stem in {"settings", "tool_settings", "shared_settings"} or path.parent.name == "settings")
    and "(Section)" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_settings_have_no_annotations_as_text(path: Path) -> None:
    assert "from __future__ import annotations" not in path.read_text(encoding="utf-8"), (
        "leave the import out, and put single annotations in quotation marks that name what comes later"
    )


def test_the_modules_are_found() -> None:
    assert len(MODULES) > 20
