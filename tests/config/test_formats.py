"""Two formats, one tree: values, and the line of each of them."""

import json
import re

import json5
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.edit import bracketed
from gateway.config.json5_format import read_json5
from gateway.config.syntax_tree import dotted_key, lines, parse_key, plain
from gateway.config.yaml_format import read_yaml, yaml_lines

TEXTS = st.text(st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF), max_size=10).filter(
    lambda text: not re.search("\0[0-9]", text)
)
"""What the other library can read of its own: it breaks larger characters apart, and writes NUL and a digit as an octal escape."""
SCALARS = st.none() | st.booleans() | st.integers(-(10**29), 10**29) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=12
)
PRINTABLE = st.recursive(
    st.booleans()
    | st.integers(-(10**29), 10**29)
    | st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn", "Co"]), max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS.filter(str.isprintable), inner, max_size=4),
    max_leaves=12,
)


@given(TREES, st.booleans())
def test_our_json5_agrees_with_an_independent_reader(tree, quoted):
    text = json5.dumps(tree, indent=2, quote_keys=quoted, trailing_commas=True)
    node = read_json5(text, "x.json")
    assert (plain(node) if node else None) == json5.loads(text) == tree


@pytest.mark.parametrize(
    "text",
    [
        "{a: 0x1F, b: -.5, c: +3, d: 5., e: 1e3, $f_1: 'it\\'s', \"g h\": \"a\\\nb\", i: '\\x41\\u00e9\\v\\0'}",
        "/* one */ {// two\n a /*three*/ : [1,/*four*/2,],}",
        "'just text'",
        "{a: {Ku\u0308che: 1, e\u0301te\u0301: 2}}",
    ],
)
def test_the_corners_of_json5_agree_with_an_independent_reader(text):
    assert plain(read_json5(text, "x.json")) == json5.loads(text)


@given(PRINTABLE)
def test_what_is_written_as_yaml_is_read_back(tree):
    for text in ("\n".join(yaml_lines(tree)), bracketed(tree)):
        node = read_yaml(text, "x.yaml")
        assert node is not None
        assert plain(node) == tree


@given(PRINTABLE.filter(lambda tree: isinstance(tree, dict)))
def test_lines_are_the_same_in_both_notations(tree):
    text = json.dumps(tree, indent=1)
    assert lines(read_json5(text, "x.json")) == lines(read_yaml(text, "x.yaml"))


@pytest.mark.parametrize("read", [read_json5, read_yaml])
def test_an_escaped_pair_is_one_character(read):
    assert plain(read('{"\\ud83d\\ude00": "\\ud83d\\ude00 \\ud83d"}', "x")) == {"😀": "😀 \ud83d"}


def test_lines_point_at_keys_and_items():
    found = lines(read_yaml("# top\na:\n  b: 1\n\n  c:\n    - x\n    - y: 2\n", "x.yaml"))
    assert {dotted_key(path): line for path, line in found.items()} == {
        "a": 2,
        "a.b": 3,
        "a.c": 5,
        "a.c[0]": 6,
        "a.c[1]": 7,
        "a.c[1].y": 7,
    }


def test_merged_sections_are_understood():
    tree = plain(read_yaml("base: &b {x: 1, y: 2}\nthis:\n  <<: *b\n  y: 3\n", "x.yaml"))
    assert tree["this"] == {"x": 1, "y": 3}


@given(st.lists(st.integers(0, 99) | TEXTS.filter(bool), min_size=1, max_size=5))
def test_a_key_that_is_written_is_read_back(path):
    assert parse_key(dotted_key(tuple(path))) == tuple(path)


@pytest.mark.parametrize("text", ["", "a..b", ".a", "a[", "a[x]", 'a["b', "a[0]b", "a]"])
def test_what_is_no_key_is_refused(text):
    with pytest.raises(ValueError, match="setting"):
        parse_key(text)
