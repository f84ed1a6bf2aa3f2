"""However an answer is cut into chunks, it is the same answer."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent.messages import AssistantMessage, Thinking
from agent.models.adapters.openai_chat_answer import ChatAnswer
from tests.models.conversation import shown, values

names = st.sampled_from(["read", "write", "list"])
arguments = st.dictionaries(st.text(max_size=3), values, max_size=2)
pieces_of = st.text(st.sampled_from("<think>/ \nab"), max_size=40)


def cut(data: st.DataObject, text: str) -> list[str]:
    """Cut a text anywhere."""
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"delta": delta, "finish_reason": finish}]}


def answered(chunks: list[dict[str, Any]]) -> tuple[list[Any], AssistantMessage]:
    answer = ChatAnswer("custom/m", "The server", None)
    deltas = [delta for one in [*chunks, chunk("stop")] for delta in answer.feed(one)]
    deltas += answer.rest()
    return deltas, answer.finish()


@given(st.data(), st.lists(st.tuples(names, arguments), min_size=1, max_size=4), st.sampled_from(["index", "order"]))
def test_calls_are_the_same_however_they_are_cut(data: st.DataObject, made: list[tuple[str, dict[str, Any]]], way: str) -> None:
    queues: list[list[dict[str, Any]]] = []
    for place, (name, given_arguments) in enumerate(made):
        index = {"index": place} if way == "index" else {}
        written = cut(data, json.dumps(given_arguments))
        begin = dict(**index, id=f"c{place}", function={"name": name, "arguments": written[0]})
        queues.append([begin, *(dict(**index, function={"arguments": piece}) for piece in written[1:])])
    pieces: list[dict[str, Any]] = []
    while any(queues):
        waiting = [queue for queue in queues if queue]
        queue = data.draw(st.sampled_from(waiting)) if way == "index" else waiting[0]
        pieces.append(queue.pop(0))
    _, answer = answered([chunk(tool_calls=[piece]) for piece in pieces])
    assert sorted((call.id, call.name, json.dumps(call.arguments)) for call in answer.calls) == [
        (f"c{place}", name, json.dumps(given_arguments)) for place, (name, given_arguments) in enumerate(made)
    ]


@given(st.data(), pieces_of)
def test_text_and_thinking_are_the_same_however_they_are_cut(data: st.DataObject, text: str) -> None:
    whole_deltas, whole = answered([chunk(content=text)])
    deltas, answer = answered([chunk(content=piece) for piece in cut(data, text) if piece])
    assert answer.text == whole.text == shown(deltas) == shown(whole_deltas)
    assert [part for part in answer.content if isinstance(part, Thinking)] == [
        part for part in whole.content if isinstance(part, Thinking)
    ]


@given(pieces_of)
def test_without_a_tag_at_the_beginning_every_character_is_text(text: str) -> None:
    _, answer = answered([chunk(content=text)])
    if not text.lstrip().startswith("<think>"):
        assert answer.text == text
