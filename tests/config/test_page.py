from __future__ import annotations

from pathlib import Path

from gateway.config.page import page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"


def test_the_page_says_what_the_settings_are() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "make docs"


def test_a_secret_is_called_one_and_lists_name_what_is_in_them() -> None:
    told = page()
    assert "| `botToken` | secret |" in told
    assert "## agents.list[]" in told
    assert "## models.providers.<name>" in told
