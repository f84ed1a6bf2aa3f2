import math

from hypothesis import given
from hypothesis import strategies as st

from memory.embedding.engines.bag_of_words import BagOfWords


def cosine(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


async def test_texts_that_share_words_are_closer_than_texts_that_do_not() -> None:
    question, answer, other = await BagOfWords().embed(
        ["Where did we plan the gardens?", "We planned a garden behind the house", "Invoices are due in March"],
        purpose="passage",
    )
    assert cosine(question, answer) > 0.2
    assert cosine(question, answer) > cosine(question, other) + 0.2


async def test_a_script_without_spaces_shares_pairs_of_characters() -> None:
    left, right, other = await BagOfWords(dims=512).embed(
        ["我喜欢在东京喝咖啡", "东京喝咖啡", "明天北京下雨了"], purpose="query"
    )
    assert cosine(left, right) > cosine(left, other) + 0.2


async def test_the_vector_is_the_same_in_every_process() -> None:
    (vector,) = await BagOfWords(dims=8).embed(["the cat sat"], purpose="passage")
    assert [round(x, 3) for x in vector] == [0, 0, 0, 0, 0, 0.577, -0.577, -0.577]


@given(st.text(), st.integers(2, 64))
async def test_every_text_has_a_unit_vector(text: str, dims: int) -> None:
    (vector,) = await BagOfWords(dims=dims).embed([text], purpose="passage")
    assert len(vector) == dims
    assert math.isclose(math.sqrt(cosine(vector, vector)), 1.0, rel_tol=1e-9)


async def test_it_counts_what_it_was_asked_for() -> None:
    fake = BagOfWords()
    await fake.embed(["a", "b"], purpose="passage")
    await fake.embed(["c"], purpose="query")
    assert fake.calls == {"query": 1, "passage": 2}
