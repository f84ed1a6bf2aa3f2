"""Which agent and session a message goes to, and who hears it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from channels.messages import ChatAddress, Inbound, Sender
from gateway.base.errors import UsageError
from gateway.routing.access import Actor
from gateway.routing.router import Route, Router, folder_key
from gateway.settings.routing_settings import Binding
from memory.audience import OWNER, Audience

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def inbound(sender: str = "42", *, hints: dict[str, str] | None = None, **place: Any) -> Inbound:
    where = {"channel": "telegram", "kind": "direct", "id": sender} | place
    return Inbound(
        conversation=ChatAddress(**where),
        sender=Sender(id=sender),
        text="hi",
        at=NOON,
        key="u:1",
        alias="m:1",
        message_id="1",
        hints=hints or {},
    )


def owner(sender: str = "42", *, local: bool = False, channel: str = "telegram") -> Actor:
    return Actor(role="owner", person=f"{channel}-{sender}", sender=sender, local=local)


def guest(sender: str = "43", channel: str = "telegram", person: str | None = None) -> Actor:
    return Actor(role="peer", person=person or f"{channel}-{sender}", sender=sender)


def router(**more: Any) -> Router:
    return Router(**({"agents": ("main", "work"), "default_agent": "main"} | more))


def bindings(*rules: dict[str, Any]) -> list[Binding]:
    return [Binding.model_validate(rule) for rule in rules]


def test_the_owner_speaks_in_the_main_session() -> None:
    assert router().resolve(inbound(), owner()) == Route(agent="main", session="agent:main:main", audience=OWNER)


def test_a_guest_never_shares_the_main_session() -> None:
    route = router().resolve(inbound("43"), guest())
    assert route.session == "agent:main:telegram:dm:43"
    assert route.audience == Audience("peer", "telegram-43")


@pytest.mark.parametrize(
    ("scope", "session"), [("per-peer", "agent:main:dm:telegram-42"), ("per-channel-peer", "agent:main:telegram:dm:42")]
)
def test_the_owner_hears_the_owners_memory_in_a_session_of_their_own_too(scope: str, session: str) -> None:
    route = router(dm_scope=scope).resolve(inbound(), owner())
    assert (route.session, route.audience) == (session, OWNER)


def test_equal_ids_on_two_platforms_are_two_people() -> None:
    ways = router(dm_scope="per-peer")
    on_telegram = ways.resolve(inbound("43"), guest("43"))
    on_discord = ways.resolve(inbound("43", channel="discord"), guest("43", "discord"))
    assert on_telegram.session != on_discord.session
    assert on_telegram.audience != on_discord.audience


def test_a_linked_person_shares_session_and_folder_across_channels() -> None:
    ways = router(dm_scope="per-peer", identity_links={"ann": ("telegram:43", "slack:U9")})
    on_telegram = ways.resolve(inbound("43"), guest("43", person="ann"))
    on_slack = ways.resolve(inbound("U9", channel="slack"), guest("U9", "slack", person="ann"))
    assert on_telegram == on_slack == Route(agent="main", session="agent:main:dm:ann", audience=Audience("peer", "ann"))


def test_a_stranger_whose_id_is_a_linked_name_does_not_get_that_persons_folder() -> None:
    ways = router(identity_links={"ann": ("telegram:43",)})
    route = ways.resolve(inbound("ann", channel="irc"), guest("ann", "irc"))
    assert route.audience != Audience("peer", "ann")
    assert route.session != ways.resolve(inbound("43", channel="irc"), guest("43", person="ann")).session


def test_a_group_has_its_own_session_and_its_own_ears_even_when_the_owner_speaks() -> None:
    route = router().resolve(inbound(kind="group", id="-100", thread="7"), owner())
    assert route.session == "agent:main:telegram:group:-100:thread:7"
    assert route.audience == Audience("group", "telegram--100")


def test_the_nearest_binding_wins() -> None:
    rules = bindings(
        {"agentId": "any", "match": {"channel": "discord", "accountId": "*"}},
        {"agentId": "account", "match": {"channel": "discord"}},
        {"agentId": "guild", "match": {"channel": "discord", "guildId": "g1"}},
        {"agentId": "peer", "match": {"channel": "discord", "peer": {"kind": "group", "id": "c1"}}},
        {"agentId": "late", "match": {"channel": "discord", "peer": {"kind": "group", "id": "c1"}}},
        {"agentId": "gone", "match": {"channel": "discord", "peer": {"kind": "group", "id": "c2"}}},
    )
    ways = router(agents=("main", "any", "account", "guild", "peer", "late"), bindings=rules)

    def agent(**place: Any) -> str:
        return ways.resolve(inbound(**({"channel": "discord", "kind": "group"} | place)), owner()).agent

    assert agent(id="c1", space="g1") == "peer"
    assert agent(id="c2", space="g1") == "guild"
    assert agent(id="c2") == "account"
    assert agent(id="c2", account="second") == "any"
    assert agent(id="c2", channel="telegram") == "main"


def test_a_rule_without_account_holds_for_the_default_account_only() -> None:
    ways = router(bindings=bindings({"agentId": "work", "match": {"channel": "telegram"}}))
    assert ways.resolve(inbound(), owner()).agent == "work"
    assert ways.resolve(inbound(account="second"), owner()).agent == "main"


def test_a_local_client_may_choose_agent_and_session() -> None:
    ways, local = router(), owner("owner", local=True, channel="terminal")

    def session(**hints: str) -> str:
        return ways.resolve(inbound("owner", channel="terminal", id="local", hints=hints), local).session

    assert session() == "agent:main:main"
    assert session(agent="work") == "agent:work:main"
    assert session(session="Travel") == "agent:main:travel"
    assert session(agent="work", session="travel") == "agent:work:travel"
    assert session(session="agent:work:main") == "agent:work:main"


def test_a_local_client_that_looks_into_a_group_hears_what_the_group_hears() -> None:
    ways, local = router(), owner("owner", local=True, channel="terminal")
    seen = inbound("owner", channel="terminal", id="local", hints={"session": "agent:main:telegram:group:-100"})
    assert ways.resolve(seen, local).audience == ways.resolve(inbound(kind="group", id="-100"), owner()).audience
    peer = inbound("owner", channel="terminal", id="local", hints={"session": "agent:main:telegram:dm:43"})
    assert ways.resolve(peer, local).audience == ways.resolve(inbound("43"), guest()).audience


@pytest.mark.parametrize(
    "hints",
    [
        {"agent": "nobody"},
        {"session": "agent:nobody:main"},
        {"agent": "work", "session": "agent:main:main"},
        {"session": "a/b"},
    ],
)
def test_a_hint_that_cannot_be_followed_is_told(hints: dict[str, str]) -> None:
    with pytest.raises(UsageError) as caught:
        router().resolve(inbound("owner", channel="terminal", hints=hints), owner(local=True))
    assert caught.value.hint


def test_hints_of_others_are_not_heeded() -> None:
    assert router().resolve(inbound(hints={"agent": "work", "session": "x"}), owner()).session == "agent:main:main"


IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60) | st.from_regex(r"[A-Za-z0-9:%~_-]{1,12}", fullmatch=True)


@given(st.sets(IDS, min_size=2, max_size=2))
def test_different_names_have_different_folders(names: set[str]) -> None:
    one, other = (folder_key(name) for name in names)
    assert one != other
    assert Audience("peer", one).key == one


@given(
    st.sets(IDS, min_size=2, max_size=2),
    st.sampled_from(["direct", "group"]),
    st.sampled_from(["per-peer", "per-channel-peer"]),
)
def test_different_conversations_never_share_a_session(ids: set[str], kind: str, scope: str) -> None:
    one, other = ids
    assume(one.lower() != other.lower() or not (one in {one.lower(), one.upper()} and other in {other.lower(), other.upper()}))
    ways = router(dm_scope=scope, identity_links={"ann": ("telegram:1",)})
    first, second = (ways.resolve(inbound(name, kind=kind, id=name), guest(name)) for name in (one, other))
    assert first.session != second.session
    assert first.audience != second.audience
    assert first.session == first.session.lower()


@given(IDS, IDS, IDS)
def test_an_id_cannot_pretend_to_be_a_thread(group: str, thread: str, other: str) -> None:
    assume(other != group)
    real = router().resolve(inbound(kind="group", id=group, thread=thread), owner()).session
    assert router().resolve(inbound(kind="group", id=f"{group}:thread:{thread}"), owner()).session != real
