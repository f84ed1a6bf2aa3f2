"""Answers of several gateways become one; the table of calls names calls and arguments that exist; settings that differ are named."""

from __future__ import annotations

import os
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.api.forwarding.answer_merging import merged, merged_status
from gateway.api.forwarding.call_table import ROUTES, Holder
from gateway.api.handlers.late_calls import LateCall
from gateway.app.dependencies import Dependencies
from gateway.app.gateway import Gateway
from gateway.base.paths import Paths
from gateway.cluster.settings_marks import differing, lists_agent, marks_of
from gateway.settings.root import Settings
from tests.properties import examples

if TYPE_CHECKING:
    from pathlib import Path

ROWS = st.lists(st.integers(1, 30), unique=True, max_size=8)


@settings(max_examples=examples(60))
@given(st.lists(ROWS, min_size=1, max_size=4))
def test_lists_are_joined_in_order_and_each_row_is_there_once(found: list[list[int]]) -> None:
    answers = [{"outbox": [{"id": one, "text": f"{one}"} for one in rows]} for rows in found]
    told = [one["id"] for one in merged(answers, {"outbox": "-id"})["outbox"]]
    assert told == sorted({one for rows in found for one in rows}, reverse=True)


def test_counts_are_added_and_names_stand_before_what_others_notice() -> None:
    here = {
        "pid": 1,
        "version": "2",
        "agents": {"anna": {"sessions": 1}},
        "turns": {"running": 1},
        "notices": ["disk"],
        "paused": [],
    }
    there = {
        "pid": 9,
        "version": "2",
        "agents": {"bob": {"sessions": 3}},
        "turns": {"running": 2},
        "notices": ["clock"],
        "paused": [],
    }
    told = merged_status([("kitchen", here), ("cellar", there)], ["attic cannot be reached"])
    assert (told["pid"], told["turns"], set(told["agents"])) == (1, {"running": 3}, {"anna", "bob"})
    assert told["notices"] == ["disk", "cellar: clock", "attic cannot be reached. What it holds is missing here."]
    assert [one["gateway"] for one in told["gateways"]] == ["kitchen", "cellar"]


def test_of_what_several_tell_the_holder_tells_most() -> None:
    stranger, holder = {"agent": "bob", "type": "git"}, {"agent": "bob", "type": "git", "ahead": 2}
    assert merged([{"workspaces": [stranger]}, {"workspaces": [holder]}], {}) == {"workspaces": [holder]}


async def test_the_table_names_calls_and_arguments_that_there_are(tmp_path: Path) -> None:
    gateway = await Gateway.open(Dependencies(settings=Settings(), paths=Paths(home=tmp_path), env=os.environ))
    try:
        calls: dict[str, Any] = gateway.page.page_calls(gateway.calls())
        calls = {name: await call.real() if isinstance(call, LateCall) else call for name, call in calls.items()}
        assert set(calls) >= set(ROUTES)
        for name, route in ROUTES.items():
            taken = signature(calls[name]).parameters
            if isinstance(route, Holder) and not any(one.kind is Parameter.VAR_KEYWORD for one in taken.values()):
                assert route.argument in taken, name
        about = {name for name, call in calls.items() if {"agent", "session"} & set(signature(call).parameters)}
        shared_or_own = {"approvals.rules", "hooks.add", "hooks.change", "logs.read"}
        assert about - set(ROUTES) == shared_or_own
    finally:
        await gateway.close()


def test_keys_that_differ_are_named_and_values_are_not_told() -> None:
    def marks(**given: Any) -> dict[str, str]:
        return marks_of(Settings.model_validate({"channels": {"telegram": {"botToken": "123:abc"}}, **given}), b"secret")

    plain = marks()
    assert differing([plain, marks(), plain]) == []
    assert differing([plain, marks(gateway={"port": 1}, cluster={"address": "http://10.0.0.5:1"})]) == []
    other = marks(channels={"telegram": {"botToken": "123:other"}}, agents={"list": [{"id": "anna", "name": "Anna"}]})
    assert differing([plain, other]) == ["agents.list[0].id", "agents.list[0].name", "channels.telegram.botToken"]
    assert "abc" not in str(plain)
    assert [lists_agent(other, one, b"secret") for one in ("anna", "main")] == [True, False]
    assert [lists_agent(plain, one, b"secret") for one in ("anna", "main")] == [False, True]
