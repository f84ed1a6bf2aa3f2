"""Whose session a program's conversation is, whatever the program calls it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.openai_api.channel import OWNER, Question
from gateway.base.client_tokens import checked
from gateway.base.errors import UsageError
from gateway.routing.access import Actor
from gateway.routing.router import Router, is_owners

NAMES = st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,12}", fullmatch=True).filter(lambda name: name != OWNER)
SESSIONS = st.one_of(
    st.just(""), st.text(max_size=30), st.sampled_from(["dm", "group:x", "main", "owner", "a:dm:b", ":thread:x", "gateway"])
)
SCOPES = st.sampled_from(["main", "per-peer", "per-channel-peer"])
LINKS = st.sampled_from([{}, {"anna": ["api:anna", "telegram:1"]}, {"someone": ["telegram:1"]}])


def router(scope: str = "main", links: dict[str, list[str]] | None = None) -> Router:
    return Router(agents=["main", "work"], default_agent="main", dm_scope=scope, identity_links=links or {})  # type: ignore[arg-type]


def asked(agent: str, session: str, sender: str) -> Question:
    return Question(agent=agent, token="0a1b2c3d", sender=sender, text="hello", session=session)


@given(NAMES, SESSIONS, SCOPES, LINKS)
def test_a_guest_is_never_given_what_is_the_owners(name: str, session: str, scope: str, links: dict[str, list[str]]) -> None:
    assert checked(name, "a name") == name
    found = router(scope, links)
    person = next((who for who, ids in links.items() if f"api:{name}" in ids), f"api-{name}")
    route = found.route("main", asked("main", session, name).place, Actor(role="peer", person=person, sender=name))
    assert route.audience.kind == "peer"
    assert found.audience(route.session) == route.audience
    assert not is_owners(route.session)
    plain = found.route("main", asked("main", "", name).place, Actor(role="peer", person=person, sender=name))
    assert plain.audience == route.audience  # however many conversations, they are one person's


@given(SESSIONS, SCOPES, LINKS)
def test_the_owners_sessions_are_the_owners_by_their_keys_too(session: str, scope: str, links: dict[str, list[str]]) -> None:
    found = router(scope, links)
    route = found.route("work", asked("work", session, OWNER).place, Actor(role="owner", person="api-owner", sender=OWNER))
    assert route.session.startswith("agent:work:api:0a1b2c3d")
    assert (route.audience.kind, found.audience(route.session).kind) == ("owner", "owner")
    assert is_owners(route.session)


@given(st.lists(SESSIONS, min_size=2, max_size=2, unique=True), NAMES)
def test_different_names_are_different_conversations(sessions: list[str], name: str) -> None:
    one, two = (asked("main", session, name) for session in sessions)
    assert one.place != two.place
    assert one.key != two.key
    actor = Actor(role="peer", person=f"api-{name}", sender=name)
    assert router().route("main", one.place, actor).session != router().route("main", two.place, actor).session


def test_a_linked_guest_has_one_folder_of_notes_on_all_channels() -> None:
    links = {"anna": ["api:anna", "telegram:1"]}
    actor = Actor(role="peer", person="anna", sender="anna")
    assert router("main", links).route("main", asked("main", "", "anna").place, actor).audience.key == "anna"


def test_an_agent_that_is_gone_is_answered_by_no_other() -> None:
    with pytest.raises(UsageError):
        router().answering(asked("old", "", OWNER).place)
    assert router().answering(asked("work", "", OWNER).place) == ("work",)
