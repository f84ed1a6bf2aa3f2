"""Values that are marked as what they are not, pictures that never begin, text that moves a terminal's cursor."""

from __future__ import annotations

import json
import time
from functools import reduce
from pathlib import Path

import pytest

from agent.tools.image_header import read_image_header
from channels.common.control_characters import visible
from gateway.base.errors import SettingsError
from gateway.base.paths import Paths
from gateway.config.load import check
from gateway.config.yaml_format import read_yaml


@pytest.mark.parametrize("text", ["a: !!int x", "a: !!float x", "a: !!int ''", "a: {b: [!!int 1.5]}", "? !!int x\n: !!int y"])
def test_a_value_that_is_not_what_its_tag_says_is_named_with_its_line(text: str) -> None:
    with pytest.raises(SettingsError) as wrong:
        read_yaml(f"first: 1\n{text}\n", "homebody.yaml")
    problem = wrong.value.problems[0]
    assert (problem.file, problem.line >= 2) == ("homebody.yaml", True)
    assert "is marked as" in problem.message


@pytest.mark.parametrize("key", ["models.providers.box.baseUrl", "agents.defaults.memorySearch.remote.baseUrl"])
@pytest.mark.parametrize("address", ["localhost:9510/v1", "//nas:8000", "http://", "nas", ""])
def test_an_address_without_its_scheme_is_named_with_an_example(key: str, address: str) -> None:
    text = json.dumps(reduce(lambda value, name: {name: value}, reversed(key.split(".")), address))
    (problem,) = check(text, Path("homebody.json"), {}, Paths(Path("/nowhere"))).problems
    assert "begins with http:// or https:// (write it like http://" in problem.message


def test_a_picture_that_never_begins_costs_little() -> None:
    data = b"\xff\xd8" + b"\xff" * 20_000_000
    before = time.process_time()
    found = read_image_header(data)
    assert time.process_time() - before < 1
    assert found is None or (found.width, found.height) == (0, 0)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("a\x1b]0;title\x07b", "a]0;titleb"), ("\x9b2Jx", "2Jx"), ("x\u202egnp.exe", "xgnp.exe"), ("a\u200bb\u2066c\u2069", "abc"),
        ("👨\u200d👩\u200d👧", "👨\u200d👩\u200d👧"), ("می\u200cخواهم", "می\u200cخواهم"), ("a\u200db", "ab"),
        ("tab\there\r\nnext", "tab\there\nnext"),
        ("one\u2028two", "one\ntwo"),
    ],
)  # fmt: skip
def test_a_terminal_is_shown_nothing_that_moves_or_rearranges(raw: str, shown: str) -> None:
    assert visible(raw) == shown
