"""Sections that no file names cost no validator, and behave as all others."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from gateway.settings.root import Settings

ROOT = Path(__file__).resolve().parents[2]
MADE = """
import json, sys
from pydantic import BaseModel
from gateway.settings.root import Settings

def below(model):
    for one in model.__subclasses__():
        yield one
        yield from below(one)

settings = Settings.model_validate(json.loads(sys.argv[1]))
settings.agent(settings.default_agent)
print(*sorted({one.__name__ for one in below(BaseModel) if one.__pydantic_complete__}))
"""


def made_for(given: dict[str, object]) -> set[str]:
    told = subprocess.run([sys.executable, "-c", MADE, json.dumps(given)], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(told.stdout.split())


def test_a_section_that_is_not_named_has_no_validator() -> None:
    made = made_for({"channels": {"telegram": {"botToken": "1:x"}}})
    assert {"Settings", "ChannelsSettings", "TelegramSettings"} <= made
    assert not made & {"DiscordSettings", "MailSettings", "MatrixSettings", "McpSettings", "SlackSettings", "WhatsAppSettings"}


def test_a_problem_in_a_deferred_section_keeps_its_place() -> None:
    with pytest.raises(ValidationError) as raised:
        Settings.model_validate({"channels": {"telegram": {"textChunkLimit": "x"}}, "gateway": {"port": "y"}, "mail": 3})
    assert {error["loc"] for error in raised.value.errors()} == {
        ("channels", "telegram", "textChunkLimit"),
        ("gateway", "port"),
        ("mail",),
    }


def test_what_is_dumped_is_read_back_as_the_same_settings() -> None:
    given = {
        "agents": {"defaults": {"memorySearch": {"query": {"maxResults": 3}}}, "list": ({"id": "a"}, {"id": "b"})},
        "gateway": {"port": 4000, "bind": "lan"},
        "mail": {"accounts": {}},
    }
    settings = Settings.model_validate(given)
    dumped = settings.model_dump(by_alias=True, exclude_unset=True)
    assert dumped["agents"] == given["agents"]
    assert dumped["gateway"] == given["gateway"]
    assert Settings.model_validate(dumped) == settings
    assert Settings.model_validate(settings.model_dump(by_alias=True)) == settings
    whole = json.loads(settings.model_dump_json(exclude={"gateway": {"port"}, "cluster": True}))
    assert "port" not in whole["gateway"]
    assert whole["gateway"]["bind"] == "lan"
    assert "cluster" not in whole
