"""Rules for topics, several accounts, and conversations that several agents answer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from channels.messages import ChatAddress, Inbound, Sender
from gateway.routing.access import Actor
from gateway.routing.router import Router
from gateway.settings.routing_settings import Binding, Broadcast
from memory.audience import Audience

ACTOR = Actor(role="peer", person="telegram-43", sender="43")


def group(group_id: str = "-100", **more: Any) -> ChatAddress:
    return ChatAddress(**({"channel": "telegram", "kind": "group", "id": group_id} | more))


def router(*rules: dict[str, Any], **more: Any) -> Router:
    agents = ("main", "work", "garden")
    return Router(agents=agents, default_agent="main", bindings=[Binding.model_validate(rule) for rule in rules], **more)


PEER = {"kind": "group", "id": "-100"}


def test_a_topic_has_an_agent_of_its_own() -> None:
    ways = router(
        {"agentId": "work", "match": {"channel": "telegram", "peer": PEER}},
        {"agentId": "garden", "match": {"channel": "telegram", "peer": PEER, "thread": "7"}},
    )
    assert ways.answering(group(thread="7")) == ("garden",)
    assert ways.answering(group(thread="8")) == ("work",)
    assert ways.answering(group()) == ("work",)
    assert ways.answering(group("-200", thread="7")) == ("main",)


def test_a_topic_without_its_group_is_refused() -> None:
    with pytest.raises(ValidationError, match="give the group under peer"):
        Binding.model_validate({"agentId": "work", "match": {"channel": "telegram", "thread": "7"}})


def test_each_account_of_a_channel_may_have_its_agent() -> None:
    ways = router(
        {"agentId": "work", "match": {"channel": "telegram", "accountId": "office"}},
        {"agentId": "garden", "match": {"channel": "telegram", "accountId": "*"}},
        {"agentId": "main", "match": {"channel": "telegram"}},
    )
    assert [ways.answering(group(account=one))[0] for one in ("office", "default", "other")] == ["work", "main", "garden"]


def test_it_is_told_how_each_rule_was_weighed() -> None:
    ways = router(
        {"agentId": "work", "match": {"channel": "slack"}},
        {"agentId": "work", "match": {"channel": "telegram"}},
        {"agentId": "garden", "match": {"channel": "telegram", "peer": PEER}},
        {"agentId": "nobody", "match": {"channel": "telegram", "peer": PEER, "thread": "7"}},
        {"agentId": "garden", "match": {"channel": "telegram", "accountId": "office"}},
    )
    told = ways.weighed(group(thread="7"))
    assert [one.wins for one in told] == [False, False, True, False, False]
    assert [one.holds for one in told] == [False, True, True, False, False]
    assert [one.why for one in told] == [
        "it is for the channel slack",
        "it matches the account; another rule is more specific",
        "it matches the peer",
        "it matches the topic; but there is no such agent",
        "it is for the account office",
    ]


def said_in(place: ChatAddress) -> Inbound:
    return Inbound(
        conversation=place,
        sender=Sender(id="42"),
        text="hello",
        at=datetime(2026, 3, 1, tzinfo=UTC),
        key="k",
        alias="a",
        message_id="1",
    )


@pytest.mark.parametrize("key", ["telegram:group:-100", "telegram:-100", "-100"])
def test_several_agents_answer_each_in_a_session_of_its_own(key: str) -> None:
    ways = router({"agentId": "garden", "match": {"channel": "telegram"}}, broadcast={key: ("Work", "main", "work", "gone")})
    assert ways.answering(group()) == ("work", "main")
    first, echo = ways.routes(said_in(group()), ACTOR)
    assert first == ways.resolve(said_in(group()), ACTOR)
    assert (echo.agent, echo.session) == ("main", "agent:main:telegram:group:-100")
    assert echo.audience == Audience("group", "telegram--100")
    assert ways.answering(group("-200")) == ("garden",)
    assert [route.agent for route in ways.routes(said_in(group("-200")), ACTOR)] == ["garden"]


def test_where_none_of_the_named_agents_is_there_the_rules_decide() -> None:
    assert router(broadcast={"-100": ("gone",)}).answering(group()) == ("main",)


@pytest.mark.parametrize("given", [{"strategy": "sequential"}, {"-100": "work"}, {"-100": []}])
def test_what_cannot_be_meant_by_broadcast_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Broadcast).validate_python(given)


def test_the_documented_form_is_taken() -> None:
    given = {"strategy": "parallel", "120363@g.us": ["main", "work"]}
    assert TypeAdapter(Broadcast).validate_python(given)["120363@g.us"] == ("main", "work")
