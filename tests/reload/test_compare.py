"""What a change of the settings comes to."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.config.effective import alike, compare, reload_mode
from gateway.config.syntax_tree import parse_key
from gateway.settings.root import Settings

KEYS: dict[tuple[str, ...], list[Any]] = {
    ("agents", "defaults", "model"): ["a/b", "c/d", {"primary": "e/f"}],
    ("agents", "defaults", "workspace"): ["/one", "/two"],
    ("agents", "defaults", "limits", "maxToolCalls"): [5, 6],
    ("agents", "defaults", "maxConcurrent"): [2, 32],
    ("agents", "list"): [[{"id": "a"}], [{"id": "a", "model": "x/y"}], [{"id": "a", "skipBootstrap": True}, {"id": "b"}]],
    ("session", "reset", "mode"): ["daily", "none"],
    ("session", "resetByChannel"): [{"telegram": {"mode": "idle"}}, {"telegram": {"mode": "daily"}}],
    ("channels", "telegram", "dmPolicy"): ["pairing", "open"],
    ("budgets", "day", "usd"): [1, 2.5],
    ("gateway", "port"): [0, 1234],
    ("logging", "level"): ["info", "debug"],
    ("logging", "keep"): [5, 7],
    ("plugins", "slots", "memory"): ["none", "memory-core"],
}
SETTINGS = st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in KEYS.items()})


def settings(said: dict[tuple[str, ...], Any]) -> Settings:
    given: dict[str, Any] = {}
    for path, value in said.items():
        here = given
        for step in path[:-1]:
            here = here.setdefault(step, {})
        here[path[-1]] = value
    return Settings.model_validate(given)


@given(SETTINGS, SETTINGS)
def test_each_changed_key_is_either_taken_or_waits_as_it_declares(one: dict, two: dict) -> None:
    found = compare(settings(one), settings(two))
    assert {reload_mode(parse_key(key)) for key in found.taken} <= {"hot"}
    assert {reload_mode(parse_key(key)) for key in found.waiting} <= {"restart"}
    assert not set(found.taken) & set(found.waiting)


@given(SETTINGS, SETTINGS)
def test_what_holds_then_has_nothing_left_to_take_and_the_same_waits(one: dict, two: dict) -> None:
    wanted = settings(two)
    first = compare(settings(one), wanted)
    again = compare(first.settings, wanted)
    assert (again.taken, again.waiting) == ((), first.waiting)
    back = compare(first.settings, settings(one))
    assert back.waiting == ()


@given(SETTINGS)
def test_the_same_settings_are_no_change(one: dict) -> None:
    found = compare(settings(one), settings(one))
    assert (found.taken, found.waiting) == ((), ())
    if ("agents", "list") in one:
        assert alike(found.settings, settings(one))


def test_agents_are_told_apart_by_their_ids() -> None:
    before = Settings.model_validate({"agents": {"list": [{"id": "a", "model": "x/1"}, {"id": "b", "model": "x/2"}]}})
    after = Settings.model_validate(
        {"agents": {"list": [{"id": "b", "model": "x/3"}, {"id": "c"}, {"id": "a", "model": "x/1"}]}}
    )
    found = compare(before, after)
    assert (found.taken, found.waiting) == (("agents.list", "agents.list[0].model"), ())
    assert found.settings.agent_ids == ("b", "c", "a")
    assert found.settings.agent("b").settings.model == "x/3"


def test_what_an_entry_does_not_say_is_still_taken_from_the_defaults_that_hold_now() -> None:
    before = Settings.model_validate({"agents": {"defaults": {"promptMode": "full"}, "list": [{"id": "a"}]}})
    after = Settings.model_validate({"agents": {"defaults": {"promptMode": "none"}, "list": [{"id": "a"}]}})
    assert compare(before, after).settings.agent("a").settings.prompt_mode == "none"
