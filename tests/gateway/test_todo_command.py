"""``/todo`` and ``homebody todo``: one list for people, the agent and an editor."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from gateway.base.errors import UsageError
from gateway.cli.click_commands import homebody
from tests.gateway.conftest import street

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.gateway.conftest import Street

__all__ = ["street"]


async def test_the_list_is_shown_and_changed_during_a_turn_without_a_model(street: Callable[..., Street]) -> None:
    s = street()
    async with s.house() as (house, talk):

        async def told(text: str) -> str:
            before = len(talk.replies())
            await talk.send(text)
            return str(await talk.until(lambda: talk.replies()[before:]))

        assert "The list is empty" in await told("/todo")
        assert "“milk” is on the list (TODO.md)" in await told("/todo add milk")
        file = next(s.root.rglob("TODO.md"))
        file.write_text(f"{file.read_text()}- [ ] by hand (due 2020-01-01)\n")
        listed = await told("/todo")
        assert "☐ 1 · milk" in listed
        assert "☐ 2 · by hand (due 2020-01-01) — overdue" in listed
        assert "“milk” is done" in await told("/todo done 1")
        assert "☐ 2 · by hand" in await told("/todo"), "the numbers stay while something is ticked off"
        assert "☑ 1 · milk" in await told("/todo all")
        assert "It says “by hand, later” now" in await told("/todo edit 2 by hand, later")
        assert "is off the list" in await told("/todo remove 2")
        assert "There is no item 9 in the list. The list shows the numbers: /todo" in await told("/todo done 9")
        assert "is nothing that /todo can do" in await told("/todo dance")
        assert file.read_text() == "# To do\n\n- [x] milk\n"
        assert s.model.requests == []

        calls = house.agent_calls()
        facts = await calls["todo.list"]()
        assert [(item["text"], item["done"]) for item in facts["items"]] == [("milk", True)]
        with pytest.raises(UsageError, match="no section 'Garden'"):
            await calls["todo.list"](section="Garden")


def test_the_command_line_changes_the_list_without_a_gateway(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "homebody.yaml").write_text(f"agents: {{defaults: {{workspace: {tmp_path / 'notes'}}}}}\n")

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(homebody, ["--home", str(home), "todo", *arguments], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    assert run("list") == "Nothing is to be done.\n"
    run("add", "renew the passport (due 2026-12-01)")
    assert json.loads(run("add", "milk", "--section", "Shopping", "--json"))["changed"] is True
    run("done", "milk")
    assert run("list", "--all").splitlines() == ["☐ 1 · renew the passport (due 2026-12-01)", "", "Shopping", "☑ 2 · milk"]
    assert [item["due"] for item in json.loads(run("list", "--json"))["items"]] == ["2026-12-01", None]
    assert (tmp_path / "notes" / "TODO.md").read_text() == (
        "# To do\n\n- [ ] renew the passport (due 2026-12-01)\n\n## Shopping\n\n- [x] milk\n"
    )
    log = CliRunner().invoke(homebody, ["--home", str(home), "memory", "log", "TODO.md"], catch_exceptions=False)
    assert log.output.count("TODO.md") == 3
