"""What a sentence asks of the notebook."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.models.notebook.intents import Ask, File, Forget, Show, Talk, understand
from agent.models.notebook.reminders import Remind
from agent.models.notebook.said_time import NOTHING


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("remember that the spare key is under the blue pot", ["The spare key is under the blue pot"]),
        ("Please remember to buy milk", ["Buy milk"]),
        ("can you remember that I like tea?", ["I like tea"]),
        ("note: the plumber comes on Tuesday", ["The plumber comes on Tuesday"]),
        ("Don't forget the meeting at 10", ["The meeting at 10"]),
        ("fyi the alarm code is 4711", ["The alarm code is 4711"]),
        ("save this: door code 4711", ["Door code 4711"]),
        ("the wifi password is hunter2", ["The wifi password is hunter2"]),
        ("I moved the bikes to the shed", ["I moved the bikes to the shed"]),
        ("Der Ersatzschlüssel liegt unter dem Topf.", ["Der Ersatzschlüssel liegt unter dem Topf."]),
        ("Vergiss nicht, dass Anna am Montag kommt", ["Anna am Montag kommt"]),
        ("anota que el médico llamó", ["El médico llamó"]),
        ("lembre que o voo é às 9h", ["O voo é às 9h"]),
        ("ricordati che la riunione è alle 9", ["La riunione è alle 9"]),
        ("请记住我的车停在三楼", ["我的车停在三楼"]),
        ("기억해: 열쇠는 화분 아래", ["열쇠는 화분 아래"]),
        ("[Fri 2026-11-20 14:05 CET, Anna] remember that x is y", ["X is y"]),
        ("remember:\n- milk\n- eggs", ["Milk", "eggs"]),
        ("remember the pattern `a*b` and <b>this</b>", ["The pattern `a*b` and <b>this</b>"]),
    ],
)
def test_this_is_filed(text: str, lines: list[str]) -> None:
    assert understand(text) == File(tuple(lines))


@pytest.mark.parametrize(
    "text",
    [
        "where is the spare key?",
        "wo ist der Schlüssel",
        "¿Dónde está la llave?",
        "鍵はどこですか",
        "钥匙在哪里",
        "أين المفتاح؟",
        "где ключ?",
        "do you remember my birthday",
        "remember where I put the key?",
        "when does the plumber come",
        "is the key under the pot",
        "the key?",
        "search for passport",
        "what do you know about my car",
    ],
)
def test_this_is_a_question(text: str) -> None:
    assert isinstance(understand(text), Ask)


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("list", Show("all")),
        ("what do you know?", Show("all")),
        ("Show my notes", Show("all")),
        ("today", Show("today")),
        ("what did I tell you yesterday?", Show("yesterday")),
        ("read MEMORY.md", Show("file", "MEMORY.md")),
        ("forget the spare key", Forget("the spare key")),
        ("remind me to call mom", Remind("Call mom", NOTHING, "to call mom")),
        ("remind me what the code is", Ask("remind me what the code is")),
        ("Hello there!", Talk("greeting")),
        ("Danke!", Talk("thanks")),
        ("forget it", Talk("thanks")),
        ("what can you do?", Talk("help")),
        ("?", Talk("help")),
        ("remember that", Talk("help")),
        ("", Talk("empty")),
        (" \n...", Talk("empty")),
        ("write me a poem about the sea.", Talk("beyond")),
        ("Please translate this letter.", Talk("beyond")),
        ("lorem ipsum", Ask("lorem ipsum", bare=True)),
        ("2+2", Talk("beyond")),
    ],
)
def test_this_is_something_else(text: str, intent: object) -> None:
    assert understand(text) == intent


@given(st.text(st.characters(exclude_categories=()), max_size=80))
def test_every_text_is_understood_somehow(text: str) -> None:
    assert isinstance(understand(text), File | Ask | Forget | Show | Talk)


@given(
    st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=30),
    st.text(st.characters(categories=["L", "N"]), max_size=30),
)
@example("of", "0")
@example("that", "is it")
def test_what_is_filed_is_the_owners_own_words(first: str, second: str) -> None:
    fact = f"{first} {second}".strip()
    intent = understand(f"note: {fact}")
    if isinstance(intent, File):
        assert intent.lines[0].casefold() == fact.casefold() or intent.lines[0][1:] == fact[1:]
    else:
        assert intent == Talk("help")


@pytest.mark.parametrize(
    "text", ["a " * 2_500_000, "钥匙" * 1_000_000, "remember " + "x" * 5_000_000, "? " * 1_000_000, "\n" * 5_000_000]
)
def test_five_megabytes_are_understood_in_linear_time(text: str) -> None:
    started = time.process_time()
    understand(text)
    assert time.process_time() - started < 20, "quadratic time would take hours"
