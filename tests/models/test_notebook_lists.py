"""What the notebook does with a list of things to do, in English and German, by the real tool in a real workspace."""

from __future__ import annotations

import pytest

from agent.tools.todo_file import TodoFiles
from agent.tools.todo_tool import Todo
from agent.tools.toolbox import Toolbox
from tests.models.test_notebook_model import Talk, talk

__all__ = ["talk"]


@pytest.fixture
def lists(talk: Talk) -> Talk:
    """A conversation that has the tool, besides those that look into notes."""
    talk.box = Toolbox((*talk.tools, Todo(TodoFiles(talk.desk))))
    return talk


def todo(talk: Talk) -> str:
    return (talk.workspace / "TODO.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("add milk to my list", "- [ ] milk"),
        ("please put eggs on the to-do list", "- [ ] eggs"),
        ("todo: paint the fence", "- [ ] Paint the fence"),
        ("setz Brot auf meine Liste", "- [ ] Brot"),
        ("Könntest du Käse auf die Liste setzen?", "- [ ] Käse"),
        ("add call mum tomorrow to my list", "- [ ] call mum tomorrow (due 2026-11-21)"),
    ],
)
async def test_something_is_put_on_the_list(lists: Talk, said: str, line: str) -> None:
    assert "is on the list." in await lists.say(said)
    assert todo(lists) == f"# To do\n\n{line}\n"
    assert "is on the list already" in await lists.say(said)


@pytest.mark.parametrize(
    ("add", "ask", "done", "gone"),
    [
        (
            "add milk to the shopping list",
            "what's on the shopping list?",
            "tick off milk",
            "remove milk from the shopping list",
        ),
        ("add milk to my list", "what is on my list?", "mark milk as done", "take milk off my list"),
        (
            "setz milk auf die Einkaufsliste",
            "Was steht auf der Einkaufsliste?",
            "hake milk ab",
            "streich milk von der Einkaufsliste",
        ),
        ("todo: milk", "my todos", "done: milk", "nimm milk von der Liste"),
    ],
)
async def test_a_list_is_told_and_changed(lists: Talk, add: str, ask: str, done: str, gone: str) -> None:
    await lists.say(add)
    assert "- milk" in (await lists.say(ask)).lower()
    assert "is done" in await lists.say(done)
    assert "- [x] milk" in todo(lists).lower()
    assert "- milk" not in (await lists.say(ask)).lower()
    assert "is off the list" in await lists.say(gone)
    assert "milk" not in todo(lists).lower()


async def test_what_older_notes_hold_of_a_list_is_still_found(lists: Talk) -> None:
    await lists.say("remember that on the shopping list is butter")
    assert "butter" in await lists.say("what's on the shopping list?")
    (lists.workspace / "memory" / "2026-11-19.md").write_text("- [ ] sweep the yard\n")
    await lists.say("todo: paint the fence")
    told = await lists.say("my todos")
    assert "sweep the yard" in told
    assert "Paint the fence" in told


async def test_an_item_that_is_not_there_is_said(lists: Talk) -> None:
    await lists.say("add milk to my list")
    assert "there is no item 'cheese' in the list" in await lists.say("tick off cheese")
