"""Changing one setting leaves the rest of the file as it is."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.document import Document, read_document
from gateway.config.edit import EditRefused, with_value, without
from gateway.config.key import parse
from gateway.config.node import plain
from gateway.config.writing import bracketed, yaml_entry

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
    root = document(text, name).root
    return plain(root) if root else {}


def indented(tree: dict, comments: st.DataObject | None = None) -> str:
    rows = [row for key, value in tree.items() for row in yaml_entry(key, value)]
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
    text = with_value(document(JSON5, "homebody.json"), parse("agents.defaults.userTimezone"), "Europe/Berlin")
    text = with_value(document(text, "homebody.json"), parse("agents.defaults.compaction.memoryFlush.enabled"), value=False)
    text = without(document(text, "homebody.json"), parse("agents.defaults.model"))
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
    text = with_value(document(YAML), parse("agents.defaults.compaction.reserveTokensFloor"), 30_000)
    assert text == YAML.replace("good one\n", "good one\n    compaction:\n      reserveTokensFloor: 30000\n")


def test_an_aliased_value_is_not_changed_behind_the_back_of_the_other():
    text = "a: &x {b: 1}\nc: *x\n"
    with pytest.raises(EditRefused, match="without touching other settings"):
        with_value(document(text), ("c", "b"), 2)


def test_a_file_with_comments_only_is_begun():
    assert with_value(document("# nothing yet\n"), ("a", "b"), 1) == "# nothing yet\na:\n  b: 1\n"
