"""A list of things to do that people edit by hand: what counts as an item, and that a change touches nothing else."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import WorkspaceFileError
from agent.tools.todo_list import TodoList, one_line

HOUSE = """\
# To do

- [ ] buy milk
- [x] call Anna
  - [ ] ask about Thursday
  a line that belongs to it

Some words.

## Garden
* [ ] prune the roses (due 2026-12-01)
1. [ ] not of that list, but an item

```
- [ ] code
```
<!-- - [ ] hidden -->
"""

PIECES = st.sampled_from(
    [
        "# To do",
        "## Garden",
        "## Shopping list",
        "- [ ] buy milk",
        "- [x] buy milk",
        "  - [ ] nested",
        "\t- [ ] nested by a tab",
        "* [X] with a star",
        "3. [ ] numbered",
        "    - [ ] deep",
        "- plain",
        "```",
        "~~~~",
        "  ```",
        "<!-- a",
        "-->",
        "---",
        "",
        "  ",
        "words",
        "  more words",
        "- [ ]",
        "-[ ] none",
        "- [] none",
        "- [ ] ärger \udce4 über alles",
    ]
)
ENDS = st.sampled_from(["\n", "\r\n"])
FILES = st.tuples(st.lists(PIECES, max_size=14), ENDS, st.booleans()).map(
    lambda drawn: drawn[1].join(drawn[0]) + (drawn[1] if drawn[2] else "")
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).map(one_line).filter(bool)


def facts(text: str) -> list[tuple[str, bool, str]]:
    return [(item.text, item.done, item.section) for item in TodoList.of(text).items]


def test_items_are_what_github_takes_for_tasks() -> None:
    assert facts(HOUSE) == [
        ("buy milk", False, "To do"),
        ("call Anna", True, "To do"),
        ("ask about Thursday", False, "To do"),
        ("prune the roses (due 2026-12-01)", False, "Garden"),
        ("not of that list, but an item", False, "Garden"),
    ]
    found = TodoList.of(HOUSE).items
    assert [item.depth for item in found] == [0, 0, 1, 0, 0]
    assert found[3].due == date(2026, 12, 1)


@pytest.mark.parametrize(
    "text", ["pay (due: 2026-12-01)", "pay due:2026-12-01", "pay 📅 2026-12-01", "zahlen (fällig 2026-12-01)"]
)
def test_the_usual_ways_to_write_a_day_are_read(text: str) -> None:
    assert TodoList.of(f"- [ ] {text}").items[0].due == date(2026, 12, 1)
    assert TodoList.of("- [ ] pay (due 2026-02-31)").items[0].due is None


def test_an_item_goes_where_people_would_write_it() -> None:
    found = TodoList.of(HOUSE)
    assert found.with_item("eggs") == HOUSE.replace("belongs to it\n", "belongs to it\n- [ ] eggs\n")
    assert found.with_item("weed", "garden") == HOUSE.replace("an item\n", "an item\n2. [ ] weed\n")
    assert found.with_item("nails", "Workshop") == f"{HOUSE}\n## Workshop\n\n- [ ] nails\n"
    assert TodoList.of("").with_item("eggs") == "# To do\n\n- [ ] eggs\n"
    assert TodoList.of("").with_item("eggs", "Shopping") == "# To do\n\n## Shopping\n\n- [ ] eggs\n"
    assert TodoList.of("# To do\n").with_item("eggs") == "# To do\n\n- [ ] eggs\n"
    assert TodoList.of("# To do\n\n").with_item("eggs") == "# To do\n\n- [ ] eggs\n"
    assert TodoList.of("# A\n## B\n").with_item("eggs") == "# A\n\n- [ ] eggs\n\n## B\n"
    assert TodoList.of("## B\n- [ ] x").with_item("eggs") == "- [ ] eggs\n\n## B\n- [ ] x"
    assert TodoList.of("# A\r\n\r\n- [ ] x").with_item("eggs") == "# A\r\n\r\n- [ ] x\r\n- [ ] eggs\r\n"
    assert (
        TodoList.of("## Shopping list\n\n- [ ] x\n").with_item("eggs", "shopping")
        == "## Shopping list\n\n- [ ] x\n- [ ] eggs\n"
    )


def test_an_item_is_removed_with_what_is_nested_below_it() -> None:
    found = TodoList.of(HOUSE)
    assert found.without(found.find("call Anna")) == HOUSE.replace(
        "- [x] call Anna\n  - [ ] ask about Thursday\n  a line that belongs to it\n", ""
    )
    code = "- [ ] a\n  ```\n  code\n  ```\n- [ ] b\n"
    assert TodoList.of(code).without(TodoList.of(code).find("a")) == "- [ ] b\n"


def test_words_that_fit_several_items_name_none() -> None:
    found = TodoList.of("- [ ] call Anna\n- [ ] call Bert\n- [x] pay\n- [ ] pay\n")
    with pytest.raises(WorkspaceFileError, match=r"any of 2 items: \w{4} call Anna; \w{4} call Bert"):
        found.find("call")
    with pytest.raises(WorkspaceFileError, match="no item 'milk'"):
        found.find("milk")
    assert found.find("ANNA").number == 1
    assert found.find("pay", done=False).number == 4


def test_two_items_with_the_same_words_have_ids_of_their_own() -> None:
    first, second = TodoList.of("- [ ] pay\n- [ ] pay\n").items
    assert first.id != second.id
    assert TodoList.of("- [x] pay\n").items[0].id == first.id


@given(FILES, TEXTS, st.sampled_from(["", "Garden", "Workshop"]))
def test_adding_keeps_every_byte_and_every_item(text: str, fresh: str, section: str) -> None:
    before = TodoList.of(text)
    after = TodoList.of(before.with_item(fresh, section))
    rest = iter(after.text.encode("utf-8", "surrogateescape").splitlines())
    assert all(line in rest for line in text.encode("utf-8", "surrogateescape").splitlines()), "lines are kept, in order"
    known = [item.text for item in before.items]
    now = [item.text for item in after.items]
    assert sorted(now) == sorted([*known, fresh])
    if section:
        assert fresh in [item.text for item in after.in_section(section)]


@given(FILES, st.data())
def test_a_change_touches_its_own_line_alone(text: str, data: st.DataObject) -> None:
    found = TodoList.of(text)
    if not found.items:
        return
    item = data.draw(st.sampled_from(found.items))
    fresh = data.draw(TEXTS)
    marked, edited, without = found.with_mark(item, done=not item.done), found.with_text(item, fresh), found.without(item)
    for changed in (marked, edited):
        lines = TodoList.of(changed).lines
        assert len(lines) == len(found.lines)
        assert [n for n, line in enumerate(lines) if line != found.lines[n]] in ([], [item.line])
    others = [(one.text, one.done, one.number, one.id) for one in found.items if one.number != item.number]
    assert [
        (one.text, one.done, one.number, one.id) for one in TodoList.of(marked).items if one.number != item.number
    ] == others
    same = TodoList.of(marked).items[item.number - 1]
    assert (same.id, same.text, same.done) == (item.id, item.text, not item.done)
    assert TodoList.of(marked).with_mark(same, done=item.done).lower() == text.lower()
    assert TodoList.of(edited).items[item.number - 1].text == fresh
    assert without == "".join((*found.lines[: item.line], *found.lines[item.end :]))
    assert found.find(item.id) == item


@given(FILES)
def test_any_file_can_be_read(text: str) -> None:
    found = TodoList.of(text)
    assert "".join(found.lines) == text
    assert [item.number for item in found.items] == list(range(1, len(found.items) + 1))
    assert len({item.id for item in found.items}) == len(found.items)


def test_a_bit_of_a_word_names_no_item() -> None:
    made = TodoList.of("- [ ] four due:2026-13-45\n- [ ] buy milk\n")
    with pytest.raises(WorkspaceFileError, match="no item '-1'"):
        made.find("-1")
    with pytest.raises(WorkspaceFileError, match="no item 'ilk'"):
        made.find("ilk")
    assert made.find("mil").text == "buy milk"
