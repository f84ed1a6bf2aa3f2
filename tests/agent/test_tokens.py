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

GERMAN = (
    "Die Maler kommen am Dienstag, weil die Küche trocken sein muss, bevor die neuen Schränke geliefert werden. Bitte ruf den Tischler an "
    "und frag ihn, ob er bis zum Monatsende warten kann, und schreib auf, was er über die Kosten und den Liefertermin gesagt hat. "
)
FRENCH = (
    "Les peintres viennent mardi, parce que la cuisine doit être sèche avant que les nouveaux placards soient livrés. Appelle le "
    "menuisier, s'il te plaît, demande-lui s'il peut attendre la fin du mois et note ce qu'il dit de l'argent. "
)
CHINESE = "油漆工星期二来,因为新橱柜送到之前厨房必须干透。请给木匠打电话,问他能不能等到月底,并把他说的价钱记下来。"
RUSSIAN = (
    "Маляры придут во вторник, потому что кухня должна высохнуть до того, как привезут новые шкафы. Позвони столяру и спроси, может ли он "
    "подождать до конца месяца. "
)
LOG = "2026-03-01T04:00:12.418Z INFO gateway.jobs job=backup-nightly run=381 took=12.73s size=48,213,904 next=2026-03-02T04:00:00Z\n"
ROWS = json.dumps(
    [
        {"id": 48213 + i * 7919, "name": "spare key", "where": "under the blue pot", "ok": i % 3 == 0, "price": 19.9 + i}
        for i in range(6)
    ]
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


@pytest.mark.parametrize(
    ("text", "claude", "o200k"),
    [
        (ENGLISH, 51, 49),
        (GERMAN, 80, 61),
        (FRENCH, 76, 57),
        (CHINESE, 61, 46),
        (JAPANESE, 74, 51),
        (RUSSIAN, 82, 47),
        (CODE, 41, 41),
        (ROWS, 214, 223),
        (LOG * 3, 171, 165),
        (base64.b64encode(random.Random(5).randbytes(900)).decode(), 859, 823),
        (random.Random(5).randbytes(400).hex(), 466, 455),
    ],
    ids=["english", "german", "french", "chinese", "japanese", "russian", "code", "json", "log", "base64", "hex"],
)
def test_the_first_estimate_is_near_what_two_tokenizers_count(text: str, claude: int, o200k: int) -> None:
    """Counted by @anthropic-ai/tokenizer 0.0.4 and by o200k_base of gpt-tokenizer. The two differ most in other alphabets."""
    weight = weigh(text)
    assert Calibration.for_model("anthropic/claude-opus-4-5").apply(weight) == pytest.approx(claude, rel=0.2)
    assert Calibration.for_model("openai/gpt-5").apply(weight) == pytest.approx(o200k, rel=0.2 if text is not RUSSIAN else 0.4)


def test_a_line_of_dashes_is_not_encoded_data() -> None:
    assert weigh("-" * 200).opaque == 0
    assert weigh("-" * 200).total < 30


@given(st.text(max_size=200))
def test_a_long_text_is_judged_like_its_parts(part: str) -> None:
    line = f"{part.strip()} and then.\n"
    assert weigh(line * 4000).total == pytest.approx(weigh(line * 40).total * 100, rel=0.15)


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
    assert token_estimate.weight_of(shown).total - token_estimate.weight_of(plain).total == token_estimate.IMAGE_TOKENS
    result = ToolMessage(call_id="c", name="read", text="", images=(picture, picture))
    assert token_estimate.weight_of(result).total >= 2 * token_estimate.IMAGE_TOKENS


def test_context_is_the_last_call_and_never_a_sum_over_a_tool_loop() -> None:
    """Known defect 77299: sums over a tool loop were shown as context."""
    loop = [
        AssistantMessage(content=(), model="m", stop="tools", usage=Usage(input=10_000 + n, cache_read=90_000, output=10))
        for n in range(20)
    ]
    size = token_estimate.context_tokens(loop, Weight(prose=5), Calibration())
    assert size == 10_019 + 90_000 + 10
