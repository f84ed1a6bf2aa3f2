"""``homebody route explain``: which agent answers whom, and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.cli import main

SETTINGS = {
    "agents": {"list": [{"id": "main"}, {"id": "work", "name": "Wanda"}]},
    "channels": {
        "telegram": {"botToken": "1:a", "allowFrom": ["42"], "groups": {"-100": {}, "-200": {"requireMention": False}}},
        "slack": {"botToken": "xoxb-1", "dm": {"policy": "allowlist", "allowFrom": ["UANNA0001"]}},
    },
    "bindings": [
        {"agentId": "work", "match": {"channel": "slack"}},
        {"agentId": "work", "match": {"channel": "telegram", "peer": {"kind": "group", "id": "-100"}, "thread": "7"}},
        {"agentId": "gone", "match": {"channel": "telegram"}},
    ],
    "broadcast": {"telegram:-200": ["main", "work"]},
}


@pytest.fixture
def explain(tmp_path, capsys, monkeypatch):
    path = tmp_path / "homebody.json"
    path.touch(0o600)
    path.write_text(json.dumps(SETTINGS))
    monkeypatch.setenv("HOMEBODY_HOME", str(tmp_path))

    def command(*arguments: str, as_json: bool = True):
        code = main(["route", "explain", *arguments, *(["--json"] if as_json else [])])
        shown = capsys.readouterr()
        return code, json.loads(shown.out) if as_json and code == 0 else shown.out + shown.err

    return command


def test_the_owner_in_private_speaks_to_the_default_agent_and_hears_the_owners_memory(explain):
    code, facts = explain("--channel", "telegram", "--peer", "42")
    assert code == 0
    assert facts["speaks"] == {"may": True, "role": "owner", "person": "telegram-42", "reason": ""}
    assert facts["answers"] == [
        {
            "agent": "main",
            "sessionKey": "agent:main:main",
            "memory": "owner",
            "folder": "memory",
            "workspace": str(Path.home() / "homebody"),
        }
    ]
    assert [rule["why"] for rule in facts["rules"]] == [
        "it is for the channel slack",
        "it is for the group -100",
        "it matches the account; but there is no such agent",
    ]


def test_a_stranger_may_not_speak_and_gets_no_code_by_being_asked_about(explain):
    facts = explain("--channel", "telegram", "--peer", "66")[1]
    assert facts["speaks"]["may"] is False
    assert "pairing code" in facts["speaks"]["reason"]
    assert facts["answers"][0]["sessionKey"] == "agent:main:telegram:dm:66"
    assert facts["answers"][0]["folder"] == "memory/peers/telegram-66"
    facts = explain("--channel", "slack", "--peer", "UBEN00001", "--chat", "D1")[1]
    assert facts["speaks"]["reason"] == "the sender is not in allowFrom"
    assert facts["answers"][0]["agent"] == "work"


def test_a_topic_leads_to_its_agent_and_the_group_is_heard(explain):
    facts = explain("--channel", "telegram", "--peer", "42", "--group", "-100", "--thread", "7")[1]
    assert [rule["wins"] for rule in facts["rules"]] == [False, True, False]
    assert facts["mention"]["required"] is True
    assert len(facts["mention"]["patterns"]) == 1, "Wanda is called by her name"
    assert facts["answers"][0]["folder"] == "memory/groups/telegram--100"


def test_it_is_told_in_words(explain):
    code, out = explain("--channel", "telegram", "--peer", "42", as_json=False)
    assert code == 0
    assert "42 (telegram-42, the owner) may write in telegram:default:direct:42." in out
    assert "-> no rule matches: the default agent, main, answers" in out
    out = explain("--channel", "slack", "--peer", "UANNA0001", as_json=False)[1]
    assert "-> bindings[0] (agent work): it matches the account" in out
    out = explain("--channel", "telegram", "--peer", "42", "--group", "-200", as_json=False)[1]
    assert out.count("answers in session") == 2
    assert "`broadcast` names this conversation" in out
    assert "every message there" in out


def test_the_command_that_lets_somebody_speak_in_a_group_is_named(explain):
    def mends(*where: str) -> list[str]:
        return explain("--channel", "telegram", "--peer", *where)[1]["mend"]

    group = "homebody config set channels.telegram.groups"
    assert mends("66", "--group", "-100") == [f"""{group}.-100.allowFrom '["42","66"]'"""]
    assert mends("42", "--group", "-300") == [f"{group}.-300.enabled true"]
    assert mends("42", "--group", "-100") == mends("66") == []
    told = explain("--channel", "telegram", "--peer", "66", "--group", "-100", as_json=False)[1]
    assert f"""To allow it: {group}.-100.allowFrom '["42","66"]'""" in told


def test_a_channel_that_is_not_set_up_is_told(explain):
    code, out = explain("--channel", "discord", "--peer", "42", as_json=False)
    assert code == 2
    assert "slack:default, telegram:default" in out


def test_without_any_channel_the_command_that_sets_one_up_is_named(explain, tmp_path):
    (tmp_path / "homebody.json").write_text("{}")
    code, out = explain("--channel", "telegram", "--peer", "42", as_json=False)
    assert code == 2
    assert "`homebody setup` sets one up" in out
