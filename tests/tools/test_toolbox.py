"""However a model calls, it gets one answer, and the turn goes on."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.messages import ToolCall, ToolMessage
from agent.models.protocol import ToolSpec
from agent.tools.protocol import Effect, Outcome, ToolContext
from agent.tools.toolbox import Toolbox, capped, result_cap
from tests.properties import examples
from tests.tools.house import House

if TYPE_CHECKING:
    from collections.abc import Mapping

SCENE = ToolContext(now=datetime(2026, 2, 3, tzinfo=UTC), session="s", turn="t")


class Teller:
    """A tool that does what it is told to."""

    def __init__(self, name: str, text: str = "", *, fails: BaseException | None = None, effect: Effect = "effect") -> None:
        self.spec = ToolSpec(name=name, description="", parameters={"type": "object"})
        self.effect = effect
        self._text = text
        self._fails = fails

    async def run(self, arguments: Mapping[str, Any], scene: ToolContext) -> Outcome:
        del arguments, scene
        await asyncio.sleep(0)
        if self._fails:
            raise self._fails
        return Outcome(text=self._text)


def call(name: str, arguments: dict[str, Any] | None = None, raw: str = "") -> ToolCall:
    return ToolCall(id="c1", name=name, arguments=arguments, raw=raw)


async def test_an_unknown_tool_names_the_nearest() -> None:
    box = Toolbox([Teller("memory_search"), Teller("read")])
    answer = await box.run(call("memory-search", {}), SCENE)
    assert (answer.is_error, answer.call_id, answer.name) == (True, "c1", "memory-search")
    assert answer.text == "there is no tool named 'memory-search'; did you mean memory_search?"
    assert (await box.run(call("qqq", {}), SCENE)).text == "there is no tool named 'qqq'; there are memory_search, read"
    assert "has none" in (await Toolbox([]).run(call("read", {}), SCENE)).text


async def test_arguments_that_are_no_object_are_told_in_one_line() -> None:
    answer = await Toolbox([Teller("read")]).run(call("read", None, raw='{"path": \n"a'), SCENE)
    assert answer.is_error
    assert answer.text == 'the arguments of read are not a JSON object: \'{"path": \\n"a\'; call it again with one'


async def test_wrong_arguments_are_told_a_line_each(house: House) -> None:
    text = await house.refused("read", offset=0, limit="many", pth="a.md")
    assert text.split("\n") == [
        "path: is required",
        "offset: Input should be greater than or equal to 1",
        "limit: Input should be a valid integer, unable to parse string as an integer",
        "pth: no such argument; did you mean path?",
    ]


async def test_an_empty_argument_that_must_not_be_is_told_as_such(house: House) -> None:
    assert await house.refused("edit", path="a.md", old="", new="x") == "old: must not be empty"


async def test_a_defect_in_a_tool_is_an_answer_and_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        answer = await Toolbox([Teller("odd", fails=RuntimeError("inner secret"))]).run(call("odd", {}), SCENE)
    assert answer.is_error
    assert answer.text == "odd failed because of a defect in it; the log has the details"
    assert "inner secret" in caplog.text


async def test_cancellation_passes_through() -> None:
    with pytest.raises(asyncio.CancelledError):
        await Toolbox([Teller("odd", fails=asyncio.CancelledError())]).run(call("odd", {}), SCENE)


async def test_a_permit_may_refuse_before_anything_runs(house: House) -> None:
    box = house.box
    wish = ToolCall(id="c", name="write", arguments={"path": "a.md", "content": "x"})
    refused = await box.run(wish, SCENE, permit=lambda wish: f"not {wish.name} now")
    assert (refused.is_error, refused.text) == (True, "not write now")
    assert not list(house.root.iterdir())
    assert not (await box.run(wish, SCENE, permit=lambda _: None)).is_error


async def test_a_long_result_is_cut_in_the_middle_with_its_length() -> None:
    box = Toolbox([Teller("long", "a" * 5000 + "z" * 5000)])
    text = (await box.run(call("long", {}), SCENE, max_chars=1000)).text
    assert len(text) == 1000
    assert "[cut: 10,000 characters in all; the middle is left out]" in text
    assert text.startswith("aaa")
    assert text.endswith("zzz")
    assert len((await box.run(call("long", {}), SCENE)).text) == 10_000


async def test_a_tool_that_can_be_asked_for_the_rest_keeps_to_the_cap_itself(house: House) -> None:
    (house.root / "a.md").write_text("line\n" * 2000)
    wish = ToolCall(id="c", name="read", arguments={"path": "a.md"})
    answer = await house.box.run(wish, SCENE, max_chars=1000)
    assert answer.text.endswith("of 2000; go on with offset 161]")
    assert "only lines 1-160 of the 2000" in await house.refused("write", path="a.md", content="x", mode="overwrite")


@given(st.text(max_size=400), st.integers(min_value=100, max_value=500))
def test_a_cut_never_exceeds_its_cap_and_never_touches_what_fits(text: str, cap: int) -> None:
    cut = capped(text, cap)
    assert len(cut) <= cap
    assert cut == text or len(text) > cap


def test_the_cap_grows_with_the_window_and_stays_a_small_part_of_it() -> None:
    caps = [result_cap(window) for window in (4000, 8000, 32_000, 200_000, 1_000_000)]
    assert caps == [2000, 4000, 16_000, 32_000, 64_000]


def test_what_a_repeat_would_do_is_known(house: House) -> None:
    effects = {spec.name: house.box.effect_of(spec.name) for spec in house.box.specs}
    assert effects == {
        "edit": "effect",
        "grep": "pure",
        "list": "pure",
        "memory_get": "pure",
        "memory_search": "pure",
        "read": "pure",
        "write": "idempotent",
    }
    assert house.box.effect_of("unheard of") == "pure"


async def test_calls_run_side_by_side(house: House) -> None:
    answers = await asyncio.gather(*(house.call("write", path="a.md", content=f"line {n}", mode="append") for n in range(20)))
    assert not [answer.text for answer in answers if answer.is_error]
    assert sorted(house.text("a.md").splitlines()) == sorted(f"line {n}" for n in range(20))


SPECS = """
import json, sys, tempfile
from pathlib import Path
from tests.tools.house import House
with tempfile.TemporaryDirectory() as folder:
    print(json.dumps([[s.name, s.description, s.parameters] for s in House(Path(folder)).box.specs]))
"""


def test_what_models_are_told_is_sorted_short_and_the_same_bytes_in_every_process(house: House) -> None:
    here = json.dumps([[spec.name, spec.description, spec.parameters] for spec in house.box.specs])
    root = Path(__file__).parents[2]
    told = {
        subprocess.run(
            [sys.executable, "-c", SPECS], capture_output=True, text=True, check=True, cwd=root, env={"PYTHONHASHSEED": seed}
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert told == {here}
    assert [spec.name for spec in house.box.specs] == sorted(spec.name for spec in house.box.specs)
    assert '"title"' not in here
    assert "null" not in here
    assert len(here) < 5000, "all tools together must stay small: every turn pays for them"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(
    ["path", "content", "mode", "old", "new", "all", "offset", "limit", "depth", "query", "from", "lines", "minScore"]
)
arguments_of_any_kind = st.none() | st.dictionaries(names | st.text(max_size=6), json_values, max_size=4)


@settings(max_examples=examples(150))
@given(
    name=st.sampled_from(["read", "write", "edit", "list", "memory_search", "memory_get", "nothing", ""]),
    given_=arguments_of_any_kind,
)
def test_no_arguments_whatever_raise(name: str, given_: dict[str, Any] | None) -> None:
    async def check() -> ToolMessage:
        with tempfile.TemporaryDirectory() as folder:
            return await House(Path(folder)).box.run(call(name, given_, "raw"), SCENE)

    answer = asyncio.run(check())
    assert answer.text.strip()
    assert "defect" not in answer.text
    answer.text.encode()
