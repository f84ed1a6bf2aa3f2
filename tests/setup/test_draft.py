"""Nothing is written before the end, and then each file as a whole."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from gateway.base.errors import SettingsError
from gateway.base.paths import Paths
from gateway.setup.draft import Draft

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 25, tzinfo=UTC)


def test_until_it_is_written_no_file_exists(tmp_path: Path) -> None:
    draft = Draft(Paths(tmp_path / "home"), {})
    draft.put("channels.telegram.botToken", "1000:AAExampleTokenOfThePeerOnLoopback00", secret=True)
    draft.put_key("openai", "sk-secret-1234")
    assert not (tmp_path / "home").exists()
    assert draft.settings.channels.telegram.names() == ["default"]
    assert [key.secret for key in draft.profiles.keys("main", "openai")] == ["sk-secret-1234"]
    told = "\n".join(draft.lines())
    assert "channels.telegram.botToken" in told
    assert "AAExample" not in told
    assert "sk-secret" not in told
    assert sorted(path.name for path in draft.write(NOW)) == ["auth-profiles.json", "homebody.yaml"]
    assert (tmp_path / "home/auth-profiles.json").stat().st_mode & 0o077 == 0
    assert (tmp_path / "home/homebody.yaml").stat().st_mode & 0o077 == 0
    assert (
        json.loads((tmp_path / "home/auth-profiles.json").read_text())["profiles"]["openai:default"]["key"] == "sk-secret-1234"
    )


def test_a_value_that_is_not_allowed_is_refused_and_the_others_stay(tmp_path: Path) -> None:
    draft = Draft(Paths(tmp_path), {})
    draft.put("gateway.port", 18791)
    with pytest.raises(SettingsError) as refused:
        draft.put("channels.telegram.botToken", "nonsense")
    assert "@BotFather" in refused.value.as_text()
    assert draft.settings.gateway.port == 18791
    assert draft.settings.channels.telegram.names() == []


def test_what_was_in_the_file_stays_with_its_comments(tmp_path: Path) -> None:
    file = tmp_path / "homebody.yaml"
    file.write_text("# mine\ngateway:\n  port: 18795  # not the usual one\n")
    draft = Draft(Paths(tmp_path), {})
    draft.put("agents.defaults.model", "ollama/qwen3:8b")
    draft.put("agents.defaults.workspace", "~/diary")
    draft.drop("agents.defaults.workspace")
    draft.write(NOW)
    assert (
        file.read_text()
        == "# mine\ngateway:\n  port: 18795  # not the usual one\nagents:\n  defaults:\n    model: ollama/qwen3:8b\n"
    )


def test_settings_that_cannot_be_used_are_told_before_anything_is_asked(tmp_path: Path) -> None:
    (tmp_path / "homebody.yaml").write_text("gateway:\n  port: many\n")
    with pytest.raises(SettingsError):
        Draft(Paths(tmp_path), {})
