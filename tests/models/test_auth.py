"""Keys in files: added, listed and taken out by command, used by agents in their order, and seen nowhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from agent.messages import Failure
from agent.models.catalog.provider_keys import Key
from agent.models.middleware.key_health import KeyHealth
from gateway.agents.memory_stores import owner_zone
from gateway.base.clock import ManualClock, SystemClock
from gateway.base.errors import StorageFailed, UsageError
from gateway.base.paths import Paths
from gateway.cli.click_commands import homebody
from gateway.models.facts_cache import KEY_HEALTH_NAME as HEALTH
from gateway.models.facts_cache import KeyHealthFile
from gateway.models.key_profiles import FILE_NAME, Profile, ProfileFile, Profiles
from gateway.settings.auth_settings import AuthSettings
from gateway.settings.root import Settings
from tests.models.conversation import NOON

if TYPE_CHECKING:
    from pathlib import Path

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def command(*arguments: str, given: str = "") -> Result:
        return CliRunner().invoke(homebody, ["--home", str(tmp_path), "models", *arguments], input=given)

    return command


def profiles(root: Path, **auth: Any) -> Profiles:
    return Profiles(Paths(root), AuthSettings.model_validate(auth))


def test_a_key_is_added_from_a_pipe_listed_without_being_shown_and_taken_out(run: Run, tmp_path: Path) -> None:
    made = run("auth", "add", "claude", given=" sk-very-secret \n")
    assert made.exit_code == 0, made.output
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
    run("auth", "add", "anthropic", "--id", "anthropic:work", "--token", given="sk-other")
    listed = run("auth", "list", "--json")
    assert json.loads(listed.output) == [
        {"id": "anthropic:default", "provider": "anthropic", "mode": "api_key", "agent": None, "unused": False},
        {"id": "anthropic:work", "provider": "anthropic", "mode": "token", "agent": None, "unused": False},
    ]
    status = run("status", "--json")
    anthropic = next(one for one in json.loads(status.stdout)["providers"] if one["provider"] == "anthropic")
    assert anthropic["key"] == "profile"
    assert [key["from"] for key in anthropic["keys"]] == ["profile anthropic:default", "profile anthropic:work"]
    assert "anthropic/claude-sonnet-5-5" in run("list").output
    shown = "".join(one.output for one in (made, listed, status, run("status"), run("auth", "list")))
    assert "sk-" not in shown
    assert run("auth", "remove", "anthropic:default").exit_code == 0
    with pytest.raises(UsageError, match="no key 'anthropic:default'"):
        raise run("auth", "remove", "anthropic:default").exception  # type: ignore[misc]  # there is one
    assert [key.secret for key in profiles(tmp_path).keys("main", "anthropic")] == ["sk-other"]


def test_an_order_that_leaves_a_key_out_or_names_none_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "homebody.yaml").write_text("auth: {order: {anthropic: [anthropic:work, anthropic:gone]}}")
    run("auth", "add", "anthropic", "--id", "anthropic:work", given="sk-work")
    made = run("auth", "add", "anthropic", given="sk-idle")
    assert "anthropic:default is not used: auth.order.anthropic does not name it" in made.output
    assert "homebody models probe anthropic/claude-sonnet-5-5" in made.output
    listed = run("auth", "list")
    rows = {line.split()[0]: "not used" in line for line in listed.stdout.splitlines()}
    assert rows == {"anthropic:work": False, "anthropic:default": True}
    assert "anthropic:gone, which does not exist (homebody models auth add anthropic --id anthropic:gone)" in listed.output


def test_a_key_of_another_file_is_taken_out_by_the_command_that_is_told(run: Run, tmp_path: Path) -> None:
    run("auth", "add", "openai", "--agent", "main", given="sk-of-main")
    refused = run("auth", "remove", "openai:default")
    assert isinstance(refused.exception, UsageError)
    assert refused.exception.hint == "homebody models auth remove openai:default --agent main"
    gone = run("auth", "remove", "openai:default", "--agent", "main", "--json")
    assert json.loads(gone.stdout) == {"id": "openai:default", "agent": "main", "removed": True, "gateway": None}


@pytest.mark.parametrize(
    ("arguments", "given", "why"),
    [
        (("anthropic",), "", "this is not a key"),
        (("anthropic",), "two words", "this is not a key"),
        (("antropic",), "sk-1", "no provider 'antropic'"),
        (("anthropic", "--agent", "nobody"), "sk-1", "no agent 'nobody'"),
    ],
)
def test_what_is_no_key_or_provider_is_told(run: Run, tmp_path: Path, arguments: tuple[str, ...], given: str, why: str) -> None:
    refused = run("auth", "add", *arguments, given=given)
    assert why in str(refused.exception)
    assert not (tmp_path / FILE_NAME).exists()


async def test_the_owner_says_how_long_keys_rest(tmp_path: Path) -> None:
    made = profiles(tmp_path, cooldowns={"firstMinutes": 2, "billingBackoffHours": 1, "billingMaxHours": 1.5})
    clock, key = ManualClock(NOON), Key("x", "profile", "sk-x")
    health = KeyHealth(clock, rests=lambda: made.settings.cooldowns.rests)
    lengths = []
    for kind in ("rate_limit", "billing", "billing"):
        await health.failed(key, kind, Failure(kind=kind, message="no"))
        until = max(ill.until for ill in health.ailing(key).values())
        lengths.append((until - clock.now()).total_seconds() / 60)
        clock.move(90 * 60)
    assert lengths == [2, 60, 90]


async def test_how_keys_are_is_told_in_the_status(run: Run, tmp_path: Path) -> None:
    await asyncio.to_thread(run, "auth", "add", "openai", given="sk-poor")
    (tmp_path / "state").mkdir()
    health = KeyHealth(SystemClock(), KeyHealthFile(tmp_path / "state" / HEALTH))
    await health.failed(Key("x", "profile", "sk-poor"), "openai/gpt-6-sol", Failure(kind="billing", message="no money"))
    status = await asyncio.to_thread(run, "status", "--json")
    openai = next(one for one in json.loads(status.stdout)["providers"] if one["provider"] == "openai")
    [ill] = openai["keys"][0]["ailing"]
    assert (ill["model"], ill["why"]) == ("*", "billing")
    assert "paused until" in (await asyncio.to_thread(run, "status")).output


def test_an_agents_own_keys_go_first_and_are_nobody_elses(tmp_path: Path) -> None:
    made = profiles(tmp_path)
    made.file().put(Profile("anthropic:home", "anthropic", "api_key", "sk-home"))
    made.file("work").put(Profile("anthropic:work", "anthropic", "api_key", "sk-work"))
    assert [key.secret for key in made.keys("work", "anthropic")] == ["sk-work", "sk-home"]
    assert [key.secret for key in made.keys("main", "anthropic")] == ["sk-home"]
    assert made.keys("main", "openai") == []


def test_the_owners_order_counts_and_leaves_out_what_it_does_not_name(tmp_path: Path) -> None:
    made = profiles(tmp_path, order={"anthropic": ["c", "gone", "a"]})
    for name in "abc":
        made.file().put(Profile(name, "anthropic", "api_key", f"sk-{name}"))
    assert [key.label for key in made.keys("main", "anthropic")] == ["profile c", "profile a"]
    assert (made.ordered("anthropic"), made.ordered("openai")) == (True, False)
    noted = profiles(tmp_path, profiles={"b": {"provider": "anthropic"}})
    assert [key.label for key in noted.keys("main", "anthropic")] == ["profile b", "profile a", "profile c"]


def test_a_sign_in_for_chat_never_opens_embeddings(tmp_path: Path) -> None:
    made = profiles(tmp_path, profiles={"noted": {"provider": "openai", "mode": "token"}})
    made.file().put(Profile("chat", "openai", "token", "sk-chat"))
    made.file().put(Profile("noted", "openai", "api_key", "sk-noted"))
    assert made.for_embeddings("main")("openai") is None
    made.file().put(Profile("real", "openai", "api_key", "sk-real"))
    assert made.for_embeddings("main")("openai") == "sk-real"
    assert made.for_embeddings("main")("google") is None


def test_a_key_added_meanwhile_counts_at_once(tmp_path: Path) -> None:
    running, command = profiles(tmp_path), profiles(tmp_path)
    assert running.keys("main", "openai") == []
    before = running.stamp("main")
    command.file().put(Profile("one", "openai", "api_key", "sk-1"))
    assert [key.secret for key in running.keys("main", "openai")] == ["sk-1"]
    assert running.stamp("main") != before
    command.file().remove("one")
    assert running.keys("main", "openai") == []


def test_a_file_that_others_can_read_is_made_private(tmp_path: Path) -> None:
    made = profiles(tmp_path)
    made.file().put(Profile("one", "openai", "api_key", "sk-1"))
    (tmp_path / FILE_NAME).chmod(0o644)
    assert len(profiles(tmp_path).keys("main", "openai")) == 1
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_a_damaged_file_is_no_reason_to_stop_and_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text('{"profiles": {"a": ', "utf-8")
    assert profiles(tmp_path).keys("main", "openai") == []
    with pytest.raises(StorageFailed):
        ProfileFile(path).put(Profile("one", "openai", "api_key", "sk-1"))
    assert path.read_text() == '{"profiles": {"a": '


@given(st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda inner: st.dictionaries(
    st.sampled_from(["profiles", "a", "type", "provider", "key", "api_key"]), inner, max_size=4
), max_leaves=12))  # fmt: skip
def test_any_json_at_all_is_read(tmp_path_factory: pytest.TempPathFactory, raw: Any) -> None:
    path = tmp_path_factory.mktemp("auth") / FILE_NAME
    path.write_text(json.dumps(raw))
    for profile in ProfileFile(path).profiles().values():
        assert profile.secret


def test_secrets_are_in_no_text_about_them(tmp_path: Path) -> None:
    profile = Profile("one", "openai", "api_key", "sk-1234567")
    made = profiles(tmp_path)
    made.file().put(profile)
    assert "sk-1234567" not in f"{profile!r} {made.keys('main', 'openai')!r} {made.file().profiles()!r}"
    assert made.secrets(["main"]) == ["sk-1234567"]


def test_memory_is_handed_the_agents_key(tmp_path: Path) -> None:
    from random import Random

    from gateway.agents.memory_stores import open_memory

    settings = Settings.model_validate({"agents": {"defaults": {"workspace": str(tmp_path / "ws")}}})
    profile = settings.agent("main")
    assert owner_zone(profile)
    profiles(tmp_path).file().put(Profile("one", "openai", "api_key", "sk-1"))
    told: list[str] = []
    _, choice = open_memory(profile, settings, Paths(tmp_path), env={}, clock=SystemClock(), random=Random(1), tell=told.append)
    assert "openai" in choice.reason.lower()
