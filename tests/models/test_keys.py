"""Several keys for one provider: where they are, in which order they are tried, and what a refusal does to them."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import ModelNotConfigured
from agent.events import Restarted, TextDelta
from agent.messages import Failure
from agent.models.adapter_factory import build_adapter
from agent.models.adapters.anthropic import AnthropicModel
from agent.models.catalog.known_models import facts_of
from agent.models.catalog.model_selection import find
from agent.models.catalog.provider_keys import Key, keys_of
from agent.models.middleware.key_health import EVERY_MODEL, KeyHealth
from agent.models.middleware.key_rotation import KeyRotationMiddleware
from agent.models.scripted import ScriptedModel
from agent.settings import ModelsSettings
from gateway.base.clock import TickingClock
from gateway.models.facts_cache import KeyHealthFile
from tests.models.conversation import NOON, ask, hear, shown, user
from tests.peers.anthropic import AnthropicPeer, Refuse

if TYPE_CHECKING:
    from pathlib import Path

    from agent.messages import FailureKind

REQUEST = ask(user("a"), cache_key="s1")
MINUTE, HOUR = 60.0, 3600.0
A, B, C = (Key(f"key {name}", "settings", f"sk-{name}") for name in "abc")


def failure(kind: FailureKind = "rate_limit", retry_after: float | None = None) -> Failure:
    return Failure(kind=kind, message=f"{kind} happened", retry_after=retry_after)


def labels(provider: str, settings: dict[str, Any], **env: str) -> list[str]:
    made = ModelsSettings.model_validate({"providers": {provider: settings}})
    profile = [Key("profile one", "profile", "sk-p")] if provider == "anthropic" else []
    return [key.label for key in keys_of(provider, made, env, lambda name: profile if name == "anthropic" else [])]


def test_profiles_go_before_the_settings_and_those_before_the_environment() -> None:
    env = {
        "ANTHROPIC_API_KEY": "sk-1",
        "ANTHROPIC_API_KEYS": "sk-2, sk-3;sk-1",
        "ANTHROPIC_API_KEY_1": "sk-4",
        "ANTHROPIC_API_KEY_7": " sk-5 ",
    }
    assert labels("anthropic", {"apiKey": "sk-own", "apiKeys": ["sk-own", "sk-more"]}, **env) == [
        "profile one",
        "models.providers.anthropic.apiKey",
        "models.providers.anthropic.apiKeys[1]",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_API_KEYS[0]",
        "ANTHROPIC_API_KEYS[1]",
        "ANTHROPIC_API_KEY_1",
        "ANTHROPIC_API_KEY_7",
    ]
    assert labels("openai", {}, **env) == [], "a key only opens its own provider"
    assert labels("openai", {"apiKey": ["sk-one", " ", "sk-two"], "apiKeys": ["sk-three", "sk-one"]}) == [
        "models.providers.openai.apiKey[0]",
        "models.providers.openai.apiKey[2]",
        "models.providers.openai.apiKeys[0]",
    ]


def test_a_key_is_never_shown() -> None:
    assert "sk-a" not in f"{A!r} {A} {A.id} {A.label}"
    assert len({key.id for key in (A, B, C)}) == 3


class Keys:
    """Three keys of one model, each with a script of its own."""

    def __init__(self, *keys: Key, fixed: bool = True, health: KeyHealth | None = None) -> None:
        self.clock = TickingClock(NOON)
        self.keys = list(keys or (A, B, C))
        self.models = {key.label: ScriptedModel(name="a/model") for key in (A, B, C)}
        self.health = health or KeyHealth(self.clock)
        self.keyed = KeyRotationMiddleware(
            lambda: self.keys, lambda key: self.models[key.label], self.health, fixed=lambda: fixed
        )

    async def ask(self, session: str = "s1") -> Any:
        return await hear(self.keyed, ask(user("a"), cache_key=session))

    @property
    def asked(self) -> list[int]:
        return [len(self.models[key.label].requests) for key in (A, B, C)]


@pytest.mark.parametrize("kind", ["auth", "billing", "rate_limit"])
async def test_the_next_key_answers_when_one_is_turned_down_and_nobody_notices(kind: FailureKind) -> None:
    made = Keys()
    made.models["key a"].then([TextDelta("half"), failure(kind)])
    made.models["key b"].then("whole")
    deltas, answer = await made.ask()
    assert (answer.text, answer.failure, made.asked) == ("whole", None, [1, 1, 0])
    at = deltas.index(Restarted(f"{kind} happened"))
    assert shown(deltas[at:]) == "whole"


@pytest.mark.parametrize("kind", ["bad_request", "overflow", "refusal", "timeout", "overloaded", "network", "unknown_model"])
async def test_what_is_not_the_keys_fault_rests_none_and_is_handed_on(kind: FailureKind) -> None:
    made = Keys()
    made.models["key a"].then(failure(kind), "fine")
    _, answer = await made.ask()
    assert (answer.failure, made.asked) == (failure(kind), [1, 0, 0])
    _, answer = await made.ask("s2")
    assert (answer.text, made.health.ailing(A)) == ("fine", {})


@pytest.mark.parametrize(("minutes", "sent"), [(4, [1, 0, 0]), (5, [0, 0, 0]), (90, [0, 0, 0])])
async def test_what_is_no_use_any_more_when_its_turn_comes_is_not_sent(minutes: int, sent: list[int]) -> None:
    """As when the machine slept between the decision and the call."""
    made = Keys()
    made.models["key a"].then("fine")
    request = ask(user("a"), cache_key="s1", useful_until=NOON + timedelta(minutes=5))
    made.clock.move(minutes * MINUTE)
    _, answer = await hear(made.keyed, request)
    assert made.asked == sent
    assert (answer.failure is None) == (sent[0] == 1)
    assert made.health.ailing(A) == {}


async def test_a_session_keeps_to_its_key_until_that_fails() -> None:
    made = Keys()
    made.models["key a"].then("1", failure(), "6")
    made.models["key b"].then("2", "3", "4")
    assert (await made.ask())[1].text == "1"
    assert (await made.ask("s2"))[1].text == "2"
    made.clock.move(2 * MINUTE)
    assert [(await made.ask(session))[1].text for session in ("s2", "s2")] == ["3", "4"], (
        "although the first key is awake again"
    )
    assert (await made.ask("s3"))[1].text == "6"


async def test_keys_without_an_order_take_turns_by_session() -> None:
    made = Keys(fixed=False)
    for model in made.models.values():
        model.then("x", "y")
    for session in ("s1", "s2", "s3", "s1", "s4"):
        await made.ask(session)
    assert made.asked == [2, 2, 1]


async def test_billing_rests_a_key_for_every_model_and_a_rate_limit_only_for_one() -> None:
    made = Keys()
    await made.health.failed(A, "a/model", failure("rate_limit"))
    await made.health.failed(B, "a/model", failure("billing"))
    assert [key.label for key in made.health.order(made.keys, "a/model")] == ["key c"]
    assert [key.label for key in made.health.order(made.keys, "a/other")] == ["key a", "key c"]
    made.clock.move(2 * MINUTE)
    assert [key.label for key in made.health.order(made.keys, "a/model")] == ["key a", "key c"]
    made.clock.move(5 * HOUR)
    assert [key.label for key in made.health.order(made.keys, "a/model")] == ["key a", "key b", "key c"]


async def test_when_all_rest_only_the_one_that_is_awake_first_is_tried() -> None:
    made = Keys(A, B)
    made.models["key a"].then(failure("billing"), "late")
    made.models["key b"].then(failure("rate_limit"), failure("rate_limit"), "here")
    _, answer = await made.ask()
    assert (answer.failure.kind, made.asked) == ("rate_limit", [1, 1, 0])
    _, answer = await made.ask()
    assert (answer.failure.kind, made.asked) == ("rate_limit", [1, 2, 0]), "the one without money is left alone"
    made.clock.move(1.5 * MINUTE)
    assert (await made.ask())[1].text == "here", "failing while it rested made the rest no longer"


async def test_rests_grow_and_a_success_or_a_day_ends_that() -> None:
    made = Keys(A)
    for minutes in (1, 5, 25, 60, 60):
        await made.health.failed(A, "m", failure())
        [ill] = made.health.ailing(A).values()
        assert (ill.until - ill.at).total_seconds() == minutes * MINUTE
        made.clock.move(minutes * MINUTE + 1)
    await made.health.worked(A, "m")
    await made.health.failed(A, "m", failure())
    assert made.health.ailing(A)["m"].times == 1
    made.clock.move(25 * HOUR)
    await made.health.failed(A, "m", failure())
    assert made.health.ailing(A)["m"].times == 1
    made.clock.move(2 * MINUTE)
    await made.health.failed(A, "m", failure(retry_after=7200))
    rest = made.health.ailing(A)["m"].until - made.clock.now()
    assert round(rest.total_seconds()) == 7200


async def test_keys_come_and_go_between_calls() -> None:
    made = Keys(A)
    made.models["key a"].then(failure("auth"))
    made.models["key c"].then("mine")
    assert (await made.ask())[1].failure is not None
    made.keys = [A, C]
    assert (await made.ask())[1].text == "mine"


async def test_how_keys_have_been_doing_outlives_a_restart_and_holds_no_key(tmp_path: Path) -> None:
    clock, store = TickingClock(NOON), KeyHealthFile(tmp_path / "health.json")
    await KeyHealth(clock, store).failed(A, "a/model", failure("billing"))
    text = (tmp_path / "health.json").read_text()
    assert "sk-a" not in text
    assert (tmp_path / "health.json").stat().st_mode & 0o777 == 0o600
    later = KeyHealth(clock, KeyHealthFile(tmp_path / "health.json"))
    assert later.ailing(A)[EVERY_MODEL].kind == "billing"
    assert later.order([A, B], "a/other") == [B]
    await later.worked(A, "a/model")
    assert KeyHealthFile(tmp_path / "health.json").load() == {}


@given(st.binary(max_size=60) | st.just(b'{"keys":[{"key":"a","model":"b","kind":"auth","times":1,"at":"x","until":"y"}]}'))
def test_a_damaged_file_is_as_good_as_none(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("health") / "health.json"
    path.write_bytes(data)
    assert KeyHealth(TickingClock(NOON), KeyHealthFile(path)).order([A, B], "m") == [A, B]


@given(
    st.lists(
        st.tuples(st.sampled_from([A, B, C]), st.sampled_from(["auth", "billing", "rate_limit", "ok", "wait"])), max_size=12
    ),
    st.booleans(),
)
def test_there_is_always_a_key_to_try_and_none_twice(history: list[tuple[Key, Any]], fixed: bool) -> None:
    clock = TickingClock(NOON)
    health = KeyHealth(clock)

    async def play() -> None:
        for number, (key, what) in enumerate(history):
            health.begun(key, "a/m", f"s{number % 3}")
            if what == "ok":
                await health.worked(key, "a/m")
            elif what == "wait":
                clock.move(HOUR)
            else:
                await health.failed(key, "a/m", failure(what))
            order = health.order([A, B, C], "a/m", f"s{number % 2}", fixed=fixed)
            assert order
            assert len({one.id for one in order}) == len(order)
            resting = [one for one in order if health.ailing(one)]
            assert not resting or len(order) == 1

    asyncio.run(play())


def test_the_keys_of_very_many_sessions_take_little_memory() -> None:
    health = KeyHealth(TickingClock(NOON))
    tracemalloc.start()
    try:
        for number in range(1000):
            health.begun(Key("key a", "settings", "sk-a"), "a/m", f"session number {number} of the gateway")
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 200 * 1000
    finally:
        tracemalloc.stop()
    health.begun(B, "a/m", "session number 7 of the gateway")
    assert health.order([A, B, C], "a/m", "session number 7 of the gateway") == [B, A, C]
    assert health.order([B, A, C], "a/m", "session number 8 of the gateway") == [A, B, C]
    assert health.order([B, A, C], "b/m", "session number 8 of the gateway") == [B, A, C]


async def test_a_real_provider_that_refuses_one_key_is_asked_with_the_next(anthropic_peer: AnthropicPeer) -> None:
    facts = facts_of("anthropic", "claude-haiku-4-5")

    def make(key: Key) -> AnthropicModel:
        return AnthropicModel("claude-haiku-4-5", key=key.secret, facts=facts, base_url=anthropic_peer.url)

    anthropic_peer.answer(Refuse(429, "rate_limit_error", headers={"retry-after": "30"}))
    keyed = KeyRotationMiddleware(lambda: [A, B], make, KeyHealth(TickingClock(NOON)))
    _, answer = await hear(keyed, REQUEST)
    assert answer.text == "Very well."
    assert [sent["authorization"] for sent in anthropic_peer.headers] == ["Bearer sk-a", "Bearer sk-b"]
    await keyed.close()


@pytest.mark.parametrize("secret", ['"sk-abc"', "'sk-abc'", '"sk-abc', "sk-abc`", "“sk-abc”"])
def test_a_key_in_quotes_is_told_as_that(secret: str) -> None:
    settings = ModelsSettings.model_validate({"providers": {"openai": {"apiKey": secret}}})
    found = find("openai/gpt-5", settings, {})
    assert found is not None
    with pytest.raises(ModelNotConfigured, match="is in quotation marks") as refused:
        build_adapter(found)
    assert secret not in str(refused.value)
