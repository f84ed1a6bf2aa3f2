"""The stories stay outside, and their judges can fail."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from tests.stories.talk import SABOTAGES, Seen, Spoken, Talk, controls, judge

HERE = Path(__file__).parent
ROOMS = {"agent", "channels", "gateway", "memory", "workspace_templates"}
TALK = Talk(
    spoken=tuple(Spoken(chat, token, 0.0) for chat, token in (("1", "aaaaa1"), ("1", "aaaaa2"), ("2", "bbbbb1"))),
    seen=(
        Seen("1", "answer aaaaa1", 1.0),
        Seen("2", "answer bbbbb1", 1.0),
        Seen("1", "(may have arrived before)\nanswer aaaaa2", 2.0),
    ),
)


def imported(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {one.name.split(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module.split(".")[0])
    return found


def test_no_story_imports_anything_of_the_product() -> None:
    files = [*HERE.glob("*.py"), *(HERE.parent / "live").glob("*.py")]
    assert len(files) > 10
    assert {file.name: imported(file) & ROOMS for file in files if imported(file) & ROOMS} == {}


def test_a_talk_in_which_all_is_well_breaks_nothing() -> None:
    found = judge(TALK)
    assert found.broken == {}
    assert found.marked == ("aaaaa2",)


def test_a_marked_copy_is_no_double_and_a_second_unmarked_one_is() -> None:
    marked = replace(TALK.seen[0], text=f"(This may have reached you already.)\n{TALK.seen[0].text}")
    assert judge(Talk(TALK.spoken, (*TALK.seen, marked))).broken == {}
    assert judge(Talk(TALK.spoken, (*TALK.seen, TALK.seen[0]))).doubled == ("aaaaa1",)


def test_what_is_only_named_is_told_and_not_lost() -> None:
    named = (*TALK.seen[1:], Seen("1", "I gave up: • say-aaaaa1 please", 3.0))
    found = judge(Talk(TALK.spoken, named))
    assert found.told == ("aaaaa1",)
    assert found.broken == {}


@pytest.mark.parametrize("name", SABOTAGES)
def test_each_sabotage_is_found(name: str) -> None:
    plain = Talk((*TALK.spoken, Spoken("2", "bbbbb2", 0.0)), (*TALK.seen, Seen("2", "answer bbbbb2", 3.0)))
    broken = SABOTAGES[name](plain, judge(plain))
    assert broken is not None
    assert name in judge(broken).broken


def test_a_control_that_could_not_be_tried_is_told() -> None:
    assert controls([Talk((), ())]) == "astray, disordered, doubled, lost"
