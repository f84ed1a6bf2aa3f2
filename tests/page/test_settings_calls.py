"""The settings as a form: what is shown, written, refused, and never shown."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING, Any

import pytest

from gateway.base.errors import UsageError
from gateway.config.normalize import FieldType, all_keys, fields
from gateway.config.settings_draft import shown_diff
from gateway.config.settings_form import groups, holds_secret, sections
from gateway.config.syntax_tree import dotted_key
from gateway.settings.root import AgentDefaults, Settings
from tests.page.desk import Desk, desk
from tests.sampling import parametrize_some

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

TOKEN = "7342:AAFf-secret-of-telegram"
START = f"""\
# my house
agents:
  defaults:
    workspace: WORKSPACE
    userTimezone: UTC   # where I live
channels:
  telegram:
    enabled: false
    botToken: {TOKEN}   # from BotFather; the old one was {TOKEN}x
    accounts:
      work: {{botToken: file:work.txt, enabled: false}}
models:
  providers:
    local: {{baseUrl: http://ann:hunter22@127.0.0.1:9/v1, headers: {{X-Who: very-hidden}}}}
logging: {{level: info}}
"""


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Desk]:
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home/work.txt").write_text("8:token-of-work")
    file = tmp_path / "home/homebody.yaml"
    file.write_text(START.replace("WORKSPACE", str(tmp_path / "workspace")))
    file.chmod(0o600)
    async with desk(tmp_path) as made:
        yield made


def fields_of(form: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["key"]: row for group in form["groups"] for row in group["fields"]}


async def test_a_section_has_its_keys_with_meaning_default_and_when_they_take_effect(page: Desk) -> None:
    found = await page("settings.form", section="logging")
    level, size = (fields_of(found)[f"logging.{name}"] for name in ("level", "maxBytes"))
    assert (level["value"], level["kind"], level["reload"], level["set"]) == ("info", "choice", "hot", True)
    assert "debug" in level["choices"]
    assert (size["value"], size["default"], size["reload"], size["kind"]) == (None, "10000000", "restart", "whole")
    assert size["doc"].startswith("Size in bytes")
    assert {one["name"] for one in found["sections"] if one["set"]} == {"agents", "channels", "models", "logging"}


async def test_entries_that_the_owner_named_are_in_the_form(page: Desk) -> None:
    found = await page("settings.form", section="channels")
    assert fields_of(found)["channels.telegram.accounts.work.botToken"]["value"] == "file:work.txt"
    assert {"channels.telegram.accounts"} <= {one["path"] for one in found["groups"] if one["adds"] == "table"}


def test_every_key_of_the_settings_is_in_the_form_or_can_be_added() -> None:
    shown: set[str] = set()
    adding: set[str] = set()
    for section in sections():
        for group in groups(section["name"], {}):
            shown |= {row["key"] for row in group["fields"]}
            adding |= {group["path"]} if group["adds"] else set()
    missing = [
        dotted_key(key)
        for key in all_keys(Settings)
        if dotted_key(key) not in shown
        and not any(dotted_key(key).startswith((one, f"{one}.")) for one in (*adding, *(f"{one}." for one in shown)))
        and not any(other != key and other[: len(key)] == key for other in all_keys(Settings))
    ]
    assert missing == []


async def test_no_secret_is_in_any_answer(page: Desk) -> None:
    said = [await page("settings.form", section=one["name"]) for one in (await page("settings.form"))["sections"]]
    changes = [
        {"key": "channels.telegram.botToken", "value": "9:brand-new-secret"},
        {"key": "channels.telegram.dmPolicy", "value": "open"},
        {"key": "models.providers.local.api", "value": "openai-completions"},
    ]
    shown = await page("settings.preview", changes=changes)
    said.append(shown)
    assert any(row.startswith("-") and "********" in row for row in shown["diff"])
    said.append(await page("settings.write", changes=changes, expected=shown["hash"]))
    said.append(await page("settings.preview", changes=[{"key": "channels.telegram.botToken", "value": "x" * 6}]))
    text = json.dumps(said)
    for secret in (TOKEN, "hunter22", "very-hidden", "brand-new-secret", "token-of-work"):
        assert secret not in text


async def test_a_change_is_shown_written_with_comments_kept_and_taken_over(page: Desk, tmp_path: Path) -> None:
    changes = [{"key": "logging.level", "value": "debug"}, {"key": "gateway.port", "value": "9001"}]
    shown = await page("settings.preview", changes=changes)
    assert (shown["hot"], shown["restart"]) == (["logging.level"], ["gateway.port"])
    assert any(row.startswith("+") and "9001" in row for row in shown["diff"])
    done = await page("settings.write", changes=changes, expected=shown["hash"])
    assert (done["written"], done["gateway"]["waiting"]) == (True, ["gateway.port"])
    assert "logging.level" in done["gateway"]["taken"]
    file = tmp_path / "home/homebody.yaml"
    assert "# where I live" in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert page.house.settings.current.logging.level == "debug"
    form = await page("settings.form", section="logging")
    assert (form["waiting"], form["hash"] != shown["hash"]) == (["gateway.port"], True)


async def test_a_key_is_removed_so_that_its_default_applies(page: Desk) -> None:
    form = await page("settings.form", section="logging")
    done = await page("settings.write", changes=[{"key": "logging.level", "value": None}], expected=form["hash"])
    assert done["written"] is True
    assert fields_of(await page("settings.form", section="logging"))["logging.level"]["set"] is False


async def test_a_file_that_was_changed_meanwhile_is_not_written_over(page: Desk, tmp_path: Path) -> None:
    form = await page("settings.form", section="logging")
    file = tmp_path / "home/homebody.yaml"
    file.write_text(file.read_text() + "# by hand\n")
    before = file.read_text()
    done = await page("settings.write", changes=[{"key": "logging.level", "value": "debug"}], expected=form["hash"])
    assert (done["written"], done["changed"], file.read_text()) == (False, True, before)
    again = await page("settings.write", changes=[{"key": "logging.level", "value": "debug"}], expected=done["hash"])
    assert again["written"] is True


@parametrize_some(
    5,
    ("key", "value", "said"),
    [
        ("logging.level", "loud", "is not allowed here"),
        ("gateway.port", "many", "is not allowed here"),
        ("logging.nothing", "1", "no such setting"),
        ("gateway.port", "", "no value"),
        ("budgets.day.usd", "1_0", "is not allowed here; allowed: a number"),
        ("budgets.day.usd", "true", "is not allowed here; allowed: a number"),
        ("budgets.day.tokens", "'1_0'", "is not allowed here; allowed: a whole number"),
        ("budgets.day.usd", "+3", "is not allowed here; allowed: a number"),
        ("budgets.day.usd", "'7'", "is not allowed here; allowed: a number"),
        ("budgets.day.tokens", "!!str 5", "is not allowed here; allowed: a whole number"),
        ("budgets.day", "{usd: +3}", '"+3" is not allowed here'),
        ("gateway.port", "null", "no value"),
        ("models.providers.local.baseUrl", "http://ann:********@host", "a secret is not shown"),
        ("agents.list[7].id", "x", "a new list begins"),
        ("..", "x", "is not the name of a setting"),
    ],
)
async def test_errors_stand_by_their_key_and_nothing_is_written(
    page: Desk, tmp_path: Path, key: str, value: str, said: str
) -> None:
    before = (tmp_path / "home/homebody.yaml").read_text()
    changes = [{"key": key, "value": value}]
    shown = await page("settings.preview", changes=changes)
    (problem,) = shown["problems"]
    assert problem["key"] == key
    assert said in problem["message"]
    done = await page("settings.write", changes=changes, expected=shown["hash"])
    assert (done["written"], done["problems"][0]["key"]) == (False, key)
    assert (tmp_path / "home/homebody.yaml").read_text() == before


async def test_all_wrong_fields_are_told_at_once(page: Desk) -> None:
    given = {"gateway.port": "true", "budgets.warnAt": "7", "logging.level": "debug", "budgets.day.usd": "+3"}
    found = await page("settings.preview", changes=[{"key": key, "value": value} for key, value in given.items()])
    assert {one["key"] for one in found["problems"]} == {"gateway.port", "budgets.warnAt", "budgets.day.usd"}
    assert found["diff"] == []


async def test_what_goes_with_a_wrong_field_is_no_error_of_its_own(page: Desk) -> None:
    changes = [
        {"key": "models.providers.other.baseUrl", "value": "http://a:********@host"},
        {"key": "models.providers.other.api", "value": "x"},
    ]
    found = await page("settings.preview", changes=changes)
    assert [one["key"] for one in found["problems"]] == [one["key"] for one in changes]


async def test_errors_that_the_file_has_already_stand_in_their_section(page: Desk, tmp_path: Path) -> None:
    file = tmp_path / "home/homebody.yaml"
    file.write_text(file.read_text().replace("level: info", "level: loud"))
    form = await page("settings.form", section="logging")
    assert form["problems"][0]["key"] == "logging.level"
    assert {one["name"]: one["problems"] for one in form["sections"]}["logging"] == 1
    done = await page("settings.write", changes=[{"key": "logging.level", "value": "warn"}], expected=form["hash"])
    assert done["written"] is True


@pytest.mark.parametrize(
    "changes", [[], "x", [{}], [{"key": 1, "value": "x"}], [{"key": "a", "value": 3}], [{"key": "a", "value": "x" * 200_000}]]
)
async def test_what_is_no_change_is_refused(page: Desk, changes: Any) -> None:
    with pytest.raises(UsageError):
        await page("settings.preview", changes=changes)


async def test_a_section_that_there_is_not_is_refused(page: Desk) -> None:
    with pytest.raises(UsageError, match="no section"):
        await page("settings.form", section="../etc")


def test_the_difference_of_a_secret_over_several_lines_shows_none_of_it() -> None:
    one = "channels:\n  telegram:\n    botToken: |-\n      first-half\n      second-half\n    enabled: true\n"
    two = one.replace("second", "third").replace("true", "false")
    rows = shown_diff(one, two, "homebody.yaml")
    assert not any("half" in row for row in rows)
    assert {"-    enabled: true", "+    enabled: false"} <= set(rows)


def test_secrets_are_known_at_whatever_depth() -> None:
    provider = fields(Settings)["models"].keys()["providers"]
    assert holds_secret(provider)
    assert not holds_secret(FieldType.of(int))
    assert not holds_secret(FieldType((AgentDefaults,)).keys()["workspace"])


async def test_a_budget_without_a_limit_is_written_as_null(page: Desk, tmp_path: Path) -> None:
    changes = [{"key": "budgets.day.usd", "value": "null"}]
    shown = await page("settings.preview", changes=changes)
    assert any(row.strip("+ ") == "usd: null" for row in shown["diff"]), shown["diff"]
    assert (await page("settings.write", changes=changes, expected=shown["hash"]))["written"] is True
    assert page.house.settings.current.budgets.day.usd is None
    row = fields_of(await page("settings.form", section="budgets"))["budgets.day.usd"]
    assert (row["value"], row["set"], row["default"]) == ("null", True, "5.0")


async def test_a_workspace_is_checked_against_the_home_of_the_gateway(page: Desk, tmp_path: Path) -> None:
    form = await page("settings.form", section="agents")
    changes = [{"key": "agents.defaults.workspace", "value": str(tmp_path / "home")}]
    done = await page("settings.write", changes=changes, expected=form["hash"])
    assert (done["written"], "workspace" in done["problems"][0]["message"]) == (False, True), done


@pytest.mark.parametrize(
    ("key", "value"), [("budgets.day.usd", "1e400"), ("budgets.day.usd", ".inf"), ("budgets.day.usd", ".nan")]
)
async def test_no_number_is_infinite(page: Desk, key: str, value: str) -> None:
    found = await page("settings.preview", changes=[{"key": key, "value": value}])
    [problem] = found["problems"]
    assert (problem["key"], found["diff"]) == (key, [])
    assert "number" in problem["message"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("agents.defaults.heartbeat.every", "30m"),
        ("agents.defaults.contextPruning.ttl", "5m"),
        ("session.maintenance.pruneAfter", "30d"),
        ("budgets.day.usd", ".5"),
        ("gateway.port", "${HOMEBODY_NO_PORT}"),
    ],
)
async def test_times_in_words_numbers_and_variables_are_taken(page: Desk, key: str, value: str) -> None:
    found = await page("settings.preview", changes=[{"key": key, "value": value}])
    assert (found["problems"], found["diff"] != []) == ([], True)


async def test_what_the_write_mends_is_no_warning_of_the_difference(page: Desk, tmp_path: Path) -> None:
    file = tmp_path / "home/homebody.yaml"
    file.chmod(0o644)
    changes = [{"key": "logging.level", "value": "debug"}]
    found = await page("settings.preview", changes=changes)
    assert not [one for one in found["warnings"] if "other users" in one["message"]]
    await page("settings.write", changes=changes, expected=found["hash"])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
