from __future__ import annotations

from pathlib import Path

from gateway.config.reference import markdown_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"


def test_the_page_says_what_the_settings_are() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown_page(), "make docs"


def test_a_secret_is_called_one_and_lists_name_what_is_in_them() -> None:
    told = markdown_page()
    assert "| `botToken` | secret |" in told
    assert "## agents.list[]" in told
    assert "## models.providers.<name>" in told


def test_the_page_says_which_changes_wait_for_a_restart() -> None:
    rows: dict[str, str] = {}
    section = ""
    for line in markdown_page().splitlines():
        section = line.removeprefix("## ") if line.startswith("## ") else section
        if line.startswith("| `"):
            cells = line.replace("\\|", "/").strip("| ").split(" | ")
            rows[f"{section}.{cells[0].strip('`')}"] = cells[-1]
    assert set(rows.values()) == {"hot", "restart"}
    waiting = {"gateway.port", "logging.file", "agents.defaults.maxConcurrent"}
    at_once = {
        "agents.defaults.model",
        "agents.defaults.workspace",
        "agents.defaults.memorySearch.query.maxResults",
        "agents.list[].id",
        "plugins.slots.memory",
        "agents.list[].name",
        "session.reset.mode",
        "channels.telegram.botToken",
        "logging.level",
    }
    at_once |= {
        "gateway.auth.token",
        "budgets.day.usd",
        "models.providers.<name>.baseUrl",
        "tools.deny",
        "messages.queue.mode",
        "at the top.bindings",
    }
    assert {key: rows[key] for key in waiting | at_once} == dict.fromkeys(waiting, "restart") | dict.fromkeys(at_once, "hot")
