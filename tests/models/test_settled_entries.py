"""A request is the same, byte for byte as far as JSON goes, whether or not the history was kept from the request before."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from msgspec import Raw, structs

from agent.models.adapters import anthropic_request, openai_chat, openai_responses
from agent.models.adapters.request_json import encoded
from agent.models.adapters.settled_entries import SettledEntries, settled_until
from tests.models.conversation import ask, assistant, call, requests, result, user, views
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent.messages import Message
    from agent.models.protocol import Request


def messages_api(request: Request, settled: SettledEntries | None) -> dict[str, Any]:
    name = "anthropic/claude-sonnet-5-5"
    return anthropic_request.body(request, model="m", name=name, max_output=9000, level="low", style="budget", settled=settled)


def completions(request: Request, settled: SettledEntries | None) -> dict[str, Any]:
    return openai_chat.body(
        request, model="m", name="ollama/qwen3", max_output=9, images=True, hosted_by_openai=False, marks=True, settled=settled
    )


def responses(request: Request, settled: SettledEntries | None) -> dict[str, Any]:
    return openai_responses.body(request, model="m", name="openai/gpt-6.1-terra", max_output=9000, images=True, settled=settled)


APIS = (messages_api, completions, responses)


def history(body: dict[str, Any]) -> list[Any]:
    entries: list[Any] = body["input"] if "input" in body else body["messages"]
    return entries


def as_sent(body: dict[str, Any]) -> Any:
    return json.loads(encoded(body))


def asked(messages: Sequence[Message], key: str = "s") -> Request:
    return ask(*messages, cache_key=key)


def talk(turns: int) -> list[Message]:
    return [one for n in range(turns) for one in (user(f"question {n}"), assistant(f"answer {n}"))]


@pytest.mark.parametrize("body", APIS)
@settings(max_examples=examples(60))
@given(request=requests, first=views(), then=views())
def test_the_history_that_was_kept_is_what_would_be_made_of_it_anew(
    body: Callable[..., dict[str, Any]], request: Request, first: tuple[Message, ...], then: tuple[Message, ...]
) -> None:
    settled = SettledEntries(least=1)
    whole = (*first, assistant("so be it"), *then, assistant("", call(call_id="a")), result("b", "a"), user("and"))
    for end in range(1, len(whole) + 1):
        grown = structs.replace(request, messages=whole[:end], cache_key="s")
        assert as_sent(body(grown, settled)) == as_sent(body(grown, None))


@pytest.mark.parametrize("body", APIS)
def test_all_but_the_last_two_turns_are_kept(body: Callable[..., dict[str, Any]]) -> None:
    settled, said = SettledEntries(), talk(30)
    former = history(body(asked([*said[:-2], user("last but one")]), settled))
    request = asked([*said, user("last")])
    entries = history(body(request, settled))
    assert [isinstance(one, Raw) for one in entries] == [True] * 58 + [False] * 3
    assert all(one is other for one, other in zip(former[:56], entries[:56], strict=True))  # nothing is made twice
    assert as_sent(body(request, settled)) == as_sent(body(request, None))


@pytest.mark.parametrize("body", APIS)
def test_a_history_that_changed_is_made_anew(body: Callable[..., dict[str, Any]]) -> None:
    settled, said = SettledEntries(), talk(30)
    body(asked([*said, user("on")]), settled)
    changed = asked([user("a summary"), *said[1:], user("on")])
    assert as_sent(body(changed, settled)) == as_sent(body(changed, None))
    shorter = asked([*said[:40], user("on")])
    assert as_sent(body(shorter, settled)) == as_sent(body(shorter, None))


@pytest.mark.parametrize("body", APIS)
def test_sessions_keep_apart(body: Callable[..., dict[str, Any]]) -> None:
    settled = SettledEntries()
    one, other = (asked([*talk(20), user(key)], key) for key in "ab")
    for request in (one, other, one):
        assert as_sent(body(request, settled)) == as_sent(body(request, None))


def test_a_short_history_and_one_without_a_session_are_not_kept() -> None:
    settled = SettledEntries()
    messages_api(asked([*talk(10), user("on")]), settled)
    messages_api(asked([*talk(50), user("on")], key=""), settled)
    messages_api(structs.replace(asked([*talk(50), user("on")]), kept_parts=1), settled)
    assert settled.size == 0


def test_no_more_is_kept_than_fits_and_what_was_used_last_stays() -> None:
    settled = SettledEntries(most=10_000)
    for key in "abcab":
        messages_api(asked([*talk(20), user("on")], key), settled)
        assert 0 < settled.size <= 10_000
    messages_api(asked([*talk(2000), user("on")], "long"), settled)
    assert settled.size == 0


def test_what_was_kept_of_a_session_is_forgotten_an_hour_after_its_last_request() -> None:
    settled = SettledEntries()
    said = user("on")
    messages_api(asked([*talk(20), said], "quiet"), settled)
    one = settled.size
    messages_api(asked([*talk(20), structs.replace(said, at=said.at + timedelta(minutes=40))], "goes on"), settled)
    assert settled.size == 2 * one
    messages_api(asked([structs.replace(said, at=said.at + timedelta(minutes=80))], "begins"), settled)
    assert settled.size == one
    request = asked([*talk(20), structs.replace(said, at=said.at + timedelta(hours=3))], "goes on")
    assert as_sent(messages_api(request, settled)) == as_sent(messages_api(request, None))


def test_a_turn_that_calls_tools_is_settled_with_its_answer_alone() -> None:
    said = [*talk(2), user("look"), assistant("", call()), result("found"), user("quick"), assistant("done"), user("on")]
    assert settled_until(said[:5]) == 2
    assert settled_until(said[:7]) == 4  # results and what is said next stand together
    assert settled_until(said) == 4
    assert settled_until([*said, assistant("yes"), user("again")]) == 9


def test_a_name_that_is_no_unicode_is_sent_all_the_same() -> None:
    request = asked([*talk(20), user("on")])
    body = openai_chat.body(
        request, model="m\ud800", name="a/b", max_output=100, images=True, hosted_by_openai=False, settled=SettledEntries()
    )
    assert as_sent(body)["model"] == "m\ud800"
