from __future__ import annotations

import base64
import json
import random
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.messages import AssistantMessage, Image, Text, ToolMessage, Usage, UserMessage
from agent.models import token_estimate
from agent.models.token_estimate import Calibration, Weight, weigh
from tests.peers.counting import count

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ENGLISH = (
    "We agreed that the painters come on Tuesday because the kitchen has to be dry before the new cupboards arrive. Please call "
    "the carpenter and ask whether he can wait until the end of the month, and write down what he says about the money. "
)
JAPANESE = (
    "来週の火曜日に塗装屋さんが来ることになりました。台所が乾くまで新しい棚は待ってもらいます。"
    "大工さんに電話して月末まで待てるか聞いてください。"
)
CODE = (
    "def added(one: int | None, other: int | None) -> int | None:\n    if one is None or other is None:\n"
    "        return one or other\n    return one + other\n\n"
)


def sample(kind: str, dice: random.Random) -> str:
    size = dice.randrange(1500, 5000)
    if kind == "english":
        words = ENGLISH.split()
        return " ".join(dice.choice(words) for _ in range(size // 5))
    if kind == "cjk":
        return "".join(dice.choice(JAPANESE) for _ in range(size // 3))
    if kind == "code":
        return CODE * (size // len(CODE))
    if kind == "json":
        rows = [{"id": dice.randrange(10**6), "name": dice.choice(ENGLISH.split()), "ok": True} for _ in range(size // 40)]
        return json.dumps(rows)
    return base64.b64encode(dice.randbytes(size)).decode()


@pytest.mark.parametrize(
    ("kind", "within"), [("english", 0.05), ("cjk", 0.15), ("code", 0.15), ("json", 0.15), ("base64", 0.15)]
)
@pytest.mark.parametrize("seed", range(4))
def test_after_three_calls_the_estimate_of_what_came_since_is_close(kind: str, within: float, seed: int) -> None:
    dice = random.Random(seed)
    system = "You are a helpful agent of a household. " + ENGLISH * 12
    calibration = Calibration().learn(weigh(system), count(system))
    for _ in range(3):
        text = sample(kind, dice)
        calibration = calibration.learn(weigh(text), count(text))
    text = sample(kind, dice)
    assert calibration.apply(weigh(text)) == pytest.approx(count(text), rel=within)


def test_what_is_learnt_of_one_kind_leaves_the_others_alone() -> None:
    dice = random.Random(1)
    calibration = Calibration().learn(weigh(ENGLISH * 10), count(ENGLISH * 10))
    before = calibration.prose
    for _ in range(3):
        blob = sample("base64", dice)
        calibration = calibration.learn(weigh(blob), count(blob))
    assert calibration.prose == before


@given(st.text(max_size=300), st.text(max_size=300))
def test_an_estimate_is_never_negative_and_nothing_is_lost_by_kind(one: str, two: str) -> None:
    weight = weigh(one) + weigh(two)
    assert min(weight.prose, weight.code, weight.opaque, weight.dense, weight.plain) >= 0
    assert (weight - weigh(two)).total == pytest.approx(weigh(one).total, abs=1)
    assert token_estimate.estimate(one) >= bool(one)


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 20_000)), max_size=30))
def test_no_report_makes_the_calibration_run_away(reports: list[tuple[int, int]]) -> None:
    calibration = Calibration()
    for size, reported in reports:
        calibration = calibration.learn(Weight(prose=size, code=size / 2), reported)
    assert 0.2 <= calibration.prose <= 4
    assert 0.2 <= calibration.code <= 4


def test_pictures_count() -> None:
    picture = Image(media_type="image/png", data="x" * 900_000)
    plain = UserMessage(content=(Text(text="look"),), at=NOON)
    shown = UserMessage(content=(Text(text="look"), picture), at=NOON)
    assert token_estimate.of_message(shown) - token_estimate.of_message(plain) == token_estimate.IMAGE_TOKENS
    result = ToolMessage(call_id="c", name="read", text="", images=(picture, picture))
    assert token_estimate.of_message(result) >= 2 * token_estimate.IMAGE_TOKENS


def test_context_is_the_last_call_and_never_a_sum_over_a_tool_loop() -> None:
    """Known defect 77299: sums over a tool loop were shown as context."""
    loop = [
        AssistantMessage(content=(), model="m", stop="tools", usage=Usage(input=10_000 + n, cache_read=90_000, output=10))
        for n in range(20)
    ]
    size = token_estimate.context_tokens(loop, Weight(prose=5), Calibration())
    assert size == 10_019 + 90_000 + 10
