"""Secrets that stand in files are taken out of the logs like any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.app.dependencies import known_secrets
from gateway.base.api_token import FILE_NAME, token_from_file
from gateway.base.paths import Paths
from gateway.logs.redaction import Redactor
from gateway.settings.root import Settings

if TYPE_CHECKING:
    from pathlib import Path


def test_the_house_knows_its_own_token_and_those_in_the_files_that_its_settings_name(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "home")
    paths.prepare()
    token = token_from_file(paths.state / FILE_NAME)
    (tmp_path / "one").write_text("1:the-first-bot\n")
    (tmp_path / "two").write_text("2:the-second-bot")
    settings = Settings.model_validate(
        {
            "channels": {
                "telegram": {
                    "tokenFile": str(tmp_path / "one"),
                    "accounts": {"b": {"tokenFile": str(tmp_path / "two")}, "c": {"tokenFile": str(tmp_path / "none")}},
                }
            },
            "models": {"providers": {"mine": {"apiKey": "sk-in-the-settings"}}},
        }
    )
    known = known_secrets(settings, paths, {"SOME_API_KEY": "in-the-environment"})
    line = f"{token} 1:the-first-bot 2:the-second-bot sk-in-the-settings in-the-environment and words"
    assert Redactor(known).text(line) == "[secret] [secret] [secret] [secret] [secret] and words"


def test_the_address_of_the_database_is_a_secret_only_where_it_holds_a_password(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "home")
    paths.prepare()

    def shown(url: str) -> str:
        settings = Settings.model_validate({"storage": {"url": url}})
        return Redactor(known_secrets(settings, paths, {"DATABASE_URL": url})).text(f"{url} (schema homebody) is away")

    plain = "postgresql://ann@db.example:5432/house"
    assert shown(plain) == f"{plain} (schema homebody) is away"
    for secret in (
        "postgresql://ann:hunter2hunter2@db.example/house",
        "postgresql://ann@db.example/house?password=hunter2hunter2",
    ):
        assert "hunter2" not in shown(secret)
