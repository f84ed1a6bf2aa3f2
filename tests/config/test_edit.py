"""Changing one setting leaves the rest of the file as it is."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.document import Document, read_document
from gateway.config.edit import EditRefused, bracketed, with_value, without
from gateway.config.settings_file import with_line_ends_of
from gateway.config.syntax_tree import parse_key, plain
from gateway.config.yaml_format import yaml_lines

WORDS = st.sampled_from(["a", "b", "model", "off", "x-y", "12", "ü", "yes", "a b", "#c", "-"])
SCALARS = st.one_of(
    st.integers(-(10**20), 10**20), st.booleans(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=12)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=6
)
SECTIONS = st.dictionaries(WORDS, VALUES, min_size=1, max_size=4)


def document(text: str, name: str = "homebody.yaml") -> Document:
    return read_document(text, name)


def values(text: str, name: str = "homebody.yaml"):
    return plain(document(text, name).root)


def indented(tree: dict, comments: st.DataObject | None = None) -> str:
    rows = yaml_lines(tree)
    count = iter(range(10_000))
    lines = []
    for row in rows:
        lines += [f"# note {next(count)}", f"{row}  # beside {next(count)}", "", f"    # note {next(count)}"]
    return "\n".join(lines) + "\n"


def paths(tree, under=()):
    for step, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
        yield (*under, step)
        if isinstance(value, dict | list):
            yield from paths(value, (*under, step))


def put(tree, path, value):
    for step in path[:-1]:
        tree = tree[step]
    tree[path[-1]] = value


def same(one, other) -> bool:
    return json.dumps(clean(one), sort_keys=True) == json.dumps(clean(other), sort_keys=True)


def clean(value):
    if isinstance(value, dict):
        return {k: c for k, v in value.items() if (c := clean(v)) is not None} or None
    if isinstance(value, list):
        return [clean(v) for v in value] or None
    return value


def notes(text: str) -> list[str]:
    return re.findall(r"# (?:note|beside) \d+$", text, flags=re.MULTILINE)


@given(SECTIONS, VALUES, st.data())
def test_a_value_that_is_set_is_read_back_and_nothing_else_changes(tree, value, data):
    path = data.draw(st.sampled_from(list(paths(tree))))
    before = indented(tree)
    after = with_value(document(before), path, value)
    put(tree, path, value)
    assert same(values(after), tree)


@given(SECTIONS, SCALARS, st.data())
def test_setting_a_single_value_over_another_keeps_every_comment(tree, value, data):
    places = [p for p in paths(tree) if not isinstance(at(tree, p), dict | list)]
    if not places:
        return
    before = indented(tree)
    after = with_value(document(before), data.draw(st.sampled_from(places)), value)
    assert notes(after) == notes(before)


@given(SECTIONS, VALUES, st.data())
def test_a_new_key_keeps_every_comment(tree, value, data):
    section = data.draw(st.sampled_from([(), *(p for p in paths(tree) if isinstance(at(tree, p), dict))]))
    before = indented(tree)
    after = with_value(document(before), (*section, "newKey"), value)
    put(tree, (*section, "newKey"), value)
    assert same(values(after), tree)
    assert notes(after) == notes(before)


@given(SECTIONS, st.data())
def test_what_is_taken_out_is_gone_and_the_rest_stays(tree, data):
    path = data.draw(st.sampled_from(list(paths(tree))))
    before = indented(tree)
    after = without(document(before), path)
    parent = at(tree, path[:-1])
    del parent[path[-1]]
    assert same(values(after), tree)


@given(SECTIONS, VALUES, st.booleans(), st.data())
def test_a_file_in_brackets_can_be_changed_in_either_notation(tree, value, wide, data):
    name = data.draw(st.sampled_from(["homebody.json", "homebody.yaml"]))
    text = json.dumps(tree, indent=2, ensure_ascii=False) if wide else bracketed(tree)
    path = data.draw(st.sampled_from([*paths(tree), ("newKey",)]))
    try:
        before = document(text, name)
    except Exception:  # noqa: BLE001 -- JSON with characters that YAML does not allow
        return
    after = with_value(before, path, value)
    put(tree, path, value)
    assert same(values(after, name), tree)
    removed = without(document(after, name), path)
    del at(tree, path[:-1])[path[-1]]
    assert same(values(removed, name), tree)


def at(tree, path):
    for step in path:
        tree = tree[step]
    return tree


JSON5 = """\
// my house
{
  agents: {
    defaults: {
      model: 'anthropic/x', // the good one
      // what follows is about the window
      compaction: { reserveTokensFloor: 20000, },
    },
  },
}
"""


def test_a_json5_file_keeps_its_comments():
    text = with_value(document(JSON5, "homebody.json"), parse_key("agents.defaults.userTimezone"), "Europe/Berlin")
    text = with_value(document(text, "homebody.json"), parse_key("agents.defaults.compaction.memoryFlush.enabled"), value=False)
    text = without(document(text, "homebody.json"), parse_key("agents.defaults.model"))
    assert (
        text
        == """\
// my house
{
  agents: {
    defaults: {
      // what follows is about the window
      compaction: { reserveTokensFloor: 20000, memoryFlush: {"enabled": false}, },
      userTimezone: "Europe/Berlin",
    },
  },
}
"""
    )


YAML = """\
# my house
agents:
  defaults:
    model: anthropic/x   # the good one

# who may write
channels:
  telegram:
    enabled: true
"""


def test_a_new_key_goes_to_the_end_of_its_own_section():
    text = with_value(document(YAML), parse_key("agents.defaults.compaction.reserveTokensFloor"), 30_000)
    assert text == YAML.replace("good one\n", "good one\n    compaction:\n      reserveTokensFloor: 30000\n")


def test_an_aliased_value_is_not_changed_behind_the_back_of_the_other():
    text = "a: &x {b: 1}\nc: *x\n"
    with pytest.raises(EditRefused, match="without touching other settings"):
        with_value(document(text), ("c", "b"), 2)


def test_a_file_with_comments_only_is_begun():
    assert with_value(document("# nothing yet\n"), ("a", "b"), 1) == "# nothing yet\na:\n  b: 1\n"


ODD_YAML = """\
%YAML 1.2
---
# top
a:      1
'b' :   { x: 1,y:   [ 1,2 , 3 ],  # beside
     z: 'it''s' }
c:
        deep:   "x\\u00e4"   # far
        # between
        list:
        -   one
        - two:   2
          three: >-
              folded
              text


        words: plain
          text over
          two lines
base: &base   {p: 1}
d:   *base
e:
  <<: *base
  own:   ~
# end"""
SHARED = {"base", "d", "e"}
ODD_JSON5 = """\
// top
{ a:1,'b' :{x:1 , y: [1,2 ,3],}, // beside
    /* before */ c: {
            deep:   "x",   // far
       list: [ 'one',
          { two : 2 } ] },

  d: 0x1F /* last */ }   // end"""
ODD = {"homebody.yaml": ODD_YAML, "homebody.json": ODD_JSON5}


def changed_lines(before: str, after: str) -> tuple[int, list[str], list[str]]:
    """Return how many lines come before the first difference, and the lines that differ, old and new."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    first = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    old, new = old[first:], new[first:]
    while old and new and old[-1] == new[-1]:
        del old[-1], new[-1]
    return first, old, new


def own_lines(text: str, name: str, path) -> tuple[range, int]:
    """Return the lines, counted from 0, on which a setting stands, and the offset where it begins."""
    node = document(text, name).root
    for step in path:
        node = node.child(step)
    return range(text.count("\n", 0, node.entry_start), text.count("\n", 0, node.end) + 1), node.entry_start


@pytest.mark.parametrize("name", ODD)
@given(value=SCALARS | VALUES, data=st.data())
def test_an_edit_touches_only_the_lines_of_its_own_setting_however_they_are_laid_out(name, value, data):
    before = ODD[name]
    tree = values(before, name)
    path = data.draw(st.sampled_from(list(paths(tree))))
    remove = data.draw(st.booleans())
    try:
        after = without(document(before, name), path) if remove else with_value(document(before, name), path, value)
    except EditRefused:
        assert path[0] in SHARED, "only what shares its text with another setting is refused"
        return
    own, start = own_lines(before, name, path)
    if before[before.rfind("\n", 0, start) : start].strip() == "-":
        own = range(own.start, own.stop + 1)  # the next key moves up behind the dash
    comma = before.rfind(",", 0, start)
    befores = [before, before[:comma] + before[comma + 1 :]] if remove else [before]
    assert any(within(own, *changed_lines(text, after)) for text in befores), "but for the comma before what is removed"


def within(own: range, first: int, old: list[str], _: list[str]) -> bool:
    return own.start <= first <= own.stop and first + len(old) <= own.stop


@pytest.mark.parametrize("name", ODD)
@given(value=VALUES, data=st.data())
def test_a_new_key_touches_at_most_the_line_that_takes_its_comma(name, value, data):
    before = ODD[name]
    tree = values(before, name)
    sections = [(), *(path for path in paths(tree) if isinstance(at(tree, path), dict))]
    path = (*data.draw(st.sampled_from(sections)), "newKey")
    try:
        after = with_value(document(before, name), path, value)
    except EditRefused:
        assert path[0] in SHARED, "only what shares its text with another setting is refused"
        return
    _, old, new = changed_lines(before, after)
    put(tree, path, value)
    assert same(values(after, name), tree)
    assert len(old) <= 1
    assert [line for line in old if not re.search(r"[\]},]|# end$", line)] == [], "a block needs no comma"
    assert len(new) >= 1


LINES = st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=6)


@given(LINES, LINES, st.data())
def test_line_ends_stay_where_the_lines_stay(old, new, data):
    ends = data.draw(st.lists(st.sampled_from(["", "\r"]), min_size=len(old) - 1, max_size=len(old) - 1))
    before = "\n".join(line + end for line, end in zip(old, [*ends, ""], strict=True))
    after = with_line_ends_of(before, "\n".join(new))
    assert after.replace("\r\n", "\n") == "\n".join(new)
    assert old != new or after == before
    if "\r" not in before:
        assert "\r" not in after
    at = data.draw(st.integers(0, len(old) - 1))
    longer = with_line_ends_of(before, "\n".join([*old[:at], "inserted", *old[at:]]))
    assert re.sub(r"inserted\r?\n", "", longer) == before
    reworded = with_line_ends_of(before, "\n".join([*old[:at], f"{old[at]}!", *old[at + 1 :]]))
    assert reworded.replace("!", "") == before
