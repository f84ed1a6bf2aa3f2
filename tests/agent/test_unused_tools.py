"""A model that calls no tools although it was told to is recognised."""

from __future__ import annotations

import pytest

from agent.messages import AssistantMessage, Text, ToolCall
from agent.transcript.unused_tools import asked_in_vain
from tests.agent.test_history_view import answer, entries, user


def said(text: str) -> AssistantMessage:
    return AssistantMessage(content=(Text(text=text),), model="smol/m", stop="end")


CALLED = AssistantMessage(content=(ToolCall(id="a", name="write", arguments={}),), model="smol/m", stop="tools")


@pytest.mark.parametrize(
    ("bodies", "count"),
    [
        ((user("Remember that Vera lives in Graz."), said("Noted!"), user("Remind me at nine."), said("I will.")), 2),
        ((user("Merk dir: der Code ist 4712"), said("Gut."), user("Schreib das auf."), said("Ja.")), 2),
        ((user("Remember that Vera lives in Graz."), CALLED, user("Remind me at nine."), said("I will.")), 0),
        ((user("Remember that Vera lives in Graz."), said("Noted!")), 0),
        ((user("hello"), said("Hello!"), user("how are you?"), said("Well."), user("fine"), said("Good.")), 0),
        ((user("Remember that."), answer("by another model"), user("Remember this."), answer("by another")), 0),
    ],
)
def test_a_model_that_calls_nothing_though_it_was_asked_to(bodies: tuple[object, ...], count: int) -> None:
    assert asked_in_vain(entries(*bodies), "smol/m") == count  # type: ignore[arg-type]
